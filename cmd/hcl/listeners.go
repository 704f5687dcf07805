package main

import (
	"encoding/json"
	"strconv"

	"hclbench/provision/reach"

	"github.com/spf13/cobra"
)

// listeners is what runs on a host, and in the container of an engine, to see who
// waits for connections to the engine's port.
func (a *app) listeners() *cobra.Command {
	return &cobra.Command{
		Use:    reach.ListenersVerb + " PORT",
		Short:  "Print who listens on a port here, as JSON",
		Hidden: true, // apply runs it
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			port, err := strconv.ParseUint(args[0], 10, 16)
			if err != nil {
				return usage("%q is not a port", args[0])
			}
			found, err := reach.LookAtListeners(int(port))
			if err != nil {
				return err
			}
			return json.NewEncoder(a.stdout).Encode(found)
		},
	}
}
