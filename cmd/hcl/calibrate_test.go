package main

import (
	"slices"
	"testing"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/provision"
)

// TestSending: load comes from where requests to an engine of ours come in, from the host that one of others
// names, and from clients.
func TestSending(t *testing.T) {
	a, b, near, client := &provision.Host{Name: "a"}, &provision.Host{Name: "b"}, &provision.Host{Name: "near"}, &provision.Host{Name: "client"}
	wide := &engines.Engine{Kind: engines.Sim, Name: "wide", Placement: engines.On(a, b)}
	cfg := &hcl.Config{
		Engines: []*engines.Engine{wide,
			{Kind: engines.External, Name: "theirs", URL: "http://192.0.2.1", Placement: engines.On(near)},
			{Kind: engines.External, Name: "from here", URL: "http://192.0.2.1"}},
		Benchmarks: []hcl.Benchmark{{Cells: []hcl.Cell{{Engine: wide, From: []*provision.Host{client}}}}},
	}
	if got, want := sending(cfg), []*provision.Host{a, near, client}; !slices.Equal(got, want) {
		t.Errorf("load is sent from %v, want %v", got, want)
	}
}
