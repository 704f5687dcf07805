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
	l, err := o.lab.read(t)
	if err != nil {
		return err
	}
	if !o.json {
		if err := l.shown(t); err != nil {
			return err
		}
		_, err = fmt.Fprintf(t.stdout, "Lab %s is right: %s.\n", l.text.Lab.Name, plan.New(l.text, plan.Options{}).Count())
		return err
	}
	errors, warnings := l.problems.Count()
	err = t.json(struct {
		FormatVersion string        `json:"format_version"`
		Valid         bool          `json:"valid"`
		Errors        int           `json:"errors"`
		Warnings      int           `json:"warnings"`
		Problems      []hcl.Problem `json:"problems"`
	}{"1.0", errors == 0, errors, warnings, slices.Concat([]hcl.Problem{}, l.problems.List())})
	if err == nil && errors > 0 {
		err = &exit{code: exitUsage}
	}
	return err
}
