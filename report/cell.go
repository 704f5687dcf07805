package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"hclbench/plain"
	"hclbench/results"
)

// Cell prints one row in full: what was measured on what, every figure, what its
// identity is made of, and the events that concern it.
func Cell(w io.Writer, r results.Row, events []results.Event) error {
	var b bytes.Buffer
	for _, f := range cellFacts(&r) {
		if text := strings.TrimSpace(f.Value); text != "" {
			fmt.Fprintf(&b, "%-19s %s\n", f.Name, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 20)))
		}
	}
	if r.Summary != nil {
		b.WriteByte('\n')
		if err := Text(&b, r.Summary); err != nil {
			return err
		}
	}
	if text := observed(&r); text != "" {
		b.WriteString("\n" + text)
	}
	if len(events) > 0 {
		b.WriteString("\nWhat happened\n")
	}
	for _, e := range events {
		fmt.Fprintf(&b, "  %s  %-5s %s\n", e.Time.Local().Format(time.TimeOnly), e.Level,
			strings.ReplaceAll(e.Message, "\n", "\n    "))
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

// cellFacts are what is known of a cell besides its figures; what is not is empty.
func cellFacts(r *results.Row) []fact {
	d := &r.Deployment
	facts := []fact{{"Cell", r.ID}, {"Benchmark", r.Benchmark + "  " + cellName("", r.Axes)}}
	add := func(name, format string, args ...any) {
		facts = append(facts, fact{name, fmt.Sprintf(format, args...)})
	}
	if r.Repetition > 1 {
		add("Repetition", "%d", r.Repetition)
	}
	add("Run", "%s  hcl %s of %s, %s", r.RunID, r.Run.Command, r.Run.Lab, r.Run.Version)
	if !r.Started.IsZero() { // others do not tell
		add("Measured", "%s, %s", r.Started.Local().Format(time.DateTime),
			r.Finished.Sub(r.Started).Round(100*time.Millisecond))
	}
	if r.Stale {
		add("Stale", "the lab no longer asks for it")
	}
	add("Engine", "%s on %s %s", d.Engine, d.Host, d.GPUs)
	facts = append(facts, deploymentFacts(d)...)
	if d.Ready == 0 && len(d.Command) > 0 && !isMeasured(r) {
		add("Ready", "never, as far as is known")
	}
	for _, m := range d.All() {
		add("Command"+ofMember(d, m), "%s", commandText(m.Command))
	}
	add("Prefix cache", "%s", r.CacheReset)
	for _, m := range hostsOf(d) {
		if text, err := json.MarshalIndent(made(m.Facts), "", "  "); err == nil && string(text) != "null" {
			add("Host", "%s", text)
		}
	}
	add("Changed since", "%s", strings.Join(r.HostChanged, "\n"))
	add("Identity", "%s", strings.Join(inOrder(r.Identity, ": "), "\n"))
	add("Error", "%s", r.Error)
	return facts
}

func commandText(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = plain.Quote(w)
	}
	return strings.Join(words, " ")
}

// first is a name in the first line of several.
func first(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}
