package apply

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/testhost/recording"
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
		now := map[*member]tally{prefill: {handed: c.handed}, decode: {computed: c.itself, elsewhere: 80 * 512, generated: 800}}
		wrong, strange := e.compare(before, now, agent.Measured{Summary: warmed(64), Records: records})
		got := strings.Join(append(wrong, strange...), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestLetGo: what prefill gave up, as its lease was over, is told as that.
func TestLetGo(t *testing.T) {
	e, prefill, decode := split(engines.VLLM)
	now := map[*member]tally{prefill: {letGo: 8}, decode: {elsewhere: 16 * 512, generated: 160}}
	records := slices.Repeat([]load.Record{{InputTokens: 512, OutputTokens: 10}}, 16)
	wrong, strange := e.compare(map[*member]tally{prefill: {}, decode: {}}, now, agent.Measured{Summary: warmed(0), Records: records})
	if got := strings.Join(append(wrong, strange...), "; "); !strings.Contains(got, "gave up the KV cache of 8 requests") {
		t.Error(got)
	}
}

// warmed is a summary of a load with a warm-up.
func warmed(n int) *load.Summary {
	s := new(load.Summary)
	s.Warmup = n
	return s
}

// TestRealCounters: the names that are looked for are those of real engines, in groups and alone.
func TestRealCounters(t *testing.T) {
	e, prefill, decode := split(engines.VLLM)
	sglang := member{Member: plan.Member{Member: engines.Member{Role: engines.Serve, Answers: true,
		Engine: &engines.Engine{Kind: engines.SGLang, Flags: []engines.Flag{{Name: "enable-metrics"}}}}}}
	alone := member{Member: plan.Member{Member: engines.Member{Role: engines.Serve, Answers: true, Engine: &engines.Engine{Kind: engines.VLLM}}}}
	for name, c := range map[string]struct {
		m    *member
		want tally
	}{
		"vllm-0.32.0/metrics-decode-idle":     {decode, tally{prompted: 0, computed: 0, elsewhere: 0, generated: 0, lost: 0, letGo: 0, began: 1795437949.07}},
		"vllm-0.32.0/metrics-decode":          {decode, tally{prompted: 5128, computed: 2, elsewhere: 0, generated: 285, lost: 0, letGo: 0, began: 1795439730.35}},
		"vllm-0.32.0/metrics-prefill":         {prefill, tally{prompted: 6920, computed: 6664, elsewhere: 0, generated: 29, lost: 0, letGo: 0, began: 1795439730.34}},
		"vllm-0.32.0/metrics":                 {&alone, tally{prompted: 31939, computed: 30915, elsewhere: 0, generated: 6861, began: 1795437907.03}},
		"vllm-0.32.0/metrics-two-api-servers": {&alone, tally{prompted: 1026, computed: 1026, elsewhere: 0, generated: 358}},
		"sglang-0.5.23/metrics":               {&sglang, tally{prompted: 31567, computed: 27305, generated: 11107}},
	} {
		if got := countsOf(engines.Counts(c.m.Member.Member), recording.Text(t, "by-hand/"+name+".txt")); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	idle, used := countsOf(engines.Counts(decode.Member.Member), recording.Text(t, "by-hand/vllm-0.32.0/metrics-decode-idle.txt")), countsOf(engines.Counts(decode.Member.Member), recording.Text(t, "by-hand/vllm-0.32.0/metrics-decode.txt"))
	if got := idleAmong(map[*member]tally{decode: idle}, map[*member]tally{decode: idle}); len(got) != 1 {
		t.Errorf("idle: %q", got)
	}
	renamed := countsOf(engines.Counts(decode.Member.Member), strings.ReplaceAll(recording.Text(t, "by-hand/vllm-0.32.0/metrics-decode.txt"), "vllm:", "vllm_"))
	if got := idleAmong(map[*member]tally{decode: renamed}, map[*member]tally{decode: renamed}); got != nil {
		t.Errorf("of a version with other names nobody can say that it is idle: %q", got)
	}
	const silent = "decode 0: nothing proves what it does in the group: it shows no counter of tokens that hcl knows"
	if got := e.unproved(map[*member]tally{prefill: used, decode: renamed}); len(got) != 1 || got[0] != silent {
		t.Errorf("%q, want %q", got, silent)
	}
	if !idle.wasReset(used) || used.wasReset(idle) == (idle[began] == used[began]) || used.wasReset(used) {
		t.Error("another process is not told by when it began")
	}
}

// TestRetried: requests that a router has sent again are a doubt, and no proof that the engine works otherwise than planned.
func TestRetried(t *testing.T) {
	e, _, _ := split(engines.VLLM)
	router := &member{Member: plan.Member{Member: engines.Member{Role: engines.Route, Answers: true, Engine: &engines.Engine{Kind: engines.VLLM, Router: true},
		Ports: []engines.NamedPort{{Name: "metrics", Number: 1}}}}, name: "router"}
	e.members = append(e.members, router)
	again := countsOf(engines.Counts(router.Member.Member), "vllm_router_retries_total{route=\"/v1/completions\"} 3\n")
	wrong, strange := e.compare(map[*member]tally{router: {}}, map[*member]tally{router: again}, agent.Measured{})
	const want = "router: it has sent requests again 3 times, which had failed: their latencies are those of all attempts"
	if wrong != nil || len(strange) != 1 || strange[0] != want {
		t.Errorf("wrong %q, strange %q, want %q", wrong, strange, want)
	}
}

// TestIdleUnseen: an engine that shows no counter before it counts is idle where others of its kind show
// theirs, and nobody knows where none does.
func TestIdleUnseen(t *testing.T) {
	_, prefill, decode := split(engines.SGLang)
	for _, m := range []*member{prefill, decode} {
		m.Engine.Flags = []engines.Flag{{Name: "enable-metrics"}}
	}
	got := idleAmong(nil, map[*member]tally{prefill: {prompted: 8}, decode: {}})
	none := idleAmong(nil, map[*member]tally{prefill: {}, decode: {}})
	if !slices.Equal(got, []string{"decode 0"}) || none != nil {
		t.Errorf("%q, and where the names are not known %q", got, none)
	}
}

// TestBegunAnew: counters that are lower, gone, or of another process are those of an engine that was started again.
func TestBegunAnew(t *testing.T) {
	was := tally{generated: 8, prompted: 256, began: 100}
	for name, c := range map[string]struct {
		is   tally
		want bool
	}{
		"the same":        {tally{generated: 9, prompted: 300, lost: 1, began: 101}, false},
		"lower":           {tally{generated: 7, prompted: 300, began: 100}, true},
		"idle":            {tally{prompted: 300, began: 100}, true},
		"another process": {tally{generated: 900, prompted: 30000, began: 160}, true},
		"nothing":         {tally{}, true},
	} {
		if got := c.is.wasReset(was); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestLoadOfOthers: an engine that counts more tokens than all clients have asked for has served others.
func TestLoadOfOthers(t *testing.T) {
	whole := load.Record{InputTokens: 512, OutputTokens: 100, AskedOutput: 100}
	short, cut, unasked := whole, whole, whole
	short.OutputTokens = 50
	cut.OutputTokens, cut.Class = 20, load.ClassTruncated
	unasked.AskedOutput, unasked.Class = 0, load.ClassTruncated
	alone := &member{Member: plan.Member{Member: engines.Member{Role: engines.Serve, Answers: true, Engine: &engines.Engine{Kind: engines.VLLM}}}}
	e := &engine{d: &plan.Deployment{Members: []plan.Member{alone.Member}}, members: []*member{alone}}
	for name, c := range map[string]struct {
		records []load.Record
		warm    int
		counts  float64
		want    string
	}{
		"as many":                    {slices.Repeat([]load.Record{whole}, 100), 0, 10000, ""},
		"with a little of hcl's own": {slices.Repeat([]load.Record{whole}, 100), 0, 10100, ""},
		"more":                       {slices.Repeat([]load.Record{whole}, 100), 0, 10200, "counts 10200 generated tokens, and the clients have asked for 10000 at most"},
		"of shorter answers":         {slices.Repeat([]load.Record{short}, 100), 0, 5200, "counts 5200 generated tokens, and the clients have asked for 5000 at most"},
		"of the warm-up":             {slices.Repeat([]load.Record{whole}, 100), 2, 10200, ""},
		"of answers that broke off":  {slices.Repeat([]load.Record{cut}, 100), 0, 10000, ""},
		"of those that had no bound": {slices.Repeat([]load.Record{unasked}, 100), 0, 90000, ""},
		"fewer":                      {slices.Repeat([]load.Record{whole}, 100), 0, 9000, "counts 9000 generated tokens, the clients 10000"},
	} {
		wrong, strange := e.compare(map[*member]tally{alone: {generated: 8}}, map[*member]tally{alone: {generated: 8 + c.counts}},
			agent.Measured{Summary: warmed(c.warm), Records: c.records})
		got := strings.Join(append(wrong, strange...), "; ")
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
		{map[*member]tally{prefill: {prompted: 1}, decode: {generated: 1}}, ""},
		{map[*member]tally{prefill: {prompted: 1}}, "decode 0: nothing proves what it does in the group: its counters cannot be had"},
		{nil, "prefill 0: nothing proves what it and 1 more do in the group: its counters cannot be had"},
	} {
		if got := strings.Join(e.unproved(c.told), "; "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
