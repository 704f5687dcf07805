package prompts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hclbench/load"
)

// blockTokens is how many tokens of a prompt one hash id of a trace stands for (Mooncake's block).
const blockTokens = 512

type recording struct {
	at            time.Duration // from the first
	input, output int
	hashes        []int64 // one for each block of the prompt; equal blocks are equal tokens
}

// parseRecording reads a line of Mooncake's JSONL.
func parseRecording(_ load.Workload, raw []byte) (recording, error) {
	var l struct {
		Timestamp    *float64 `json:"timestamp"` // ms
		InputLength  int      `json:"input_length"`
		OutputLength int      `json:"output_length"`
		HashIDs      []int64  `json:"hash_ids"`
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return recording{}, plainError(err)
	}
	switch {
	case l.Timestamp == nil:
		return recording{}, errors.New("no number \"timestamp\"")
	case !(math.Abs(*l.Timestamp) < 1e12): // some thirty years
		return recording{}, fmt.Errorf("\"timestamp\" is %v ms", *l.Timestamp)
	case l.InputLength < 1:
		return recording{}, fmt.Errorf("\"input_length\" is %d", l.InputLength)
	case l.OutputLength < 1:
		return recording{}, fmt.Errorf("\"output_length\" is %d", l.OutputLength)
	}
	return recording{time.Duration(math.Round(*l.Timestamp / 1e3 * 1e9)), l.InputLength, l.OutputLength, l.HashIDs}, nil
}

// trace reads the requests of a trace and puts them in the order of their times.
func trace(_ context.Context, job load.Job, _ int) (*Set, error) {
	var rows []recording
	f, err := entries(job, func(w load.Workload, raw []byte) error {
		r, err := parseRecording(w, raw)
		if err == nil {
			rows = append(rows, r)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	if len(rows) == 0 {
		return nil, errors.New("the trace has no requests" + firstOf(f.source.BadLines))
	}
	w := job.Workload
	slices.SortStableFunc(rows, func(a, b recording) int { return cmp.Compare(a.at, b.at) })
	slowdown, zero := cmp.Or(w.Dataset.Slowdown, 1), rows[0].at
	for i := range rows {
		rows[i].at = time.Duration(math.Round(float64(rows[i].at-zero) * slowdown))
		if w.OutputTokens > 0 {
			rows[i].output = w.OutputTokens
		}
	}
	if w.Requests > 0 {
		rows = rows[:min(len(rows), w.Requests)]
	}
	if end := time.Duration(w.Duration); end > 0 {
		n, _ := slices.BinarySearchFunc(rows, end,
			func(r recording, t time.Duration) int { return cmp.Compare(r.at, t) })
		rows = rows[:n]
	}
	f.source.Prompts = len(rows)
	due := make([]time.Duration, len(rows))
	for i, r := range rows {
		due[i] = r.at
	}
	return &Set{Due: due, source: f.source, rows: func(use uint64) maker {
		return traced{seed: Seed(job), use: use, rows: rows, words: w.Endpoint == load.Chat}
	}}, nil
}

type traced struct {
	seed, use uint64
	rows      []recording
	words     bool
}

func (p traced) append(b []byte, i int) (_ []byte, input, output int) {
	r := p.rows[i%len(p.rows)]
	s := newSynthetic(b, p.words)
	for _, hash := range r.hashes {
		s.add(Random(p.seed^scramble(p.use), forBlock, uint64(hash)), min(blockTokens, r.input-s.n))
	}
	// What no hash stands for is like no other prompt.
	s.add(Random(p.seed, p.use, uint64(i)), r.input-s.n)
	return append(s.b, s.end), r.input, r.output
}
