package apply

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/load"
	"hclbench/load/prompts"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/telemetry"
)

// batch measures a cell by the engine's own benchmark, in a container or process of its own.
func (m *measurement) batch(ctx context.Context) (err error) {
	bench, in, s := &m.cell.Batch().Bench, m.t.parts[0], m.t.home()
	image := in.Container.Image
	in.Container, in.Ports = bench.Container, nil
	if in.Runtime == provision.Docker {
		in.Container.Image = image
	}
	m.t.row.Started = time.Now()
	if in.Container, m.t.row.CompileCache, err = s.CompileCache(ctx, in.Engine, in.Container); err != nil {
		return err
	}
	if err := m.t.keepRow(ctx); err != nil {
		return err
	}
	source, err := m.giveInput(ctx, &in)
	if err != nil {
		return err
	}
	m.t.tell.say(Step, "running %s", bench.Tool)
	_, beside := readWhile(m.t.d, m.cell)
	end := watch(ctx, s, m.watchID(), beside[0].plan)
	ahead, err := s.Agent.Ahead(ctx)
	if err != nil {
		return err
	}
	began := time.Now().Add(ahead)
	window := telemetry.Window{Zero: began}
	defer func() {
		m.out.Telemetry = end(ctx, window)
		switch problems := &m.out.Telemetry.Problems; {
		case m.out.Summary == nil:
		case window.Known():
			throttled(m.out.Summary, m.out.Telemetry)
			crowded(m.out.Summary, m.out.Telemetry, 0)
		default:
			const unknown = "it is not known when %s measured, so its energy is not known either"
			*problems = append(*problems, fmt.Sprintf(unknown, bench.Tool))
		}
	}()
	tool, err := m.t.launch(ctx, in)
	if err != nil {
		return err
	}
	m.t.members = []*member{tool}
	defer func() { err = errors.Join(err, m.t.stop(ctx)) }()
	told, r, err := m.result(ctx, tool, bench)
	if err != nil {
		return err
	}
	took := time.Duration(r.Seconds * float64(time.Second))
	if w := told.window(took, ahead, told.written); !w.From.Before(began) {
		window = w
	}
	m.out.Summary = summaryOf(bench.Batch, r, window)
	m.out.Summary.Source = source
	if m.t.row.Served = m.servedOffline(bench, told); m.t.row.Served != nil {
		doubt(m.out.Summary, load.Because(load.CodeServed, m.t.compareServed(m.t.parts[0].Engine, "", m.t.row.Served)...)...)
	}
	return nil
}

// giveInput brings what a tool reads to its host, and puts it where the tool expects it.
func (m *measurement) giveInput(ctx context.Context, in *plan.Member) (source *load.Source, err error) {
	batch := m.cell.Batch()
	bench, data := &batch.Bench, batch.Dataset
	expected, at := cmp.Or(bench.Prompts, bench.Dataset), ""
	switch {
	case expected == "":
		return nil, nil
	case bench.Prompts != "":
		at, source, err = m.placePrompts(ctx, bench, batch.Prompts(batch.Seed))
	default:
		at, source, err = datasetFile(m.t.run.plan.Local(data.Path), m.t.home().Files[data.Path], data)
	}
	if err != nil {
		return nil, err
	}
	ct := &in.Container
	if in.Runtime == provision.Docker {
		ct.Mounts = append(slices.Clone(ct.Mounts), provision.Mount{Source: at, Target: expected, ReadOnly: true})
		return source, nil
	}
	ct.Command = slices.Clone(ct.Command)
	for i, w := range ct.Command {
		if w == provision.Plain(expected) {
			ct.Command[i] = provision.Plain(at)
		}
	}
	return source, nil
}

func (m *measurement) result(ctx context.Context, tool *member,
	bench *engines.Bench) (told marks, r engines.BenchResult, err error) {
	w := m.t.waitFor(bench.Tool, tool)
	w.line = func(line string) { told.see(bench, line) }
	if err := w.until(ctx); err != nil {
		return told, r, err
	}
	if told.text, told.written, err = tool.rt.ReadFile(ctx, tool.id, bench.Result); err != nil {
		return told, r, errors.New(withTail(fmt.Sprintf("%s ended, but left no result: %v", bench.Tool, err), tool.tail(ctx)))
	}
	if r, err = bench.Batch.ReadResult(told.text, told.outputs); err != nil {
		err = fmt.Errorf("%s: %w", bench.Tool, err)
	}
	return told, r, err
}

