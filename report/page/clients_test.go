package page

import (
	"io"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/report/table"
	"hclbench/results"
)

// TestClients: each host that has sent a share has a line, and a load from one host has none.
func TestClients(t *testing.T) {
	s := &load.Summary{}
	if table.Clients(s) != nil {
		t.Error("one host has lines")
	}
	page := func() string {
		r := reporttest.Row("vllm.a", 8, 30, 5)
		r.Summary.Clients = s.Clients
		return reporttest.Written(t, func(w io.Writer) error { return HTML(w, []results.Row{r}, figure.About{}) })
	}
	if strings.Contains(page(), `"key":"clients"`) {
		t.Error("one host has a column")
	}
	for _, host := range []string{"c0", "client-1"} {
		c := load.Client{Host: host, Clock: load.Clock{Ahead: -1.25, Within: 0.5}, Late: 0.25}
		c.Requests, c.TTFT = 1500, load.Stats{Count: 1500, Median: 31.5, Percentiles: map[string]float64{"99": 40}}
		c.Verdict.Verdict, c.CPUShare, c.ReadLag = load.Valid, 0.5, &load.Stats{Percentiles: map[string]float64{"99": 0.125}}
		s.Clients = append(s.Clients, c)
	}
	var b strings.Builder
	if err := table.Summary(&b, s, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Client    requests  TTFT p50   p99", "client-1     1,500      31.5  40.0", "-1.25 ± 0.500  valid",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if text := page(); !strings.Contains(text, "c0: 1,500 requests, TTFT median 31.5 ms, ITL median 0 ms, valid; client-1: 1,500") {
		t.Error("the page does not tell of the clients")
	}
}
