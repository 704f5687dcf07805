package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/table"
	"hclbench/results"
	"hclbench/results/formats"
)

func auditVerb(t *console) *cobra.Command {
	var which selection
	var asJSON bool
	args := func(c *cobra.Command, args []string) error {
		if areFiles(args) {
			return nil
		}
		return atMost(1)(c, args)
	}
	c := verb("audit", args,
		func(ctx context.Context, args []string) error { return runAudit(ctx, t, which, args, asJSON) })
	which.addSelection(t, c)
	c.Flags().BoolVar(&asJSON, "json", false, "print what was found as JSON")
	return c
}

// areFiles reports whether the arguments are files with results, and not a lab.
func areFiles(args []string) bool {
	for _, name := range args {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() || strings.HasSuffix(name, ".hcl") {
			return false
		}
	}
	return len(args) > 0
}

type suspicion struct {
	Cell      string       `json:"cell,omitempty"`
	Run       string       `json:"run,omitempty"`
	Benchmark string       `json:"benchmark"`
	Engine    string       `json:"engine"`
	GPUs      string       `json:"gpus,omitempty"`
	Axes      results.Axes `json:"axes"`
	Wrong     []string     `json:"wrong"`
}

// runAudit looks at the results in files, or at those of the lab that is named.
func runAudit(ctx context.Context, t *console, which selection, names []string, asJSON bool) error {
	var err error
	v := &shown{}
	if areFiles(names) {
		for _, name := range names {
			rows, e := foreignRows(name)
			v.rows, err = append(v.rows, rows...), errors.Join(err, e)
		}
	} else {
		which.lab.named(names)
		err = which.read(ctx, t, v)
	}
	if err != nil {
		return err
	}
	if v.store != nil {
		defer v.store.Close()
	}
	found := []suspicion{}
	for _, r := range v.rows {
		wrong, err := wrongIn(ctx, v.store, r)
		if err != nil {
			return err
		}
		if len(wrong) > 0 {
			found = append(found, suspicion{r.ID, r.RunID, r.Benchmark, r.Deployment.Engine, r.Deployment.GPUs, r.Axes, wrong})
		}
	}
	if asJSON {
		err = t.json(map[string]any{"format_version": table.FormatVersion, "checked": len(v.rows), "found": found})
	} else {
		err = writeAudit(t.stdout, len(v.rows), found)
	}
	if err == nil && len(found) > 0 {
		err = &exit{code: exitCells}
	}
	return err
}

func writeAudit(w io.Writer, looked int, found []suspicion) error {
	for _, x := range found {
		what := fmt.Sprintf("%s %s %s %s: %s", x.Cell, x.Engine, x.GPUs, x.Benchmark, axes(x.Axes))
		fmt.Fprintln(w, strings.Join(strings.Fields(what), " "))
		for _, why := range x.Wrong {
			fmt.Fprintln(w, "  -", why)
		}
	}
	_, err := fmt.Fprintf(w, "%s looked at; %d cannot be true.\n", plain.Count(looked, "result"), len(found))
	return err
}

// wrongIn is what is wrong with a result: what cannot be true, and what of it is
// damaged in the store; nil: it is of a file.
func wrongIn(ctx context.Context, store *results.Store, r results.Row) (wrong []string, err error) {
	if r.Damaged != "" {
		return []string{r.Damaged}, nil
	}
	if r.Summary != nil {
		wrong = load.Verdict{Reasons: formats.Contradictions(r.Summary, r.Job.Workload.Concurrency)}.Texts()
	}
	if store != nil {
		if _, err := store.Records(ctx, r.RunID, r.ID); errors.Is(err, results.ErrDamaged) {
			wrong = append(wrong, err.Error())
		} else if err != nil {
			return nil, err
		}
	}
	return wrong, nil
}
