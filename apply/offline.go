package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/results"
)

// offline runs the engine's own benchmark for each of the cells that ask for it,
// one after the other. unclean says that something could not be taken down; err,
// that a result could not be kept, or why nothing more was tried.
func (s *site) offline(ctx context.Context, d *plan.Deployment, row *results.Deployment, cells []*plan.Cell) (unclean, err error) {
	image := ""
	for _, c := range cells {
		if c.Offline == nil {
			continue
		}
		if image == "" && d.Instances[0].Runtime == provision.Docker {
			if image, err = s.image(ctx, d, row); err != nil {
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				// The other cells need the same image.
				s.event(Event{Type: Failed, Host: s.host.Name, Engine: row.Engine, Message: fmt.Sprintf("%s: %v", d.Engine, err)})
				var rest []*plan.Cell
				for _, c := range cells {
					if c.Offline != nil {
						rest = append(rest, c)
					}
				}
				return nil, s.giveUp(ctx, *row, rest, fmt.Errorf("%s: %w", d.Engine, err))
			}
		}
		row.Started = time.Now()
		if err := s.store.PutDeployment(ctx, *row); err != nil {
			return nil, err
		}
		out := s.cellRow(*row, c)
		tell := s.begin(*row, c)
		out.Summary, unclean, err = s.runBench(ctx, d, *row, c, image)
		out.Finished = time.Now()
		if ctx.Err() != nil {
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

// runBench runs one offline benchmark and takes down what it ran in. err says why
// there is no measurement.
func (s *site) runBench(ctx context.Context, d *plan.Deployment, row results.Deployment, c *plan.Cell, image string) (sum *load.Summary, unclean, err error) {
	in, bench := d.Instances[0], c.Offline
	rt, ct := s.runtime(in.Runtime), bench.Container
	if in.Runtime == provision.Docker {
		ct.Image = image
	}
	if ct, row.CompileCache, err = s.compileCache(ctx, d, ct); err != nil {
		return nil, nil, err
	}
	if row.CompileCache != "" {
		if err := s.store.PutDeployment(ctx, row); err != nil {
			return nil, nil, err
		}
	}
	ct.Labels = maps.Clone(ct.Labels)
	ct.Labels[plan.LabelRun] = s.opt.Run.ID
	batch := engines.Batch{
		Requests: c.Job.Workload.Requests, InputTokens: c.Job.Workload.Dataset.InputTokens,
		OutputTokens: c.Job.Workload.OutputTokens, Seed: c.Job.Seed,
	}
	if bench.Prompts != "" {
		at, err := s.placePrompts(ctx, batch)
		if err != nil {
			return nil, nil, err
		}
		if in.Runtime == provision.Docker {
			ct.Mounts = append(ct.Mounts[:len(ct.Mounts):len(ct.Mounts)], provision.Mount{Source: at, Target: bench.Prompts, ReadOnly: true})
		} else {
			ct.Command = append([]provision.Text(nil), ct.Command...)
			for i, w := range ct.Command {
				if w == provision.Plain(bench.Prompts) {
					ct.Command[i] = provision.Plain(at)
				}
			}
		}
	}
	s.event(Event{Type: Step, Host: s.host.Name, Engine: row.Engine, Message: "running " + bench.Tool})
	id, err := rt.Start(ctx, ct)
	if err != nil {
		return nil, nil, err
	}
	defer func() { unclean = s.down(ctx, rt, id, row.Engine, ct) }()
	if err := s.finished(ctx, d, rt, id, bench.Tool); err != nil {
		return nil, nil, err
	}
	text, err := rt.ReadFile(ctx, id, bench.Result)
	if err != nil {
		return nil, nil, errors.New(withTail(fmt.Sprintf("%s ended, but left no result: %v", bench.Tool, err), s.tail(ctx, rt, id)))
	}
	r, err := batch.ReadResult(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", bench.Tool, err)
	}
	return summaryOf(batch, r), nil, nil
}

// toolNews is how often the newest line of a tool's log is told.
const toolNews = 10 * time.Second

// finished waits until a tool has ended well. It gives up when the tool fails or
// says what it cannot come back from, and when nothing has moved for the engine's
// stall time.
func (s *site) finished(ctx context.Context, d *plan.Deployment, rt runtime, id, tool string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWait()
	logs, err := rt.Logs(ctx, id, true, -1)
	if err != nil {
		return err
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	stop := context.AfterFunc(ctx, func() { logs.Close() })
	defer stop()
	defer logs.Close()
	reading.Go(func() {
		w.read(logs, func(news string) {
			s.event(Event{Type: Waiting, Host: s.host.Name, Engine: d.Engine.Label(), Message: news})
		}, cancel)
	})
	stall, told, toldAt := engines.ReadinessOf(d.Engine).Stall, "", time.Now()
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
		if lines := w.lines(); len(lines) > 0 && lines[len(lines)-1] != told && time.Since(toldAt) > toolNews {
			told, toldAt = lines[len(lines)-1], time.Now()
			s.event(Event{Type: Waiting, Host: s.host.Name, Engine: d.Engine.Label(), Message: tool + ": " + first([]byte(told), 200)})
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

// placePrompts writes the batch's prompts and brings them to the host.
func (s *site) placePrompts(ctx context.Context, b engines.Batch) (remote string, err error) {
	dir, err := os.MkdirTemp("", "hcl-prompts-")
	if err != nil {
		return "", fmt.Errorf("write the prompts: %w", err)
	}
	defer os.RemoveAll(dir)
	local := filepath.Join(dir, "prompts.jsonl")
	f, err := os.Create(local)
	if err != nil {
		return "", fmt.Errorf("write the prompts: %w", err)
	}
	if err := errors.Join(b.WritePrompts(f), f.Close()); err != nil {
		return "", fmt.Errorf("write the prompts: %w", err)
	}
	return agent.Place(ctx, s.conn, local)
}

// summaryOf is what an offline benchmark measured, as a run of requests: the
// throughputs and what they are made of. No tool gives the times of requests.
func summaryOf(b engines.Batch, r engines.BenchResult) *load.Summary {
	sum := &load.Summary{
		Started: time.Now().Add(-time.Duration(r.Seconds * float64(time.Second))), Duration: r.Seconds,
		Requests: b.Requests, Completed: r.Requests, Failed: max(b.Requests-r.Requests, 0),
		InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
		AskedInput: int64(r.Requests) * int64(b.InputTokens), AskedOutput: int64(r.Requests) * int64(b.OutputTokens),
		RequestThroughput: float64(r.Requests) / r.Seconds,
		InputThroughput:   float64(r.InputTokens) / r.Seconds,
		OutputThroughput:  float64(r.OutputTokens) / r.Seconds,
		TotalThroughput:   float64(r.InputTokens+r.OutputTokens) / r.Seconds,
		Verdict:           load.Verdict{Verdict: load.Valid},
	}
	if sum.Failed > 0 {
		doubt(sum, fmt.Sprintf("%d of %d requests failed", sum.Failed, b.Requests))
	}
	if sum.OutputTokens < sum.AskedOutput {
		doubt(sum, fmt.Sprintf("the engine generated %d of %d output tokens", sum.OutputTokens, sum.AskedOutput))
	}
	return sum
}
