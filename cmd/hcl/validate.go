package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/plan"
)

type validateOptions struct {
	lab  labFlags
	json bool
}

func validateVerb(t *console) *cobra.Command {
	var o validateOptions
	c := labVerb("validate", &o.lab, func(context.Context) error { return runValidate(t, o) })
	c.Flags().BoolVar(&o.json, "json", false, "print the problems as JSON, with their ranges")
	return c
}

func runValidate(t *console, o validateOptions) error {
	if o.json {
		return validateJSON(t, o.lab)
	}
	l, err := o.lab.open(t)
	if err != nil {
		return err
	}
	n := plan.New(l.text, plan.Options{}).Count()
	_, err = fmt.Fprintf(t.stdout, "Lab %s is right: %s.\n", l.text.Lab.Name, n)
	return err
}

func validateJSON(t *console, of labFlags) error {
	l, err := of.read(t)
	if err != nil {
		return err
	}
	errors, warnings := l.problems.Count()
	if err := t.json(struct {
		FormatVersion string        `json:"format_version"`
		Valid         bool          `json:"valid"`
		Errors        int           `json:"errors"`
		Warnings      int           `json:"warnings"`
		Problems      []hcl.Problem `json:"problems"`
	}{"1.0", errors == 0, errors, warnings, slices.Concat([]hcl.Problem{}, l.problems.List())}); err != nil {
		return err
	}
	if errors > 0 {
		return &exit{code: exitUsage}
	}
	return nil
}
