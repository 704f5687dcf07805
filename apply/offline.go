package apply

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/load"
	"hclbench/load/prompts"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/results"
	"hclbench/telemetry"
)

// offline runs the engine's own benchmark for each of the cells that ask for it,
// one after the other. unclean says that something could not be taken down; err,
// that a result could not be kept, or why nothing more was tried.
func (s *site) offline(ctx context.Context, d *plan.Deployment, row *results.Deployment, cells []*plan.Cell) (unclean, err error) {
	image := ""
	for _, c := range cells {
		if c.Batch() == nil {
			continue
		}
		if image == "" && d.Members[0].Runtime == provision.Docker {
			if image, err = s.image(ctx, d, row); err != nil {
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				// The other cells need the same image.
				s.event(Event{Type: Failed, Host: s.host.Name, Engine: row.Engine, Message: fmt.Sprintf("%s: %v", d.Engine, err)})
				var rest []*plan.Cell
				for _, c := range cells {
					if c.Batch() != nil {
						rest = append(rest, c)
					}
				}
				return nil, s.giveUp(ctx, *row, rest, fmt.Errorf("%s: %w", d.Engine, err))
			}
		}
		row.Started = time.Now()
		if err := s.keepDeployment(ctx, *row); err != nil {
			return nil, err
		}
		out := s.cellRow(*row, c)
		tell := s.begin(*row, c)
		out.Summary, out.Telemetry, unclean, err = s.runBench(ctx, d, *row, c, image)
		out.Finished = time.Now()
		if ctx.Err() != nil && (err != nil || out.Summary == nil) {
			return unclean, context.Cause(ctx) // interrupted: not a measurement, and not a failure
		}
		if err != nil {
			out.Error = err.Error()
		}
		if err := s.keep(ctx, *row, out, nil, tell); err != nil || unclean != nil {
			return unclean, err
		}
	}
	return unclean, nil
}

// runBench runs one offline benchmark and takes down what it ran in. read is what
// the host and its GPUs said of themselves meanwhile; err says why there is no
// measurement.
func (s *site) runBench(ctx context.Context, d *plan.Deployment, row results.Deployment, c *plan.Cell, image string) (sum *load.Summary, read *telemetry.Record, unclean, err error) {
	in, batch := d.Members[0], c.Batch()
	bench := &batch.Bench
	rt, ct := s.runtime(in.Runtime), bench.Container
	if in.Runtime == provision.Docker {
		ct.Image = image
	}
	if ct, row.CompileCache, err = s.compileCache(ctx, d, ct); err != nil {
		return nil, nil, nil, err
	}
	if row.CompileCache != "" {
		if err := s.keepDeployment(ctx, row); err != nil {
			return nil, nil, nil, err
		}
	}
	ct.Labels = maps.Clone(ct.Labels)
	ct.Labels[plan.LabelRun] = s.opt.Run.ID
	var source *load.Source
	expected, at := cmp.Or(bench.Prompts, bench.Dataset), ""
	switch {
	case bench.Prompts != "":
		at, source, err = s.placePrompts(ctx, batch.Prompts(batch.Seed))
	case bench.Dataset != "":
		at, source, err = s.datasetFile(batch.Dataset)
	}
	switch {
	case err != nil:
		return nil, nil, nil, err
	case expected == "":
	case in.Runtime == provision.Docker:
		ct.Mounts = append(ct.Mounts[:len(ct.Mounts):len(ct.Mounts)], provision.Mount{Source: at, Target: expected, ReadOnly: true})
	default:
		ct.Command = slices.Clone(ct.Command)
		for i, w := range ct.Command {
			if w == provision.Plain(expected) {
				ct.Command[i] = provision.Plain(at)
			}
		}
	}
	s.event(Event{Type: Step, Host: s.host.Name, Engine: row.Engine, Message: "running " + bench.Tool})
	_, beside := readWhile(d, c)
	endWatch := s.watch(ctx, s.opt.Run.ID+"."+c.ID, beside)
	ahead, err := s.agent.Ahead(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	began := time.Now().Add(ahead)
	window := telemetry.Window{Zero: began}
	defer func() {
		if read = endWatch(ctx, window); sum != nil && !window.Known() {
			read.Problems = append(read.Problems, "what part of the time "+bench.Tool+" has measured is not known, and so neither is its energy")
		} else if sum != nil {
			throttled(sum, read)
		}
	}()
	id, err := rt.Start(ctx, ct)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() { unclean = s.down(ctx, rt, id, row.Engine, ct) }()
	var told marks
	if err := s.finished(ctx, d, rt, id, bench.Tool, func(line string) { told.see(bench, line) }); err != nil {
		return nil, nil, nil, err
	}
	text, written, err := rt.ReadFile(ctx, id, bench.Result)
	if err != nil {
		return nil, nil, nil, errors.New(withTail(fmt.Sprintf("%s ended, but left no result: %v", bench.Tool, err), s.tail(ctx, &instance{rt: rt, id: id})))
	}
	r, err := bench.Batch.ReadResult(text, told.outputs)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", bench.Tool, err)
	}
	if w := told.window(time.Duration(r.Seconds*float64(time.Second)), ahead, written); !w.From.Before(began) {
		window = w
	}
	sum = summaryOf(bench.Batch, r, window)
	sum.Source = source
	if row.Served = s.servedOffline(d, bench, told, text); row.Served != nil {
		if err := s.keepDeployment(ctx, row); err != nil {
			return nil, nil, nil, err
		}
		doubt(sum, s.compareServed(d, row.Served)...)
	}
	return sum, nil, nil, nil
}

