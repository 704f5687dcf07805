package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"hclbench/load"
	"hclbench/plain"
)

// What others have written comes in here, and nowhere else: bundles, files of other
// tools, and what engines and hosts have said. Ids have the form in which they are
// made, words that mean something are among those that are known, numbers are such as
// can be counted or measured, texts can be shown on any terminal, and nothing is
// larger than there is room for.

// limits bound what is taken from a bundle.
type limits struct {
	total   int64 // bytes of all that is in it, unpacked
	file    int64 // bytes of one of its inputs
	index   int64 // bytes of bundle.json
	element int64 // bytes of one thing in bundle.json, or of one record
	things  int   // files, and things of one kind in bundle.json
	records int64 // bytes of memory that the records of one cell take
}

// doorLimits are far above what any run has.
func doorLimits() limits {
	return limits{total: 64 << 30, file: 256 << 20, index: 4 << 30, element: 64 << 20, things: 1 << 20, records: 2 << 30}
}

// errTooLarge says that something is larger than the door lets in.
var errTooLarge = errors.New("it is larger than anything that hcl writes")

// leash is a reader that ends in errTooLarge when more than left bytes come.
type leash struct {
	r    io.Reader
	left int64
}

func (l *leash) Read(b []byte) (int, error) {
	if int64(len(b)) > l.left+1 {
		b = b[:max(l.left+1, 0)]
	}
	n, err := l.r.Read(b)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// isRunID knows what [NewRunID] makes, isThingID the hashes of cells and deployments.
var (
	isRunID   = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[0-9a-z]{4}$`).MatchString
	isThingID = regexp.MustCompile(`^[0-9a-f]{12,64}$`).MatchString
)

// maxName bounds what stands on one line: names, images, models.
const maxName = 4 << 10

// oneLine makes texts fit to stand in a table.
func oneLine(texts ...*string) error {
	for _, s := range texts {
		if *s = plain.Line(*s); len(*s) > maxName {
			return fmt.Errorf("a name has %d bytes: %s", len(*s), plain.Cut(*s, 40))
		}
	}
	return nil
}

// oneOf refuses a word that is none of those that mean something.
func oneOf(what, word string, words ...string) error {
	if !slices.Contains(words, word) {
		return fmt.Errorf("its %s is %q, which is not one of %s", what, plain.Cut(word, 40), strings.Join(words, ", "))
	}
	return nil
}

// dated refuses times that a store cannot keep.
func dated(times ...time.Time) error {
	for _, t := range times {
		if y := t.UTC().Year(); y < 1 || y > 9999 {
			return fmt.Errorf("one of its times is in the year %d", y)
		}
	}
	return nil
}

// counted refuses numbers that nothing can be counted or measured by.
func counted[T int | int64 | float64 | time.Duration](what string, numbers ...T) error {
	for _, n := range numbers {
		if !(n >= 0) || float64(n) > 1<<62 {
			return fmt.Errorf("its %s cannot be %v", what, n)
		}
	}
	return nil
}

// accept makes a run from elsewhere fit to be kept, or says why it is none.
func (r *Run) accept() error {
	if !isRunID(r.ID) {
		return fmt.Errorf("%q is not the id of a run", plain.Cut(r.ID, 40))
	}
	if r.Outcome == importing {
		return fmt.Errorf("run %s was not whole where it comes from", r.ID)
	}
	err := errors.Join(oneOf("command", r.Command, "apply", "rehearse", "bench", "import"),
		dated(r.Started, r.Finished), oneLine(&r.Lab, &r.Version, &r.Outcome))
	if err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	return nil
}

// accept makes a deployment from elsewhere fit to be kept with a run.
func (d *Deployment) accept(run string) error {
	if !isThingID(d.ID) {
		return fmt.Errorf("%q is not the id of a deployment", plain.Cut(d.ID, 40))
	}
	err := errors.Join(dated(d.Started, d.Stopped), counted("number of GPUs", d.GPUCount), counted("price", d.PricePerHour),
		counted("time to get ready", d.Ready), oneLine(&d.Engine, &d.Kind, &d.Host, &d.GPUs, &d.Model, &d.Image, &d.Digest, &d.CompileCache))
	for i := range d.Members {
		m := &d.Members[i]
		err = errors.Join(err, oneLine(&m.Role, &m.Host, &m.GPUs, &m.Image, &m.Digest), counted("price", m.Price),
			counted("number of a member", m.Instance, m.Rank, m.GPUCount))
	}
	if d.RunID != run {
		err = fmt.Errorf("it is of run %q", plain.Cut(d.RunID, 40))
	}
	if d.GPUCount > math.MaxInt32 {
		err = fmt.Errorf("it has %d GPUs", d.GPUCount)
	}
	if err != nil {
		return fmt.Errorf("deployment %s: %w", d.ID, err)
	}
	return nil
}

// accept makes a cell from elsewhere fit to be kept with a run.
func (c *Cell) accept(run string) error {
	if !isThingID(c.ID) {
		return fmt.Errorf("%q is not the id of a cell", plain.Cut(c.ID, 40))
	}
	err := errors.Join(dated(c.Started, c.Finished), oneLine(&c.Benchmark, &c.CacheReset), acceptAxes(c.Axes))
	switch {
	case c.RunID != run:
		err = fmt.Errorf("it is of run %q", plain.Cut(c.RunID, 40))
	case !isThingID(c.DeploymentID):
		err = fmt.Errorf("%q is not the id of a deployment", plain.Cut(c.DeploymentID, 40))
	case c.Repetition < 1 || c.Repetition > math.MaxInt32:
		err = fmt.Errorf("it is repetition %d", c.Repetition)
	}
	if c.Summary != nil {
		err = errors.Join(err, oneOf("verdict", c.Summary.Verdict.Verdict, load.Valid, load.Imported, load.Suspect, load.Void), acceptSummary(c.Summary))
	}
	if c.Telemetry != nil {
		for _, s := range c.Telemetry.Series {
			if len(s.At) != len(s.Value) {
				err = errors.Join(err, fmt.Errorf("%s of %s has %d times and %d values", plain.Cut(s.Name, 40), plain.Cut(s.Of, 40), len(s.At), len(s.Value)))
			}
		}
	}
	if c.Origin != nil {
		err = errors.Join(err, oneOf("origin", c.Origin.Format, originFormats()...))
		if _, wrong := readObject(c.Origin.Fields); wrong != nil {
			err = errors.Join(err, fmt.Errorf("its origin: %w", wrong))
		}
	}
	if err != nil {
		return fmt.Errorf("cell %s: %w", c.ID, err)
	}
	return nil
}

// originFormats are the formats that a cell can have been read from.
func originFormats() []string {
	return []string{formatVLLM, formatSGLang, formatThroughput, formatLatency}
}

func acceptAxes(axes Axes) error {
	seen := map[string]bool{}
	for i := range axes {
		x := &axes[i]
		if err := oneLine(&x.Name); err != nil {
			return err
		}
		if seen[x.Name] {
			return fmt.Errorf("it has the axis %q twice", x.Name)
		}
		seen[x.Name] = true
		if s, ok := x.Value.(string); ok {
			if err := oneLine(&s); err != nil {
				return err
			}
			x.Value = s
		}
	}
	return nil
}

// acceptSummary looks at what tables and charts are made of.
func acceptSummary(s *load.Summary) error {
	err := errors.Join(dated(s.Started),
		counted("duration", s.Duration), counted("number of requests", s.Requests, s.Completed, s.Failed),
		counted("number of tokens", s.InputTokens, s.OutputTokens, s.AskedInput, s.AskedOutput),
		counted("throughput", s.RequestThroughput, s.InputThroughput, s.OutputThroughput, s.TotalThroughput, s.PeakOutputThroughput),
		counted("concurrency", s.MeanConcurrency, float64(s.PeakConcurrency)))
	for _, t := range []load.Stats{s.TTFT, s.TPOT, s.ITL, s.E2EL} {
		err = errors.Join(err, counted("latency", float64(t.Count), t.Mean, t.Median, t.Std, t.Min, t.Max))
		for p, v := range t.Percentiles {
			if at, wrong := strconv.ParseFloat(p, 64); wrong != nil || !(at >= 0 && at <= 100) {
				err = errors.Join(err, fmt.Errorf("%q is no percentile", plain.Cut(p, 40)))
			}
			err = errors.Join(err, counted("latency", v))
		}
	}
	if x := s.Series; x != nil && (x.Every <= 0 || len(x.OutputTokens) != len(x.InFlight) || len(x.TTFT) != len(x.InFlight)) {
		err = errors.Join(err, errors.New("its lists over time are not of one length"))
	}
	for _, part := range []*load.Summary{s.Untrimmed, s.Steady} {
		if part != nil {
			err = errors.Join(err, oneOf("verdict", part.Verdict.Verdict, "", load.Valid, load.Imported, load.Suspect, load.Void), acceptSummary(part))
		}
	}
	return err
}

// accept makes an event from elsewhere fit to be kept.
func (e *Event) accept() error {
	e.Message = plain.Text(e.Message)
	err := errors.Join(dated(e.Time), oneOf("level", e.Level, "info", "warn", "error"), oneLine(&e.Host, &e.Engine, &e.Cell))
	if err != nil {
		return fmt.Errorf("event: %w", err)
	}
	return nil
}

// acceptRecord makes a record from elsewhere fit to be kept.
func acceptRecord(r *load.Record) error {
	err := errors.Join(counted("time", r.Scheduled, r.Ready, r.Sent, r.First, r.Last, r.End), counted("gap", r.Gaps...),
		counted("number", r.Seq, r.Dropped, r.Merged, r.InputTokens, r.OutputTokens, r.AskedInput, r.AskedOutput), oneLine(&r.Finish, &r.Class))
	if err != nil {
		return fmt.Errorf("request %d: %w", r.Seq, err)
	}
	return nil
}

// printableJSON is JSON whose texts, and names of members, are printable. All else,
// and every text that is printable already, is spelt as it was.
func printableJSON(text []byte) []byte {
	var out []byte // nil: nothing had to be changed up to done
	done := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		begin, plainly := i, true
		for i++; i < len(text) && text[i] != '"'; i++ {
			if plainly = plainly && text[i] >= ' ' && text[i] <= '~' && text[i] != '\\'; text[i] == '\\' {
				i++
			}
		}
		if i >= len(text) {
			break // not JSON: whoever reads it says so
		}
		var s string
		if plainly || json.Unmarshal(text[begin:i+1], &s) != nil {
			continue
		}
		shown := plain.Text(s)
		if shown == s && utf8.Valid(text[begin:i]) {
			continue
		}
		out = append(append(out, text[done:begin]...), quotedJSON(shown)...)
		done = i + 1
	}
	if out == nil {
		return text
	}
	return append(out, text[done:]...)
}

// quotedJSON is a text as JSON writes it, with nothing escaped that need not be.
func quotedJSON(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // of a string into memory
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
