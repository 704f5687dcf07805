package accuracy

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// What is read of the files of others, at most.
const (
	mostLines  = 100_000
	longestRow = 64 << 20 // bytes: requests of agents carry all that was said
	longestSum = 1 << 20  // of a summary
)

// ReadVerifier reads the answers of a deployment as K2VV and MiniMax's verifier have written them, a results.jsonl of their
// tool_calls_eval.py and verify.py: one line for each line of their samples, with the request and the answer. Questions are
// numbered as the lines of the samples are, from 1. What an answer is worth is decided anew, as of [readCall]'s questions.
func ReadVerifier(r io.Reader) ([]Answer, error) {
	type row struct {
		Index   int             `json:"data_index"`
		At      string          `json:"last_run_at"`
		Status  string          `json:"status"`
		Request json.RawMessage `json:"request"`
		Answer  struct {
			Error   string `json:"error"`
			Choices []struct {
				Finish  string `json:"finish_reason"`
				Message struct {
					Content         string `json:"content"`
					Reasoning       string `json:"reasoning"`
					ReasoningLonger string `json:"reasoning_content"`
					Calls           []struct {
						Function struct {
							Name      string          `json:"name"`
							Arguments json.RawMessage `json:"arguments"`
						} `json:"function"`
					} `json:"tool_calls"`
				} `json:"message"`
			} `json:"choices"`
			Usage struct {
				Prompt    int `json:"prompt_tokens"`
				Completed int `json:"completion_tokens"`
			} `json:"usage"`
		} `json:"response"`
	}
	type made struct {
		at     string
		answer Answer
	}
	latest := map[int]made{}
	in := bufio.NewScanner(r)
	in.Buffer(nil, longestRow)
	for n := 1; in.Scan(); n++ {
		if len(strings.TrimSpace(in.Text())) == 0 {
			continue
		}
		var one row
		if err := json.Unmarshal(in.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case n > mostLines:
			return nil, fmt.Errorf("it has more than %d lines", mostLines)
		case one.Index < 1 || one.Status != "success" && one.Status != "failed":
			return nil, fmt.Errorf("line %d: it has no \"data_index\" and \"status\", as results of K2VV or MiniMax's verifier do", n)
		}
		q, err := readCall(one.Request)
		if err != nil { // theirs offer tools, too, whose schemas are none
			q = Question{}
		}
		var reply Reply
		switch {
		case one.Status == "failed":
			reply.Error = cmp.Or(one.Answer.Error, "it has failed")
		case len(one.Answer.Choices) == 0:
			reply.Error = "the answer has no choices"
		default:
			choice := one.Answer.Choices[0]
			reply = Reply{Text: choice.Message.Content, Reasoning: cmp.Or(choice.Message.ReasoningLonger, choice.Message.Reasoning),
				Finish: choice.Finish, InputTokens: one.Answer.Usage.Prompt, OutputTokens: one.Answer.Usage.Completed}
			for _, c := range choice.Message.Calls {
				call := Call{Name: c.Function.Name}
				if json.Unmarshal(c.Function.Arguments, &call.Arguments) != nil {
					call.Arguments = string(c.Function.Arguments) // an object, which they take, too
				}
				reply.Calls = append(reply.Calls, call)
			}
		}
		a := Answer{Question: strconv.Itoa(one.Index)}
		a.Mark, a.Extracted = markCall(q, reply)
		if had, has := latest[one.Index]; !has || one.At >= had.at {
			latest[one.Index] = made{one.At, stored(a, reply)}
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if len(latest) == 0 {
		return nil, errors.New("it has no answers")
	}
	var answers []Answer
	indexes := make([]int, 0, len(latest))
	for index := range latest {
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	for _, index := range indexes {
		answers = append(answers, latest[index].answer)
	}
	return answers, nil
}

// ReadVerifierSummary reads the figures that K2VV or MiniMax's verifier has written, its summary.json.
func ReadVerifierSummary(r io.Reader) (CallScore, error) {
	text, err := io.ReadAll(io.LimitReader(r, longestSum+1))
	if err != nil {
		return CallScore{}, err
	}
	var s struct {
		Success    *int `json:"success_count"`
		Failure    *int `json:"failure_count"`
		K2Called   *int `json:"finish_tool_calls"`
		K2Valid    *int `json:"successful_tool_call_count"`
		MiniCalled *int `json:"tool_calls_finish_tool_calls"`
		MiniValid  *int `json:"tool_calls_successful_count"`
		Reasoning  int  `json:"error_only_reasoning_count"` // MiniMax's
	}
	if len(text) > longestSum {
		return CallScore{}, fmt.Errorf("it has more than %d bytes", longestSum)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return CallScore{}, err
	}
	called, valid := cmp.Or(s.K2Called, s.MiniCalled), cmp.Or(s.K2Valid, s.MiniValid)
	if s.Success == nil || s.Failure == nil || called == nil || valid == nil {
		return CallScore{}, errors.New("it is no summary of K2VV or MiniMax's verifier: \"success_count\", \"failure_count\" or the counts of tool calls are missing")
	}
	sum := CallScore{*s.Success + *s.Failure, *called, *valid, s.Reasoning, *s.Failure}
	if *s.Success < 0 || sum.Failed < 0 || sum.OnlyReasoning < 0 || sum.Valid < 0 || sum.Valid > sum.Called || sum.Called > *s.Success {
		return CallScore{}, errors.New("its counts contradict each other")
	}
	return sum, nil
}
