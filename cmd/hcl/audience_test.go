package main

import (
	"strings"
	"testing"
	"time"

	"hclbench/agent"
	"hclbench/apply"
)

// TestDownloaded is a model that is on its way, in a log line and in the live view.
func TestDownloaded(t *testing.T) {
	on := agent.ModelProgress{Bytes: 120_100_000_000, Total: 688_600_000_000, Files: 163, Done: 34, Phase: agent.Downloading}
	waits := on
	waits.Phase, waits.For = agent.WaitingFor, "run r2 of lab other on box, by ada@laptop, pid 4711"
	for _, c := range []struct {
		fetched apply.Fetched
		want    string
	}{
		{apply.Fetched{ModelProgress: on}, "120.1 GB of 688.6 GB, 34 of 163 files"},
		{apply.Fetched{ModelProgress: on, Rate: 1.2e9}, "120.1 GB of 688.6 GB, 34 of 163 files, 1.2 GB/s, 7m54s left"},
		{apply.Fetched{ModelProgress: waits, Rate: 1.2e9}, "120.1 GB of 688.6 GB, 34 of 163 files, waiting for run r2 of lab other on box, by ada@laptop, pid 4711, who fetches it too"},
	} {
		if got := downloaded(c.fetched); got != c.want {
			t.Errorf("downloaded = %q, want %q", got, c.want)
		}
	}

	view := &model{styles: newStyles(false), rows: map[string]*row{}}
	for _, e := range []apply.Event{
		{Type: apply.Step, Message: "looking for model org/model"},
		{Type: apply.Download, Download: &apply.Fetched{Repo: "org/model", ModelProgress: on}},
	} {
		e.Time, e.Host, e.Engine = time.Now(), "box", "vllm.r1"
		view.event(e)
	}
	if got, want := view.line(view.rows["box"]), "vllm.r1  downloading org/model  █░░░░░░░░░  120.1 GB of 688.6 GB"; !strings.HasPrefix(got, want) {
		t.Errorf("the live view shows %q, want %q", got, want)
	}
}
