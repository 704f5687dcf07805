package main

import (
	"encoding/json"

	"hclbench/provision/look"

	"github.com/spf13/cobra"
)

// devices is what runs in a container before an engine does, to see whether it gets
// its GPUs.
func (a *app) devices() *cobra.Command {
	return &cobra.Command{
		Use:    look.DevicesVerb,
		Short:  "Print the GPUs' devices that are here, as JSON",
		Hidden: true, // apply runs it in a container
		Args:   none,
		RunE: func(c *cobra.Command, _ []string) error {
			return json.NewEncoder(a.stdout).Encode(look.AtDevices(c.Context()))
		},
	}
}
