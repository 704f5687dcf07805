package formats

import (
	"bytes"
	"encoding/json"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
)

// verified is what tells a line of results.jsonl, as K2VV's and MiniMax's verifiers write it.
type verified struct {
	Index   *int    `json:"data_index"`
	Status  *string `json:"status"`
	Request struct {
		Model string `json:"model"`
	} `json:"request"`
}

func readVerified(text []byte) (first verified, ok bool) {
	n := 0
	for line := range bytes.Lines(text) {
		first = verified{}
		if json.Unmarshal(line, &first) == nil && first.Index != nil && first.Status != nil {
			return first, true
		}
		if n++; n == 3 { // odd ones stand before it
			break
		}
	}
	return verified{}, false
}

// verifierResult is what a deployment has answered to requests with tools: its answers, each marked anew, and no figure of its speed.
func verifierResult(text []byte, first verified) (one Result, err error) {
	answers, note, err := accuracy.ReadVerifier(bytes.NewReader(text))
	if err != nil {
		return one, err
	}
	score := accuracy.Sum(answers)
	one.Accuracy = &results.Accuracy{Spec: accuracy.Spec{Task: accuracy.ToolCalls, Protocol: accuracy.Own}, Score: score, Answers: answers}
	if note != "" {
		one.Accuracy.Notes = []string{note}
	}
	one.Deployment.Model = plain.Line(first.Request.Model)
	one.Job.Workload.Endpoint = load.Chat
	one.Summary = &load.Summary{}
	one.Summary.Requests, one.Summary.Completed, one.Summary.Failed = score.Asked, score.Asked-score.Failed, score.Failed
	one.judge(map[string]bool{"completed": true, "failed": true})
	return one, nil
}
