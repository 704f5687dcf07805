package apply

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/results"
)

func (s *site) cellRow(row results.Deployment, c *plan.Cell) results.Cell {
	return results.Cell{
		ID: c.ID, RunID: s.opt.Run.ID, DeploymentID: row.ID,
		Benchmark: c.Benchmark, Axes: c.Axes, Repetition: c.Repetition,
		Identity: c.Identity(), Job: c.Task.Stored(), Started: time.Now(),
	}
}

// measure measures one cell and keeps what came of it. lost says that the engine
// has ended or answers no more; err, that the result could not be kept. doubts are
// why every measurement of this engine is suspect. in is nil for an engine that
// someone else runs.
func (s *site) measure(ctx context.Context, d *plan.Deployment, row results.Deployment, c *plan.Cell, doubts []string, in *instance) (lost, err error) {
	out := s.cellRow(row, c)
	out.Job.Target.Model = row.Model
	p := s.prober(engines.BaseURL(d.Engine), d.Engine)
	defer p.close()
	from, reserved := s.sender(ctx, c)

	tell := s.begin(row, c)

	running, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() { // while a cell is measured nothing probes the engine itself
		defer close(watched)
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-running.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			if err := s.alive(running, in); err != nil {
				cancel(err)
			}
		}
	}()
	apart := context.AfterFunc(reserved, func() { cancel(context.Cause(reserved)) })
	defer apart()
	var got agent.Measured
	runErr := s.reaches(running, c)
	read, beside := readWhile(d, c)
	endWatch := s.watch(running, s.opt.Run.ID+"."+c.ID, beside)
	for attempt := 0; runErr == nil; attempt++ {
		out.Job.Seed += uint64(attempt) // no prompt that the attempt before has put into the cache
		job := out.Job.Job              // as the host gets it; where its files lie there is of no interest later
		job.Files = from.files
		out.CacheReset = resetCache(ctx, p, d.Engine)
		got, runErr = from.agent.Run(running, fmt.Sprintf("%s.%s.%d", s.opt.Run.ID, c.ID, attempt), agent.Job{Load: job, Telemetry: read}, func(p load.Progress) {
			tell(Event{Type: Progress, Progress: &p})
		})
		if attempt == agentLosses || !errors.Is(runErr, agent.ErrJobLost) || running.Err() != nil {
			break
		}
		tell(Event{Type: Warning, Message: "the agent has died in mid-cell and is started again; the cell is measured anew"})
		runErr = nil
	}
	cause := context.Cause(running)
	cancel(nil)
	<-watched
	if c.From() != nil {
		s.addWatch(ctx, got.Telemetry, endWatch, from, got.Window())
	}
	out.Finished = time.Now()
	whole := runErr == nil && got.Summary != nil && got.Summary.Failed == 0
	if ctx.Err() != nil && !whole {
		return nil, nil // interrupted: not a measurement, and not a failure
	}
	if reserved.Err() != nil && whole { // just when it was over; that of this host ends with ctx
		cause = nil
	}

	if reserved.Err() != nil && !whole { // the sender is lost, which says nothing of the engine
		return nil, &toldElsewhere{from.host, context.Cause(reserved)}
	}

	switch {
	case cause != nil:
		lost = cause
	case runErr != nil:
		out.Error = runErr.Error()
	case got.Summary.Failed > 0:
		lost = s.stillServes(ctx, d, p, row.Model, in)
	}
	switch {
	case ctx.Err() != nil && !whole:
		return nil, nil
	case lost != nil: // numbers from a dying engine are not a measurement
		out.Error = withTail("the engine was lost in mid-cell: "+lost.Error(), s.tail(ctx, in))
	case runErr == nil && got.Summary.Completed == 0:
		out.Error = withTail(unanswered(got.Summary), s.tail(ctx, in))
	case runErr == nil:
		out.Summary = got.Summary
		throttled(out.Summary, got.Telemetry)
		doubt(out.Summary, slices.Concat(doubts, s.joined(ctx, d, in))...)
	}
	out.Telemetry = got.Telemetry
	if err := s.keep(ctx, row, out, got.Records, tell); err != nil {
		return nil, err
	}
	if err := full(from.host, runErr); err != nil && from != s {
		return nil, &toldElsewhere{from.host, err}
	} else if err != nil {
		return nil, err
	}
	return lost, nil
}

// unanswered is why there is nothing to measure in a summary without one completed
// request: none was answered, or none of them counts.
func unanswered(s *load.Summary) string {
	if why := strings.Join(s.ErrorSamples, "; "); why != "" {
		return "no request was answered: " + why
	}
	return strings.Join(s.Verdict.Texts(), "; ")
}

