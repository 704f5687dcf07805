package load

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestVerdictJSON: reasons are sentences for whoever reads no more, with what else is
// known of them beside, and verdicts of sentences only are still read.
func TestVerdictJSON(t *testing.T) {
	late := Reason{Text: "late", Code: "send-lag", Value: 6, Limit: 5, Metrics: []string{"ttft"}}
	for _, c := range []struct {
		name, text string
		want       Verdict
	}{
		{"valid", `{"verdict":"valid"}`, Verdict{Verdict: Valid}},
		{"as it was stored before", `{"verdict":"suspect","reasons":["hot","late"]}`, Verdict{Suspect, Because("", "hot", "late")}},
		{"with codes", `{"verdict":"suspect","reasons":["late","hot"],"findings":[{"code":"send-lag","value":6,"limit":5,"metrics":["ttft"]},{"code":""}]}`,
			Verdict{Suspect, []Reason{late, {Text: "hot"}}}},
	} {
		var got Verdict
		if err := json.Unmarshal([]byte(c.text), &got); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: read (-want +got):\n%s", c.name, diff)
		}
		if text, err := json.Marshal(c.want); err != nil || string(text) != c.text {
			t.Errorf("%s: written %s, %v", c.name, text, err)
		}
	}
	var odd Verdict
	if err := json.Unmarshal([]byte(`{"verdict":"suspect","reasons":["a"],"findings":[]}`), &odd); err != nil || cmp.Diff(Because("", "a"), odd.Reasons) != "" {
		t.Errorf("findings of other reasons: %v, %v", odd, err)
	}
}

// TestDoubts: a reason is a doubt about the figures that it concerns.
func TestDoubts(t *testing.T) {
	held := Reason{Text: "held", Metrics: []string{"ttft", "itl"}}
	for _, c := range []struct {
		v                Verdict
		ttft, throughput bool
	}{
		{Verdict{Verdict: Valid}, false, false},
		{Verdict{Void, []Reason{held}}, true, true},
		{Verdict{Verdict: Suspect}, true, true},
		{Verdict{Suspect, []Reason{held}}, true, false},
		{Verdict{Suspect, append(Because("", "hot"), held)}, true, true},
	} {
		if ttft, throughput := c.v.Doubts("p99_ttft_ms"), c.v.Doubts("output_throughput_per_gpu"); ttft != c.ttft || throughput != c.throughput {
			t.Errorf("%v: TTFT %t, throughput %t", c.v, ttft, throughput)
		}
	}
	for column, want := range map[string]bool{"itl": true, "e2el": false, "mean_tpot_ms": false, "goodput": true, "usd_per_million_output_tokens": true, "peak_output_throughput": false} {
		if got := held.Concerns(column); got != want {
			t.Errorf("held chunks concern %s: %t", column, got)
		}
	}
}
