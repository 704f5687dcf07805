package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"hclbench/provision"
)

// devices is what runs in a container before an engine does, to see whether it gets
// its GPUs.
func (a *app) devices() *cobra.Command {
	return &cobra.Command{
		Use:    provision.DevicesVerb,
		Short:  "Print the GPUs' devices that are here, as JSON",
		Hidden: true, // apply runs it in a container
		Args:   none,
		RunE: func(c *cobra.Command, _ []string) error {
			return json.NewEncoder(a.stdout).Encode(provision.LookAtDevices(c.Context()))
		},
	}
}
