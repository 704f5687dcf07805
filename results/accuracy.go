package results

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"

	"hclbench/accuracy"
)

// Accuracy is what the answers are worth that a deployment has given to the questions of a task.
type Accuracy struct {
	Spec  accuracy.Spec  `json:"spec"`  // with what the protocol says in place of what the lab left open, and the checksums of its files
	Score accuracy.Score `json:"score"` // of all answers; zero where none was given
	Notes []string       `json:"notes,omitempty"`
	// Baseline is what the answers are held against: the label of an engine, "vllm.bf16", or a run. Empty: nothing. Margin is
	// the share that may be lost, of 1. Neither changes an answer, so that a lab which says others holds these answers against those.
	Baseline string  `json:"baseline,omitempty"`
	Margin   float64 `json:"margin,omitempty"`
	// Against are the very cells whose answers they are held against, where starts of one engine are told apart, as a tuning does: the first
	// start of the baseline, and the second. Empty: the newest of Baseline.
	Against []Asker `json:"against,omitempty"`
	// Own says that nothing but questions was sent to the start on which it was asked; nil: it is that of the deployment's loads.
	Own *OwnStart `json:"own_start,omitempty"`

	// Answers are kept with the cell, and read by [Store.Answers].
	Answers []accuracy.Answer `json:"-"`
	packed  []byte            // they, as a bundle has brought them
}

// OwnStart is a start for questions alone, of a deployment that accepts drafted tokens whatever they are and so does not answer as its model does.
type OwnStart struct {
	Without string `json:"without"`       // the setting that it was started without: "synthetic_acceptance_length"
	For     string `json:"for,omitempty"` // the deployment that is timed with it; empty: the lab has no loads for it
}

// String is what a reader of the score has to know.
func (o *OwnStart) String() string {
	return "asked on a start of its own without " + o.Without + ", which has it accept drafted tokens whatever they are"
}

// Asker is a cell of a run that has asked questions.
type Asker struct {
	Run  string `json:"run"`
	Cell string `json:"cell"`
}

// putAnswers keeps the answers of a cell, in place of those before.
func putAnswers(ctx context.Context, on executor, c Cell) error {
	content := c.Accuracy.packed
	if len(c.Accuracy.Answers) > 0 {
		var b bytes.Buffer
		if _, err := writeRecords(&b, func(put func(*accuracy.Answer) error) error {
			for i := range c.Accuracy.Answers {
				if err := put(&c.Accuracy.Answers[i]); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		content = b.Bytes()
	}
	if len(content) == 0 {
		_, err := on.exec(ctx, `DELETE FROM answers WHERE run_id = ? AND id = ?`, c.RunID, c.ID)
		return err
	}
	sum := sumOf(content)
	return table{{"run_id", &c.RunID, false}, {"id", &c.ID, false}, {"content", &content, false}, {"sum", &sum, false}}.put(ctx, on, "answers", 2)
}

func sumOf(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// Answers reads the answers of a cell, in the order in which its questions stand in their file: none when none was given.
// Answers that are not those that were stored are ErrDamaged.
func (s *Store) Answers(ctx context.Context, run, cell string) ([]accuracy.Answer, error) {
	content, err := s.PackedAnswers(ctx, run, cell)
	if err != nil || content == nil {
		return nil, err
	}
	answers, err := decodeRecords[accuracy.Answer](content)
	if err != nil {
		return nil, fmt.Errorf("read answers of cell %s in run %s: %w: %w", cell, run, ErrDamaged, err)
	}
	return answers, nil
}

// PackedAnswers are the answers of a cell as they are kept, compressed; nil where there are none.
func (s *Store) PackedAnswers(ctx context.Context, run, cell string) ([]byte, error) {
	if s.db.lacks["answers"] {
		return nil, nil
	}
	var content []byte
	var sum string
	err := s.db.get(ctx, `SELECT content, sum FROM answers WHERE run_id = ? AND id = ?`, []any{run, cell}, &content, &sum)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err == nil && sum != sumOf(content):
		err = fmt.Errorf("%w: they were changed", ErrDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("read answers of cell %s in run %s: %w", cell, run, err)
	}
	return content, nil
}
