package door

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"hclbench/accuracy"
	"hclbench/capacity"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
	"hclbench/tune"
)

// Run makes a run from elsewhere fit to be kept, or says why it is none.
func Run(r *results.Run) error {
	if !results.IsRunID(r.ID) {
		return fmt.Errorf("%q is not the id of a run", plain.Cut(r.ID, 40))
	}
	if r.Outcome == results.Importing {
		return fmt.Errorf("run %s was not whole where it comes from", r.ID)
	}
	err := errors.Join(oneOf("command", r.Command, "apply", "rehearse", "bench", "import", results.Proving),
		dated(r.Started, r.Finished), Lines(&r.Lab, &r.Version, &r.Outcome))
	if err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	return nil
}

// Deployment makes a deployment from elsewhere fit to be kept with a run.
func Deployment(d *results.Deployment, run string) error {
	if !IsThingID(d.ID) {
		return fmt.Errorf("%q is not the id of a deployment", plain.Cut(d.ID, 40))
	}
	err := errors.Join(ofRun(d.RunID, run), dated(d.Started, d.Stopped, d.Begun), gpus(d.GPUCount), counted("price", d.PricePerHour),
		counted("time to get ready", d.Ready), Lines(&d.Engine, &d.Kind, &d.Host, &d.GPUs, &d.Model, &d.Image, &d.Digest, &d.CompileCache))
	for i := range d.Members {
		m := &d.Members[i]
		err = errors.Join(err, gpus(m.GPUCount), counted("number", m.Instance, m.Rank), counted("price", m.Price),
			Lines(&m.Role, &m.Host, &m.GPUs, &m.Image, &m.Digest))
	}
	if err != nil {
		return fmt.Errorf("deployment %s: %w", d.ID, err)
	}
	return nil
}

func ofRun(id, run string) error {
	if id != run {
		return fmt.Errorf("it is of run %q", plain.Cut(id, 40))
	}
	return nil
}

func gpus(n int) error {
	if n > math.MaxInt32 {
		return fmt.Errorf("it has %d GPUs", n)
	}
	return counted("number of GPUs", n)
}

// Cell makes a cell from elsewhere fit to be kept with a run.
func Cell(c *results.Cell, run string) error {
	if !IsThingID(c.ID) {
		return fmt.Errorf("%q is not the id of a cell", plain.Cut(c.ID, 40))
	}
	err := errors.Join(ofRun(c.RunID, run), dated(c.Started, c.Finished), Lines(&c.Benchmark, &c.CacheReset), Axes(c.Axes))
	if !IsThingID(c.DeploymentID) {
		err = errors.Join(err, fmt.Errorf("%q is not the id of a deployment", plain.Cut(c.DeploymentID, 40)))
	}
	if c.Repetition < 1 || c.Repetition > math.MaxInt32 {
		err = errors.Join(err, fmt.Errorf("it is repetition %d", c.Repetition))
	}
	if c.Summary != nil {
		err = errors.Join(err, oneOf("verdict", c.Summary.Verdict.Verdict, verdicts()...), Summary(c.Summary))
	}
	if c.Telemetry != nil {
		for _, s := range c.Telemetry.Series {
			if len(s.At) != len(s.Value) {
				err = errors.Join(err, fmt.Errorf("%s of %s has %d times and %d values",
					plain.Cut(s.Name, 40), plain.Cut(s.Of, 40), len(s.At), len(s.Value)))
			}
		}
		for i := range c.Telemetry.Counts {
			n := &c.Telemetry.Counts[i]
			err = errors.Join(err, Lines(&n.Of, &n.Name, &n.Label), counted("number of what its engine counted", n.Sum, n.Times))
		}
	}
	if c.Accuracy != nil {
		err = errors.Join(err, Accuracy(c.Accuracy))
	}
	if c.Origin != nil {
		err = errors.Join(err, oneOf("origin", c.Origin.Format, results.OriginFormats()...))
		if !bytes.HasPrefix(bytes.TrimSpace(c.Origin.Fields), []byte("{")) {
			err = errors.Join(err, errors.New("its origin is not an object"))
		}
	}
	if err != nil {
		return fmt.Errorf("cell %s: %w", c.ID, err)
	}
	return nil
}

