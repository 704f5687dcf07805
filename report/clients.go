package report

import (
	"cmp"
	"fmt"
	"strings"

	"hclbench/load"
	"hclbench/report/number"
)

// clientsOf has a line for each host that has sent a share of the load; nil: one host has sent it all.
func clientsOf(s *load.Summary) *sheet {
	if len(s.Clients) == 0 {
		return nil
	}
	columns := []column{{name: "Client", left: true}, {name: "requests"}, {name: "TTFT p50"}, {name: "p99"},
		{name: "ITL p50"}, {name: "p99 ms"}, {name: "read lag"}, {name: "of a core"}, {name: "late ms"},
		{name: "clock ms"}, {name: "verdict", left: true}}
	var lines [][]string
	for _, c := range s.Clients {
		lag := ""
		if c.ReadLag != nil {
			lag = number.Text(c.ReadLag.Percentiles["99"])
		}
		clock := fmt.Sprintf("%s ± %s", number.Text(c.Clock.Ahead), number.Text(c.Clock.Within))
		lines = append(lines, []string{c.Host, number.Whole(c.Requests),
			middle(c.TTFT), high(c.TTFT), middle(c.ITL), high(c.ITL),
			lag, number.Text(100*c.CPUShare) + "%", number.Text(c.Late), clock, c.Verdict.Verdict})
	}
	return tabulate(columns, lines)
}

// sharesText is in short what each host has sent, and what each adapter was asked; both are empty
// where there is but one.
func sharesText(s *load.Summary) (clients, adapters string) {
	if s == nil {
		return "", ""
	}
	said := func(name string, f *load.Figures, verdict string) string {
		if f.Requests == 0 {
			return name + ": no request counts"
		}
		return fmt.Sprintf("%s: %s requests, TTFT median %s ms, ITL median %s ms%s",
			name, number.Whole(f.Requests), number.Text(f.TTFT.Median), number.Text(f.ITL.Median), verdict)
	}
	var sent, asked []string
	for _, c := range s.Clients {
		sent = append(sent, said(c.Host, &c.Figures, ", "+c.Verdict.Verdict))
	}
	for _, a := range s.Adapters {
		asked = append(asked, said(cmp.Or(a.Name, "(the model itself)"), &a.Figures, ""))
	}
	return strings.Join(sent, "; "), strings.Join(asked, "; ")
}

// middle is the median, where there is a value.
func middle(s load.Stats) string {
	if s.Count == 0 {
		return ""
	}
	return number.Text(s.Median)
}

// high is the 99th percentile, where it was asked for and there are enough values to carry it.
func high(s load.Stats) string {
	v, known := s.Percentiles["99"]
	if !known || s.Count < load.Needs(99) {
		return ""
	}
	return number.Text(v)
}