// marks are what a tool's log has told: when it began and when it had ended, by this
// machine's clock, how many tokens it has generated, and what its engine ran with;
// zero where it has not.
type marks struct {
	begins, ends time.Time
	outputs      int64
	served       json.RawMessage
}

// servedOffline is what the engine of a tool ran with, as far as the tool has told.
func (s *site) servedOffline(d *plan.Deployment, bench *engines.Bench, told marks, result []byte) json.RawMessage {
	said := told.served
	if said == nil {
		said = bench.ServedWith(result)
	}
	if said == nil {
		return nil
	}
	clean, err := engines.WithoutSecrets(d.Engine, said)
	if err != nil {
		s.debug("what it ran with is not known", d.Engine.Label(), err)
		return nil
	}
	return clean
}

// see notes what a line that has come just now says.
func (m *marks) see(bench *engines.Bench, line string) {
	if bench.Begins != nil && bench.Begins.MatchString(line) {
		m.begins = time.Now()
	}
	if bench.Ends != nil && bench.Ends.MatchString(line) {
		m.ends = time.Now()
	}
	if served := bench.ServedIn(line); served != nil {
		m.served = served
	}
	if bench.Outputs != nil {
		if found := bench.Outputs.FindStringSubmatch(line); found != nil {
			m.outputs, _ = strconv.ParseInt(found[1], 10, 64) // what is no number is not said
		}
	}
}

// window is the part of the time that a tool has measured, by the host's clock,
// which is ahead by so much: the tool says how long it was, and not when. Whatever
// tells of its end comes then or later (a line of the log, one of its beginning and
// so much more, the file with its figures), so that the earliest is the nearest.
func (m marks) window(took, ahead time.Duration, written time.Time) telemetry.Window {
	end := written
	if line := m.ends.Add(ahead); !m.ends.IsZero() && line.Before(end) {
		end = line
	}
	if line := m.begins.Add(took + ahead); !m.begins.IsZero() && line.Before(end) {
		end = line
	}
	return telemetry.Window{Zero: end.Add(-took), From: end.Add(-took), To: end}
}

// toolNews is how often the newest line of a tool's log is told.
const toolNews = 10 * time.Second