// Capacity makes what a search has found elsewhere fit to be kept with a run.
func Capacity(c *results.Capacity, run string) error {
	if !IsThingID(c.ID) {
		return fmt.Errorf("%q is not the id of a search", plain.Cut(c.ID, 40))
	}
	o := &c.Outcome
	err := errors.Join(ofRun(c.RunID, run), dated(c.Finished), Lines(&c.Benchmark, &c.Question, &o.BoundBy, &o.Flaw, &o.Ended), Axes(c.Axes),
		oneOf("load", o.Of, capacity.Concurrency, capacity.Rate), counted("share", o.Confidence, o.Precision),
		counted("range", o.Least, o.Most), counted("duration", o.Took), counted("number of requests", o.Requests))
	if !IsThingID(c.DeploymentID) {
		err = errors.Join(err, fmt.Errorf("%q is not the id of a deployment", plain.Cut(c.DeploymentID, 40)))
	}
	for _, x := range []struct {
		bound *float64
		is    capacity.Verdict
	}{{o.Holds, capacity.Pass}, {o.Breaks, capacity.Fail}} {
		switch at := o.At(x.bound); {
		case x.bound == nil:
		case at == nil:
			err = errors.Join(err, fmt.Errorf("its bound %v is not a load that it has tried", *x.bound))
		case at.Verdict != x.is || o.Flaw != "":
			err = errors.Join(err, fmt.Errorf("its bound %v is %s, and must be %s and no flaw be known", *x.bound, at.Verdict, x.is))
		}
	}
	switch {
	case o.Holds != nil && o.Breaks != nil && *o.Holds >= *o.Breaks:
		err = errors.Join(err, fmt.Errorf("it holds %v and breaks by %v", *o.Holds, *o.Breaks))
	case o.AtLeast != (o.Holds != nil && *o.Holds == o.Most):
		err = errors.Join(err, errors.New("it says wrongly whether it holds the most of its range"))
	case o.Confidence > 1:
		err = errors.Join(err, fmt.Errorf("its confidence cannot be %v", o.Confidence))
	}
	words := []string{string(capacity.Pass), string(capacity.Fail), string(capacity.Unresolved)}
	for i := range o.Loads {
		l := &o.Loads[i]
		err = errors.Join(err, counted("load", l.Load), counted("number of tries", l.Tries), Lines(&l.Doubt),
			oneOf("verdict", string(l.Verdict), words...), oneOf("verdict", string(l.Again), append(words, "")...))
		if l.Load < o.Least || l.Load > o.Most || i > 0 && l.Load <= o.Loads[i-1].Load {
			err = errors.Join(err, fmt.Errorf("its load %v is out of its range, or of its order", l.Load))
		}
		if len(l.Lines) != len(o.Loads[0].Lines) {
			err = errors.Join(err, fmt.Errorf("its load %v has %d lines of the SLO", l.Load, len(l.Lines)))
		}
		for j := range l.Lines {
			x := &l.Lines[j]
			if j < len(o.Loads[0].Lines) && (x.Name != o.Loads[0].Lines[j].Name || x.Max != o.Loads[0].Lines[j].Max) || x.Within > x.Counted {
				err = errors.Join(err, fmt.Errorf("its load %v has another SLO, or more requests within it than were counted", l.Load))
			}
			err = errors.Join(err, Lines(&x.Name), counted("bound", time.Duration(x.Max)), counted("number of requests", x.Counted, x.Within),
				counted("inflation", x.Inflation), oneOf("verdict", string(x.Verdict), words...))
		}
	}
	if err != nil {
		return fmt.Errorf("capacity %s: %w", c.ID, err)
	}
	return nil
}

// Stay makes what a run elsewhere has had of a rented box fit to be kept with it.
func Stay(s *results.Stay, run string) error {
	err := errors.Join(ofRun(s.RunID, run), dated(s.Began, s.Up, s.Ready, s.Ended), counted("price", s.Price, s.Cost, s.Told),
		counted("time", s.Ended.Sub(s.Began)), Lines(&s.Request, &s.Host, &s.Plugin, &s.Box))
	if err != nil {
		return fmt.Errorf("box %s: %w", plain.Cut(s.Box, 40), err)
	}
	return nil
}

// Answer makes an answer from elsewhere fit to be kept.
func Answer(a *accuracy.Answer) error {
	err := errors.Join(oneOf("mark", string(a.Mark), string(accuracy.Right), string(accuracy.Wrong), string(accuracy.Invalid), string(accuracy.Cut),
		string(accuracy.Failed)), counted("number", a.Sample, a.At, a.InputTokens, a.OutputTokens), Lines(&a.Question, &a.Finish))
	if err != nil {
		return fmt.Errorf("the answer to %s: %w", plain.Cut(a.Question, 40), err)
	}
	return nil
}

