package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionVerb(t *console) *cobra.Command {
	return verb("version", none, func(context.Context, []string) error {
		_, err := fmt.Fprintln(t.stdout, "hcl "+version+built())
		return err
	})
}

// built names the compiler and, where it is known, the commit.
func built() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	s := " (" + info.GoVersion
	for _, kv := range info.Settings {
		if kv.Key == "vcs.revision" {
			s += ", " + kv.Value[:min(12, len(kv.Value))]
		}
	}
	return s + ")"
}
