package prompts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"hclbench/load"
)

// TestTraceTables: traces that are tables, as their publishers write them.
func TestTraceTables(t *testing.T) {
	for _, c := range []struct {
		name, text string
		d          load.Dataset
		due        []time.Duration
		lengths    [][2]int
		source     load.Source
	}{
		{
			"BurstGPT", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n" +
				"5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,230,1317,Conversation log\n" +
				"51.5,GPT-4,417,276,693,API log\n60,GPT-4,20,0,20,API log\n",
			load.Dataset{}, []time.Duration{0, 40 * time.Second, 46500 * time.Millisecond},
			[][2]int{{417, 276}, {472, 18}, {1087, 230}}, load.Source{Prompts: 3, LeftOut: 1},
		},
		{
			"BurstGPT, of one model", "\uFEFFTimestamp,Model,Request tokens,Response tokens\r\n5,ChatGPT,472,18\r\n45,GPT-4,10,23\r\n47,\"GPT-4\",4,2\r\n",
			load.Dataset{OfModel: "GPT-4", Slowdown: 2}, []time.Duration{0, 4 * time.Second},
			[][2]int{{4, 2}, {10, 23}}, load.Source{Prompts: 2, LeftOut: 1},
		},
		{
			"seconds of Unix", "Timestamp,Model,Request tokens,Response tokens\n1763800000,GPT-4,1,2\n1763800001.5,GPT-4,3,4\n",
			load.Dataset{}, []time.Duration{0, 1500 * time.Millisecond}, [][2]int{{1, 2}, {3, 4}}, load.Source{Prompts: 2},
		},
		{
			"milliseconds of Unix, and as late as it may be", `{"timestamp":1763800000000,"input_length":1,"output_length":2}` + "\n" +
				`{"timestamp":1763800001500,"input_length":3,"output_length":4}` + "\n" +
				`{"timestamp":3999999999999,"input_length":5,"output_length":6}`,
			load.Dataset{Slowdown: 10}, []time.Duration{0, 15 * time.Second, 1 << 62}, [][2]int{{1, 2}, {3, 4}, {5, 6}},
			load.Source{Prompts: 3},
		},
		{
			"Azure of 2023", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,374,44\n2023-11-16 18:17:04.0319600,396,109\n",
			load.Dataset{}, []time.Duration{0, 52 * time.Millisecond}, [][2]int{{374, 44}, {396, 109}}, load.Source{Prompts: 2},
		},
		{
			"Azure of 2024, out of order and with a bad line", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:01.5+00:00,3,4\n" +
				"2024-05-10 00:00:00.009930+00:00,1,2\nyesterday,1,2\n2024-05-10 00:00:02+00:00,5,x\n",
			load.Dataset{}, []time.Duration{0, 1490070 * time.Microsecond}, [][2]int{{1, 2}, {3, 4}},
			load.Source{Prompts: 2, Reordered: 1, Bad: 2, BadLines: []string{
				`line 4: "yesterday" is not a time: write seconds, or 2006-01-02 15:04:05.000`, `line 5: "x" is not a number of tokens`}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.d.Kind, c.d.Path = load.Trace, written(t, "t.csv", c.text)
			j := job(load.Workload{Dataset: c.d})
			if err := CheckInputs(j); err != nil {
				t.Error(err)
			}
			set, err := opened(t, j, false)
			if err != nil {
				t.Fatal(err)
			}
			_, sent, source := requests(t, j, false)
			source.SHA256 = ""
			if diff := gocmp.Diff(c.due, set.Due) + gocmp.Diff(c.lengths, lengthsOf(sent)) + gocmp.Diff(c.source, *source); diff != "" {
				t.Errorf("times, lengths and source (-want +got):\n%s", diff)
			}
			if len(slices.Compact(promptsOf(sent))) != len(sent) {
				t.Error("two requests have the same prompt")
			}
		})
	}
}

// TestBadTraces: what makes a trace no use is said before anything starts.
func TestBadTraces(t *testing.T) {
	const head = "Timestamp,Model,Request tokens,Response tokens\n"
	backwards := head
	for i := range 40 {
		backwards += fmt.Sprintf("%d,GPT-4,1,1\n", 40-i%20)
	}
	for _, c := range []struct {
		d    load.Dataset
		text string
		want string
	}{
		{load.Dataset{}, backwards, "trace t.csv: 38 of its 40 requests go back in time (39s after 40s, 38s after 39s, 37s after 38s, 36s after 37s, 35s after 36s): " +
			"sort it, or cut it where it begins anew"},
		{load.Dataset{OfModel: "GPT-5"}, head + "1,GPT-4,1,1\n2,ChatGPT,1,1\n", `trace t.csv has no request of the model "GPT-5", only of ["ChatGPT" "GPT-4"]`},
		{load.Dataset{OfModel: "GPT-5"}, "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n", `trace t.csv names no models: remove of_model = "GPT-5"`},
		{load.Dataset{OfModel: "GPT-5"}, `{"timestamp":1,"input_length":1,"output_length":1,"model":"m"}`, `trace t.csv has no request of the model "GPT-5", only of ["m"]`},
		{load.Dataset{}, `{"timestamp":4e12,"input_length":1,"output_length":1}`, `line 1: "timestamp" is 4e+12 ms: it lies between -4e+12 and 4e+12`},
		{load.Dataset{}, "when,what\n1,2\n", "line 1: neither a JSON object of Mooncake's, nor the first line of a table of BurstGPT's"},
		{load.Dataset{}, head, "the trace has no requests"},
		{load.Dataset{}, head + "1,GPT-4,1\n", `line 2: "" is not a number of tokens`},
	} {
		c.d.Kind, c.d.Path = load.Trace, written(t, "t.csv", c.text)
		j := job(load.Workload{Dataset: c.d})
		if err := CheckInputs(j); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: error %v, want one with %q", c.text, err, c.want)
		}
		if _, err := opened(t, j, false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q when it is sent: error %v, want one with %q", c.text, err, c.want)
		}
	}
}