// finished waits until a tool has ended well. It gives up when the tool fails or
// says what it cannot come back from, and when nothing has moved for the engine's
// stall time. line, unless nil, is told of each line of the log as it comes.
func (s *site) finished(ctx context.Context, d *plan.Deployment, rt runtime, id, tool string, line func(string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWait()
	w.line = line
	stop, err := s.follow(ctx, w, rt, id, d.Engine.Label(), cancel)
	if err != nil {
		return err
	}
	defer stop()
	stall, newest, newestAt := engines.ReadinessOf(d.Engine).Stall, "", time.Now()
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		st, err := rt.State(ctx, id)
		switch {
		case errors.Is(err, provision.ErrNoContainer):
			tick.Stop()
			return errors.New(withTail(tool+": "+errRemoved.Error(), w.lines()))
		case err != nil: // out of reach, which is no silence of the tool's
			w.move()
		case !st.Running:
			tick.Stop()
			w.lastWords()
			if st.ExitCode == 0 && !st.OOMKilled && st.Error == "" {
				return nil
			}
			return errors.New(withTail(tool+": "+exit(st), w.lines()))
		}
		if lines := w.lines(); len(lines) > 0 && lines[len(lines)-1] != newest && time.Since(newestAt) > toolNews {
			newest, newestAt = lines[len(lines)-1], time.Now()
			s.event(Event{Type: Waiting, Host: s.host.Name, Engine: d.Engine.Label(), Message: tool + ": " + plain.Cut(s.secrets.Line(newest), 200)})
		}
		if idle := w.idle(); idle > stall {
			tick.Stop()
			return errors.New(withTail(fmt.Sprintf("%s: nothing has moved for %s", tool, stall), w.lines()))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return errors.New(withTail(tool+": "+context.Cause(ctx).Error(), w.lines()))
		}
	}
}

// placePrompts writes the prompts of a job and brings them to the host.
func (s *site) placePrompts(ctx context.Context, job load.Job) (remote string, source *load.Source, err error) {
	dir, err := os.MkdirTemp("", "hcl-prompts-")
	if err != nil {
		return "", nil, fmt.Errorf("write the prompts: %w", err)
	}
	defer os.RemoveAll(dir)
	local := filepath.Join(dir, "prompts.jsonl")
	f, err := os.Create(local)
	if err != nil {
		return "", nil, fmt.Errorf("write the prompts: %w", err)
	}
	job.Files = map[string]string{}
	for _, path := range job.Workload.Dataset.Inputs() {
		job.Files[path] = s.plan.Local(path)
	}
	out := bufio.NewWriter(f)
	source, err = prompts.Make(ctx, job, func(i int, prompt []byte, output int) error {
		return engines.WritePrompt(out, i, prompt, output)
	})
	if err := errors.Join(err, out.Flush(), f.Close()); err != nil {
		return "", nil, fmt.Errorf("write the prompts: %w", err)
	}
	remote, err = agent.Place(ctx, s.conn, local)
	return remote, source, err
}

// datasetFile is where a data set's file lies on the host, when it is the one that
// is meant: a tool does not look.
func (s *site) datasetFile(d load.Dataset) (remote string, source *load.Source, err error) {
	f, err := os.Open(s.plan.Local(d.Path))
	if err != nil {
		return "", nil, fmt.Errorf("open data set file: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", nil, fmt.Errorf("read data set file: %w", err)
	}
	is := hex.EncodeToString(sum.Sum(nil))
	if d.SHA256 != "" && !strings.EqualFold(d.SHA256, is) {
		return "", nil, fmt.Errorf("read data set file %s: its sha256 is %s, not %s", d.Path, is, d.SHA256)
	}
	return s.files[d.Path], &load.Source{SHA256: is, Tokenizer: "the engine's"}, nil
}

// summaryOf is what an offline benchmark measured, as a run of requests: the
// throughputs and what they are made of. No tool gives the times of requests.
func summaryOf(b engines.Batch, r engines.BenchResult, measured telemetry.Window) *load.Summary {
	sum := &load.Summary{
		Started: measured.Zero, Duration: r.Seconds,
		Requests: b.Requests, Completed: r.Requests, Failed: max(b.Requests-r.Requests, 0),
		InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
		RequestThroughput: float64(r.Requests) / r.Seconds,
		InputThroughput:   float64(r.InputTokens) / r.Seconds,
		OutputThroughput:  float64(r.OutputTokens) / r.Seconds,
		TotalThroughput:   float64(r.InputTokens+r.OutputTokens) / r.Seconds,
		Verdict:           load.Verdict{Verdict: load.Valid},
	}
	sum.AskedInput, sum.AskedOutput = b.Asked(r.Requests)
	if sum.Failed > 0 {
		doubt(sum, fmt.Sprintf("%d of %d requests failed", sum.Failed, b.Requests))
	}
	if sum.OutputTokens < sum.AskedOutput {
		doubt(sum, fmt.Sprintf("the engine generated %d of %d output tokens", sum.OutputTokens, sum.AskedOutput))
	}
	return sum
}
