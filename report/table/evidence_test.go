package table

import (
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
)

// TestReferenceBesideSuspect: a measured figure that is suspect says so beside a published one.
func TestReferenceBesideSuspect(t *testing.T) {
	rows := reporttest.Matrix()[:1]
	rows[0].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "a neighbour")}
	all := figure.Compare(rows, []figure.Reference{{Benchmark: "online", Name: "them", Rows: []map[string]any{{"concurrency": int64(4), "output_throughput": 100.}}}})
	if f := all[0].Figures[0]; !f.Suspect || !strings.HasSuffix(referenceTexts(&f, 1)[1], "suspect") {
		t.Errorf("got %q", referenceTexts(&f, 1))
	}
}

// TestMarkdownCallsNobody: nothing that others have named shows a picture or calls anybody.
func TestMarkdownCallsNobody(t *testing.T) {
	if got, want := MarkdownText(`![x](https://evil.example/p.png) a\|b @team`), `![x]\(https://evil.example/p.png) a\\\|b @`+"\u200b"+`team`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWideLetters: columns behind names in Chinese stand as behind all others.
func TestWideLetters(t *testing.T) {
	s := Tabulate([]Column{{Name: "model", Left: true}, {Name: "n"}}, [][]string{{"通义千问", "1"}, {"qwen", "2"}})
	lines := s.Lines()
	if a, b := plain.Width(lines[1]), plain.Width(lines[2]); a != b {
		t.Errorf("lines are %d and %d wide", a, b)
	}
}