// Ledger makes what a tuning has tried elsewhere fit to be kept with a run.
func Ledger(l *results.Ledger) error {
	phases := []string{string(tune.AA), string(tune.Search), string(tune.Again), string(tune.Final)}
	var err error
	for i := range l.Starts {
		s := &l.Starts[i]
		err = errors.Join(err, oneOf("phase", string(s.Phase), phases...), counted("number", s.Number, s.Round), counted("time", s.Cost.Time),
			counted("price", s.Cost.Money), dated(s.Began), Lines(&s.Stage, &s.Engine))
		if r := s.Result; r != nil {
			err = errors.Join(err, oneOf("outcome", string(r.Outcome), words(tune.Outcomes())...), counted("score", r.Score.Value, r.Score.Error),
				Lines(&r.At))
		}
		for j := range s.Checks {
			c := &s.Checks[j]
			err = errors.Join(err, Axes(c.Axes), oneOf("verdict", string(c.Verdict), append(words(accuracy.Verdicts()), "")...), asker(c.Asker))
		}
		for j := range s.Loads {
			if err = errors.Join(err, Axes(s.Loads[j].Axes)); !IsThingID(s.Loads[j].Cell) {
				err = errors.Join(err, fmt.Errorf("%q is not the id of a cell", plain.Cut(s.Loads[j].Cell, 40)))
			}
		}
	}
	for i := range l.Asked {
		a := &l.Asked[i]
		err = errors.Join(err, counted("number", a.After, a.Stages))
		for _, lines := range [][]string{a.Lines, a.Told} {
			for j := range lines {
				err = errors.Join(err, Lines(&lines[j]))
			}
		}
	}
	if s := l.Summary; s != nil {
		err = errors.Join(err, Lines(&s.Tune, &s.Objective, &s.Figure, &s.Start), counted("share", s.Confidence, s.Noise), counted("number", s.Tried, s.Of, s.Starts),
			counted("time", s.Seconds), counted("price", s.Cost))
		for _, c := range []*tune.Candidate{s.Winner, s.Leader, s.Next} {
			if c != nil && (s.Place(*c) == 0 || s.Floor == nil) {
				err = errors.Join(err, fmt.Errorf("it has %s ahead, of which it knows too little", plain.Cut(c.Settings(), 40)))
			}
		}
		if s.Gain != nil {
			err = errors.Join(err, counted("gain", s.Gain.Value, s.Gain.Low, s.Gain.High))
		}
		for i := range s.Candidates {
			c := &s.Candidates[i]
			err = errors.Join(err, oneOf("fate", string(c.Fate), words(tune.Fates())...), counted("number", c.Starts, c.Overrides), counted("score", c.Predicted),
				oneOf("verdict", c.Accuracy, append(words(accuracy.Verdicts()), tune.Baseline, "")...), Lines(&c.Altered))
			for _, bound := range []*float64{c.Holds, c.Breaks} {
				if bound != nil {
					err = errors.Join(err, counted("load", *bound))
				}
			}
			for _, e := range []*tune.Estimate{c.Searched, c.Finals} {
				if e != nil {
					err = errors.Join(err, counted("score", e.Value, e.Low, e.High), counted("number", e.Starts))
				}
			}
		}
	}
	if err != nil {
		return fmt.Errorf("the ledger of a tuning: %w", err)
	}
	return nil
}

func words[T ~string](all []T) (texts []string) {
	for _, w := range all {
		texts = append(texts, string(w))
	}
	return texts
}

// Accuracy makes what answers are worth that were given elsewhere fit to be kept.
func Accuracy(a *results.Accuracy) error {
	s, p := &a.Score, &a.Spec
	err := errors.Join(counted("number of answers", s.Asked, s.Right, s.Wrong, s.Invalid, s.Cut, s.Failed, s.InputTokens, s.OutputTokens, p.Samples,
		p.Questions, p.MaxTokens), counted("share", s.Share, s.Low, s.High, a.Margin), Lines(&p.Task, &p.Protocol, &p.Path, &p.SHA256, &p.ShotsPath,
		&p.ShotsSHA256, &p.Scoring, &p.Extract, &p.Endpoint, &a.Baseline))
	for i := range a.Notes {
		err = errors.Join(err, Lines(&a.Notes[i]))
	}
	if o := a.Own; o != nil {
		if err = errors.Join(err, Lines(&o.Without)); o.For != "" && !IsThingID(o.For) {
			err = errors.Join(err, fmt.Errorf("%q is not the id of a deployment", plain.Cut(o.For, 40)))
		}
	}
	for _, of := range a.Against {
		err = errors.Join(err, asker(of))
	}
	if s.Right+s.Wrong+s.Invalid+s.Cut+s.Failed != s.Asked || max(s.Share, s.Low, s.High, a.Margin) > 1 {
		err = errors.Join(err, errors.New("its score does not add up"))
	}
	return err
}

// asker refuses a cell that none can be.
func asker(a results.Asker) error {
	if !IsThingID(a.Cell) || !results.IsRunID(a.Run) {
		return fmt.Errorf("%q of run %q is not a cell that has asked", plain.Cut(a.Cell, 40), plain.Cut(a.Run, 40))
	}
	return nil
}

