package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/number"
	"hclbench/results"
)

// Cell prints one row in full: what was measured on what, every figure, what its
// identity is made of, and the events that concern it.
func Cell(w io.Writer, r results.Row, events []results.Event) error {
	var b bytes.Buffer
	line := func(name, format string, args ...any) {
		if text := strings.TrimSpace(fmt.Sprintf(format, args...)); text != "" {
			fmt.Fprintf(&b, "%-19s %s\n", name, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 20)))
		}
	}
	line("Cell", "%s", r.ID)
	var axes []string
	for _, x := range r.Axes {
		axes = append(axes, fmt.Sprintf("%s=%v", x.Name, x.Value))
	}
	line("Benchmark", "%s  %s", r.Benchmark, strings.Join(axes, " "))
	if r.Repetition > 1 {
		line("Repetition", "%d", r.Repetition)
	}
	line("Run", "%s  hcl %s of %s, %s", r.RunID, r.Run.Command, r.Run.Lab, r.Run.Version)
	if !r.Started.IsZero() { // others do not tell
		line("Measured", "%s, %s", r.Started.Local().Format(time.DateTime), r.Finished.Sub(r.Started).Round(100*time.Millisecond))
	}
	if r.Stale {
		line("Stale", "the lab no longer asks for it")
	}
	d := r.Deployment
	line("Engine", "%s on %s %s", d.Engine, d.Host, d.GPUs)
	line("Model", "%s", d.Model)
	line("Image", "%s", strings.TrimSpace(d.Image+" "+d.Digest))
	line("Command", "%s", commandText(d.Command))
	switch {
	case d.Ready > 0:
		line("Ready", "%s s after its start", number.Text(d.Ready))
	case len(d.Command) > 0 && r.Verdict().Verdict == load.Void:
		line("Ready", "never, as far as is known")
	}
	for _, p := range d.Phases {
		line("", "%s s %s", number.Text(p.Seconds), p.Name)
	}
	line("Compile cache", "%s", d.CompileCache)
	if d.Listener != nil {
		line("Server", "%s", d.Listener)
	}
	line("Prefix cache", "%s", r.CacheReset)
	for i, name := range slices.Sorted(maps.Keys(d.Versions)) {
		line(first(i, "Versions"), "%s %s", name, d.Versions[name])
	}
	if facts := made(d.Facts); facts != nil {
		text, err := json.MarshalIndent(facts, "", "  ")
		if err != nil {
			return fmt.Errorf("print the host's facts: %w", err)
		}
		line("Host", "%s", text)
	}
	line("Changed since", "%s", strings.Join(r.HostChanged, "\n"))
	for i, name := range slices.Sorted(maps.Keys(r.Identity)) {
		line(first(i, "Identity"), "%s: %s", name, r.Identity[name])
	}
	line("Error", "%s", r.Error)
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
		for _, e := range events {
			fmt.Fprintf(&b, "  %s  %-5s %s\n", e.Time.Local().Format(time.TimeOnly), e.Level, strings.ReplaceAll(e.Message, "\n", "\n    "))
		}
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

// commandText is a command as a shell would take it.
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
