package results

import (
	"context"
	"fmt"
)

// PutInputs keeps what a run was made from, by name: the lab's text, its lock,
// the plan; and below "logs/" what its engines said. What must not be shown has to be
// gone from it.
func (s *Store) PutInputs(ctx context.Context, run string, inputs map[string][]byte) error {
	for name, content := range inputs {
		if err := putInput(ctx, s.db, run, name, content); err != nil {
			return fmt.Errorf("store input %s of run %s: %w", name, run, full(err))
		}
	}
	return nil
}

func putInput(ctx context.Context, on executor, run, name string, content []byte) error {
	_, err := on.exec(ctx, upsert("inputs", 2, "run_id, name, content"), run, name, content)
	return err
}

// Inputs returns what PutInputs has kept.
func (s *Store) Inputs(ctx context.Context, run string) (map[string][]byte, error) {
	type input struct {
		name    string
		content []byte
	}
	all, err := collect(ctx, s.db, "read inputs of run "+run, `SELECT name, content FROM inputs WHERE run_id = ?`, []any{run},
		func(scan func(...any) error) (i input, err error) {
			err = scan(&i.name, &i.content)
			return i, err
		})
	inputs := map[string][]byte{}
	for _, i := range all {
		inputs[i.name] = i.content
	}
	return inputs, err
}