func verdicts() []string { return []string{load.Valid, load.Imported, load.Suspect, load.Void} }

// Axes makes the coordinates of a cell fit to stand in a table.
func Axes(axes results.Axes) error {
	seen := map[string]bool{}
	for i := range axes {
		x := &axes[i]
		if err := Lines(&x.Name); err != nil {
			return err
		}
		if seen[x.Name] {
			return fmt.Errorf("it has the axis %q twice", x.Name)
		}
		seen[x.Name] = true
		if s, ok := x.Value.(string); ok {
			if err := Lines(&s); err != nil {
				return err
			}
			x.Value = s
		}
	}
	return nil
}

// Summary looks at what tables and charts are made of.
func Summary(s *load.Summary) error {
	err := figures(&s.Figures)
	if x := s.Series; x != nil && (x.Every <= 0 || len(x.OutputTokens) != len(x.InFlight) || len(x.TTFT) != len(x.InFlight)) {
		err = errors.Join(err, errors.New("its lists over time are not of one length"))
	}
	for _, part := range []*load.Part{s.Untrimmed, s.Steady} {
		if part != nil {
			err = errors.Join(err, oneOf("verdict", part.Verdict.Verdict, append(verdicts(), "")...), figures(&part.Figures))
		}
	}
	for i := range s.Clients {
		c := &s.Clients[i]
		err = errors.Join(err, Lines(&c.Host), oneOf("verdict", c.Verdict.Verdict, verdicts()...), figures(&c.Figures))
	}
	return err
}

func figures(s *load.Figures) error {
	err := errors.Join(dated(s.Started),
		counted("duration", s.Duration), counted("number of requests", s.Requests, s.Completed, s.Failed, s.EndedEarly),
		counted("number of tokens", s.InputTokens, s.CachedTokens, s.OutputTokens, s.AskedInput, s.AskedOutput),
		counted("throughput", s.RequestThroughput, s.InputThroughput, s.OutputThroughput, s.TotalThroughput, s.PeakOutputThroughput),
		counted("concurrency", s.MeanConcurrency, float64(s.PeakConcurrency)))
	if c := s.Content; c != nil {
		err = errors.Join(err, counted("number of answers", c.Reasoned, c.Called, c.Unanswered),
			counted("number of chunks", c.Chunks, c.ReasoningChunks, c.CallChunks), counted("number of tokens", c.ReasoningTokens))
	}
	for i := range s.Adapters {
		err = errors.Join(err, Lines(&s.Adapters[i].Name), figures(&s.Adapters[i].Figures))
	}
	ofSessions := load.Stats{}
	if x := s.Sessions; x != nil {
		ofSessions = x.Duration
		err = errors.Join(err, counted("number of sessions", x.Begun, x.Ended, x.ToCall, x.Uncalled), counted("throughput", x.Throughput),
			counted("size of a session", x.Requests, x.InputTokens, x.OutputTokens))
	}
	for _, t := range []load.Stats{ofSessions, s.TTFT, *cmp.Or(s.TTFA, new(load.Stats)), s.TPOT, s.ITL, s.E2EL} {
		err = errors.Join(err, counted("latency", float64(t.Count), t.Mean, t.Median, t.Std, t.Min, t.Max))
		for p, v := range t.Percentiles {
			if at, wrong := strconv.ParseFloat(p, 64); wrong != nil || !(at >= 0 && at <= 100) {
				err = errors.Join(err, fmt.Errorf("%q is no percentile", plain.Cut(p, 40)))
			}
			err = errors.Join(err, counted("latency", v))
		}
	}
	return err
}

// Event makes an event from elsewhere fit to be kept.
func Event(e *results.Event) error {
	e.Message = plain.Text(e.Message)
	err := errors.Join(dated(e.Time), oneOf("level", e.Level, "info", "warn", "error"), Lines(&e.Host, &e.Engine, &e.Cell))
	if err != nil {
		return fmt.Errorf("event: %w", err)
	}
	return nil
}

// Record makes a record from elsewhere fit to be kept.
func Record(r *load.Record) error {
	err := errors.Join(counted("time", r.Scheduled, r.Ready, r.Sent, r.First, r.Answered, r.Last, r.End), counted("gap", r.Gaps...),
		counted("number", r.Seq, r.Client, r.Session, r.Turn, r.Dropped, r.Merged, r.Reasoning, r.Calls, r.Mute, r.ReasoningTokens, r.InputTokens, r.CachedTokens, r.OutputTokens, r.AskedInput, r.AskedOutput, r.Texts), Lines(&r.Finish, &r.Class, &r.Adapter))
	if err != nil {
		return fmt.Errorf("request %d: %w", r.Seq, err)
	}
	return nil
}
