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

	"hclbench/plain"
)

// What is read of the files of others, at most.
const (
	mostLines  = 100_000
	longestRow = 64 << 20 // bytes: requests of agents carry all that was said
)

// ReadVerifier reads the answers of a deployment as K2VV and MiniMax's verifier have written them, a results.jsonl of their
// tool_calls_eval.py and verify.py: one line for each line of their samples, with the request and the answer. Questions are
// numbered as the lines of the samples are, from 1. What an answer is worth is decided anew, as of [readCall]'s questions. Lines that are none,
// as where a verifier was killed, are left out, and note says how many and which is the first; where they are half of all, the file is refused.
func ReadVerifier(r io.Reader) (answers []Answer, note string, err error) {
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
	lines, odd := 0, 0
	var first error // what is wrong with the first odd line
	for n := 1; in.Scan(); n++ {
		if len(strings.TrimSpace(in.Text())) == 0 {
			continue
		}
		if lines++; n > mostLines {
			return nil, "", fmt.Errorf("it has more than %d lines", mostLines)
		}
		var one row
		err := json.Unmarshal(in.Bytes(), &one)
		if err == nil && (one.Index < 1 || one.Status != "success" && one.Status != "failed") {
			err = errors.New("it has no \"data_index\" and \"status\", as results of K2VV or MiniMax's verifier do")
		}
		if err != nil {
			odd++
			first = cmp.Or(first, fmt.Errorf("line %d: %w", n, err))
			continue
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
	switch err := in.Err(); {
	case err != nil:
		return nil, "", err
	case lines == 0:
		return nil, "", errors.New("it has no answers")
	case 2*odd >= lines:
		return nil, "", fmt.Errorf("%d of its %d lines are no results, such as %w", odd, lines, first)
	case odd > 0:
		note = fmt.Sprintf("%d of the %d lines of its file are no results and were left out, such as %s", odd, lines, plain.Line(first.Error()))
	}
	indexes := make([]int, 0, len(latest))
	for index := range latest {
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	for _, index := range indexes {
		answers = append(answers, latest[index].answer)
	}
	return answers, note, nil
}