// agentLosses is how often a cell is measured anew because the agent has died.
const agentLosses = 2

// begin counts a cell as begun, tells of it, and returns how to tell what happens
// with it.
func (s *site) begin(row results.Deployment, c *plan.Cell) (tell func(Event)) {
	s.mu.Lock()
	s.begun++
	number := s.begun
	s.mu.Unlock()
	tell = func(e Event) {
		e.Host, e.Engine, e.Benchmark, e.Cell, e.Axes = s.host.Name, row.Engine, c.Benchmark, c.ID, c.Axes
		e.Number, e.Of = number, s.outcome.Planned
		s.event(e)
	}
	tell(Event{Type: Begin})
	return tell
}

// place brings the files that a data set reads to the host, each once.
func (s *site) place(ctx context.Context, d load.Dataset) error {
	for _, path := range d.Inputs() {
		if s.files[path] != "" {
			continue
		}
		s.event(Event{Type: Step, Host: s.host.Name, Message: "bringing " + path + " to the host"})
		remote, err := agent.Place(ctx, s.conn, s.plan.Local(path))
		if err != nil {
			return err
		}
		s.files[path] = remote
	}
	return nil
}

// placeAll brings the files that cells read to where their load is sent from.
func (s *site) placeAll(ctx context.Context, cells []*plan.Cell) error {
	for _, c := range cells {
		from, _ := s.sender(ctx, c)
		err := from.place(ctx, c.Task.Stored().Prompts().Dataset)
		switch {
		case err != nil && from != s && !errors.As(err, new(*fs.PathError)):
			return &toldElsewhere{from.host, err}
		case err != nil:
			return err
		}
	}
	return nil
}

// errFull says that a host keeps nothing more of what is measured there.
var errFull = errors.New("its disk is full, and what is measured there is lost; free some of what ~/.cache/hcl lies on, and the next apply goes on from here")

// full reports whether a host had no room for what came of a cell: those that follow
// would be measured for nothing.
func full(h *provision.Host, err error) error {
	if err == nil || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", h, errFull, err)
}

// stillServes reports why the engine does not answer a small request any more.
func (s *site) stillServes(ctx context.Context, d *plan.Deployment, p *prober, model string, in *instance) error {
	if err := s.alive(ctx, in); err != nil {
		return err
	}
	err := p.generate(ctx, model, 30*time.Second)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	// It may be dead, and the runtime not have noticed yet: that says more.
	soon, cancel := context.WithTimeout(ctx, exitPatience)
	defer cancel()
	for tick := time.NewTicker(exitPatience / 10); ; {
		select {
		case <-tick.C:
			if err := s.alive(soon, in); err != nil {
				tick.Stop()
				return err
			}
		case <-soon.Done():
			tick.Stop()
			return fmt.Errorf("it answers no more: %w", err)
		}
	}
}

// keep stores a cell, counts it and tells of it.
// An interruption does not end that: the cell has cost what it has cost.
func (s *site) keep(ctx context.Context, row results.Deployment, out results.Cell, records []load.Record, tell func(Event)) error {
	ctx, done := Beyond(ctx, storePatience)
	defer done()
	if err := s.keepCell(ctx, &out, records); err != nil {
		// What follows could not be kept either, and costs money.
		err = fmt.Errorf("keep cell %s of benchmark %s: %w", out.ID, out.Benchmark, err)
		s.event(Event{Type: Failed, Host: s.host.Name, Engine: row.Engine, Message: err.Error()})
		s.stop(err)
		return err
	}
	verdict := out.Verdict()
	s.mu.Lock()
	switch verdict.Verdict {
	case load.Valid:
		s.outcome.Valid++
	case load.Suspect:
		s.outcome.Suspect++
	default:
		s.outcome.Void++
	}
	s.mu.Unlock()
	if tell != nil {
		tell(Event{Type: End, Summary: out.Summary, Message: out.Error})
	}
	return nil
}

