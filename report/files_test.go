package report

import (
	"os"
	"slices"
	"strings"
	"testing"

	"hclbench/results"
)

// TestNames: no name of a benchmark takes the place of another's, of the page's own,
// or of a file.
func TestNames(t *testing.T) {
	var rows []results.Row
	benchmarks := []string{"cells", "rest", "filter", "count", "more", "theme", "tip", "summary", "a_b", "a-b", "A B",
		"日本", "中国", "charts", "across"}
	for _, name := range benchmarks {
		for _, c := range []int64{1, 4} {
			r := row("vllm.h200", c, 100, 20)
			r.Benchmark = name
			rows = append(rows, r)
		}
	}
	dir := t.TempDir()
	names, err := SVG(dir, rows, About{})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(names) {
		t.Errorf("%d files of %d names, %v", len(entries), len(names), err)
	}
	for _, want := range []string{"a-b-latency.svg", "a-b-latency-2.svg", "a-b-latency-3.svg", "x-latency.svg", "x-latency-2.svg"} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no %s", want)
		}
	}
	var page strings.Builder
	if err := HTML(&page, rows, About{}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, part := range strings.Split(page.String(), ` id="`)[1:] {
		id, _, _ := strings.Cut(part, `"`)
		if seen[id] {
			t.Errorf("the page has two elements %q", id)
		}
		seen[id] = true
	}
}
