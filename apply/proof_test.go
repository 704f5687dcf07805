package apply

import (
	"slices"
	"strings"
	"testing"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/plan"
)

// split is an engine of one server for prefill and one for decode.
func split(kind string) (e *engine, prefill, decode *member) {
	half := func(role string) *member {
		recipe := &engines.Engine{Kind: kind, Name: role, Container: engines.ContainerSettings{}}
		in := engines.Member{Role: role, Answers: true, Engine: recipe}
		return &member{Member: plan.Member{Member: in}, name: role + " 0"}
	}
	prefill, decode = half(engines.Prefill), half(engines.Decode)
	d := &plan.Deployment{Members: []plan.Member{prefill.Member, decode.Member}}
	return &engine{d: d, members: []*member{prefill, decode}}, prefill, decode
}

// TestWarmupIsCounted: members count the requests of the warm-up, of which there are no records.
func TestWarmupIsCounted(t *testing.T) {
	records := slices.Repeat([]load.Record{{InputTokens: 512, OutputTokens: 10}}, 16)
	for name, c := range map[string]struct {
		kind           string
		handed, itself float64
		want           string
	}{
		"all is handed over":           {engines.SGLang, 80, 0, ""},
		"the warm-up alone":            {engines.SGLang, 64, 0, "prefill has handed over 64 of 80 requests"},
		"half a block of each is read": {engines.VLLM, 80, 640, ""},
		"all is read":                  {engines.VLLM, 80, 80 * 512, "decode 0: it has read 40960 of 8192 tokens of prompts itself"},
	} {
		e, prefill, decode := split(c.kind)
		before := map[*member]tally{prefill: {}, decode: {}}
		now := map[*member]tally{prefill: {handed: c.handed}, decode: {read: c.itself, fetched: 80 * 512, generated: 800}}
		got := strings.Join(e.wrong(before, now, records, 64), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestUnproved: a member whose counters were not had when the cell began leaves a doubt.
func TestUnproved(t *testing.T) {
	e, prefill, decode := split(engines.VLLM)
	for _, c := range []struct {
		told map[*member]tally
		want string
	}{
		{map[*member]tally{prefill: {}, decode: {}}, ""},
		{map[*member]tally{prefill: {}}, "decode 0: nothing proves what it does in the group: its counters cannot be had"},
		{nil, "prefill 0: nothing proves what it and 1 more do in the group: its counters cannot be had"},
	} {
		if got := strings.Join(e.unproved(c.told), "; "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