// marks are what a tool's log has told, by this machine's clock; zero where it has not.
type marks struct {
	begins, ends time.Time
	outputs      int64
	served       json.RawMessage

	text    []byte // of the file with its figures
	written time.Time
}

func (m *measurement) servedOffline(bench *engines.Bench, told marks) json.RawMessage {
	said := told.served
	if said == nil {
		said = bench.ServedWith(told.text)
	}
	if said == nil {
		return nil
	}
	clean, err := engines.WithoutSecrets(m.t.d.Engine, said)
	if err != nil {
		m.t.debug("what it ran with is not known", err)
	}
	return clean
}

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

// window is the part of the time that a tool has measured, by the host's clock, which is ahead by so
// much: the tool says how long it was, and not when. Whatever tells of its end comes then or later,
// so that the earliest is the nearest.
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

func (m *measurement) placePrompts(ctx context.Context, bench *engines.Bench, job load.Job) (remote string, source *load.Source, err error) {
	f, err := os.CreateTemp("", "hcl-prompts-*.jsonl")
	if err != nil {
		return "", nil, fmt.Errorf("write the prompts: %w", err)
	}
	defer os.Remove(f.Name())
	job.Files = map[string]string{}
	for _, path := range job.Workload.Dataset.Inputs() {
		job.Files[path] = m.t.run.plan.Local(path)
	}
	out := bufio.NewWriter(f)
	write, end := bench.PromptFile(out)
	source, err = prompts.Make(ctx, job, write)
	if err := errors.Join(err, end(), out.Flush(), f.Close()); err != nil {
		return "", nil, fmt.Errorf("write the prompts: %w", err)
	}
	remote, err = agent.Place(ctx, m.t.home().Conn, f.Name())
	return remote, source, err
}

// datasetFile is where a data set's file lies on the host, if it is the one that is meant.
func datasetFile(local, remote string, d load.Dataset) (at string, source *load.Source, err error) {
	is, err := agent.SHA(local)
	if err != nil {
		return "", nil, fmt.Errorf("read data set file: %w", err)
	}
	if d.SHA256 != "" && !strings.EqualFold(d.SHA256, is) {
		return "", nil, fmt.Errorf("read data set file %s: its sha256 is %s, not %s", d.Path, is, d.SHA256)
	}
	return remote, &load.Source{SHA256: is, Tokenizer: "the engine's"}, nil
}

// summaryOf is what an offline benchmark measured. No tool gives the times of requests.
func summaryOf(b engines.Batch, r engines.BenchResult, measured telemetry.Window) *load.Summary {
	sum := &load.Summary{
		Part: load.Part{Figures: load.Figures{
			Started: measured.Zero, Duration: r.Seconds,
			Requests: b.Requests, Completed: r.Requests, Failed: max(b.Requests-r.Requests, 0),
			InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
			RequestThroughput: float64(r.Requests) / r.Seconds,
			InputThroughput:   float64(r.InputTokens) / r.Seconds,
			OutputThroughput:  float64(r.OutputTokens) / r.Seconds,
			TotalThroughput:   float64(r.InputTokens+r.OutputTokens) / r.Seconds,
		}, Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Valid}}},
	}
	sum.AskedInput, sum.AskedOutput = b.Asked(r.Requests)
	if sum.Failed > 0 {
		doubt(sum, load.Because(load.CodeFailed, fmt.Sprintf("%d of %d requests failed", sum.Failed, b.Requests))...)
	}
	if sum.OutputTokens < sum.AskedOutput {
		doubt(sum, load.Because(load.CodeOutputs, fmt.Sprintf("the engine generated %d of %d output tokens", sum.OutputTokens, sum.AskedOutput))...)
	}
	return sum
}
