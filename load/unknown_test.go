package load

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUnknown: what is not known is not in the JSON, and what is read back is the same.
func TestUnknown(t *testing.T) {
	s := Summary{
		Part:    Part{Figures: Figures{Duration: 2, Completed: 3, ITL: Stats{Count: 1, Median: 5, Percentiles: map[string]float64{}}, TTFT: Stats{Percentiles: map[string]float64{}}}},
		Unknown: []string{"failed", "itl_ms.mean", "itl_ms.std", "output_throughput"},
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"started":"0001-01-01T00:00:00Z","duration_s":2,"requests":0,"completed":3,"input_tokens":0,`, `"itl_ms":{"count":1,"median":5,"min":0,"max":0,"percentiles":{}}`, `"ttft_ms":{"count":0,"mean":0,`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the JSON lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), `"output_throughput":`) {
		t.Errorf("the JSON has what is not known: %s", text)
	}
	var back Summary
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Unknown, back.Unknown); diff != "" || back.Knows("failed") || !back.Knows("completed") {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	whole, err := json.Marshal(Summary{})
	if err != nil || !strings.Contains(string(whole), `"failed":0`) || strings.Contains(string(whole), "unknown") {
		t.Errorf("with everything known: %s, %v", whole, err)
	}
}
