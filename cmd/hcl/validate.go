package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/plan"
)

func (a *app) validate() *cobra.Command {
	var lab labFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "validate [LAB]",
		Short: "Check the text of a lab",
		Long:  `Checks everything that the text alone can show. Nothing is contacted.`,
		Example: `  hcl validate lab/
  hcl validate --json | jq '.problems[].summary'

Exit codes: 0 the lab is right, 1 it cannot be read, 2 it is wrong.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if asJSON {
				return a.validateJSON(lab, args)
			}
			l, err := a.openLab(lab, args)
			if err != nil {
				return err
			}
			n := plan.New(l.text, plan.Options{}).Count()
			_, err = fmt.Fprintf(a.stdout, "Lab %s is right: %s.\n", l.text.Lab.Name, n)
			return err
		},
	}
	lab.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the problems as JSON, with their ranges")
	return c
}

func (a *app) validateJSON(lab labFlags, args []string) error {
	l, err := a.readLab(lab, args)
	if err != nil {
		return err
	}
	errors, warnings := l.problems.Count()
	list := l.problems.List()
	if list == nil {
		list = []hcl.Problem{}
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(struct {
		FormatVersion string        `json:"format_version"`
		Valid         bool          `json:"valid"`
		Errors        int           `json:"errors"`
		Warnings      int           `json:"warnings"`
		Problems      []hcl.Problem `json:"problems"`
	}{"1.0", errors == 0, errors, warnings, list}); err != nil {
		return err
	}
	if errors > 0 {
		return &exit{code: exitUsage}
	}
	return nil
}