// resetCache drops the engine's prefix cache and says what came of it.
func resetCache(ctx context.Context, p *prober, e *engines.Engine) string {
	method, path, why, ok := engines.CacheReset(e)
	if !ok {
		return "unsupported: " + why
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := p.do(ctx, method, path, nil, nil); err != nil {
		return "failed: " + err.Error()
	}
	return "flushed"
}

// errRemoved says that an engine is not there any more.
var errRemoved = errors.New("it was removed, by somebody else or because the lease ran out")

// alive reports how the engine has ended. Not being able to ask says nothing.
func (s *site) alive(ctx context.Context, in *instance) error {
	if in == nil {
		return nil
	}
	st, err := in.rt.State(ctx, in.id)
	if errors.Is(err, provision.ErrNoContainer) {
		return errRemoved
	}
	if err != nil || st.Running {
		return nil
	}
	return errors.New(exit(st))
}

// tail returns an engine's last log lines, as well as they can be had.
func (s *site) tail(ctx context.Context, in *instance) []string {
	if in == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	logs, err := in.rt.Logs(ctx, in.id, false, tailLines)
	if err != nil {
		return nil
	}
	defer logs.Close()
	var lines []string
	for sc := bufio.NewScanner(io.LimitReader(logs, 256<<10)); sc.Scan(); {
		lines = append(lines, sc.Text())
	}
	return lines
}

func withTail(what string, tail []string) string {
	if len(tail) == 0 {
		return what
	}
	return what + "\n  last log lines:\n    " + strings.Join(tail, "\n    ")
}

// compareDigest warns when a tag has moved since cells that count as up to date
// were measured: the new cells would stand beside them as if nothing had changed.
func (s *site) compareDigest(d *plan.Deployment, engine string, image provision.Image) {
	moved, before := 0, ""
	for _, c := range d.Cells {
		if c.Status == plan.Done && c.Digest != "" && image.Digest != "" && c.Digest != image.Digest {
			moved, before = moved+1, c.Digest
		}
	}
	if moved > 0 {
		s.event(Event{Type: Warning, Host: s.host.Name, Engine: engine, Message: fmt.Sprintf(
			"%s means another image now, %s, than when %d of the cells that are up to date were measured, %s; --rerun measures them again, and an image written with its digest cannot move", image.Ref, image.Digest, moved, before)})
	}
}

// compareFacts warns when the host is not as it was when cells that count as up to date
// were measured there.
func (s *site) compareFacts(d *plan.Deployment) {
	told := map[string]int{}
	for _, c := range d.Cells {
		if c.Status == plan.Done && c.Facts != nil {
			if changed := strings.Join(s.known.Differences(*c.Facts), ", "); changed != "" {
				told[changed]++
			}
		}
	}
	for _, changed := range slices.Sorted(maps.Keys(told)) {
		s.event(Event{Type: Warning, Host: s.host.Name, Engine: d.Engine.Label(), Message: fmt.Sprintf(
			"%s has changed since %d of the cells that are up to date were measured: %s; --strict-facts measures them again", s.host, told[changed], changed)})
	}
}

// image brings the deployment's image to the host, notes what it is, and returns
// its id: what the tag means now, whatever it means later.
func (s *site) image(ctx context.Context, d *plan.Deployment, row *results.Deployment) (id string, err error) {
	started := time.Now()
	image, err := s.pull(ctx, row.Engine, d.Engine.Image)
	if err != nil {
		return "", err
	}
	row.Phases = append(row.Phases, results.Phase{Name: "pulling", Seconds: time.Since(started).Seconds()})
	row.Digest = image.Digest
	s.compareDigest(d, row.Engine, image)
	return image.ID, s.proveGPUs(ctx, d, image.ID)
}

// compileCache gives a container the part of its engine's compile cache that
// belongs to its image, and tells whether an earlier start has left something
// there: "cold" or "warm"; "" for an engine that keeps nothing.
func (s *site) compileCache(ctx context.Context, d *plan.Deployment, ct provision.Container) (provision.Container, string, error) {
	ct, at := engines.CompileCache(d.Engine, ct, ct.Image)
	if at == "" {
		return ct, "", nil
	}
	there, err := s.conn.Run(ctx, "ls -A "+plain.Quote(s.onHost(at))+" 2>/dev/null || true", nil)
	if err != nil {
		return ct, "", fmt.Errorf("look at the compile cache: %w", err)
	}
	state := "cold"
	if strings.TrimSpace(there) != "" {
		state = "warm"
	}
	return ct, state, nil
}

// pull brings an image to the host.
func (s *site) pull(ctx context.Context, engine, image string) (provision.Image, error) {
	s.event(Event{Type: Step, Host: s.host.Name, Engine: engine, Message: "pulling " + image})
	got, err := s.docker.Images.Pull(ctx, image, func(p provision.PullProgress) {
		s.event(Event{Type: Pull, Host: s.host.Name, Engine: engine, Pull: &p})
	})
	if err != nil {
		return got, err
	}
	if got.Local {
		s.event(Event{Type: Warning, Host: s.host.Name, Engine: engine, Message: "the registry cannot be reached; using the image that the host has of " + image})
	}
	return got, nil
}
