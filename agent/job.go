package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"hclbench/load"
	"hclbench/load/measure"
	"hclbench/plain"
	"hclbench/telemetry"
)

// Job is what an agent is asked to do: load, and what it reads meanwhile.
type Job struct {
	Load      load.Job       `json:"load"`
	Telemetry telemetry.Plan `json:"telemetry,omitzero"`
	Tell      bool           `json:"tell,omitempty"` // of requests that are over, while the load goes on
}

// Event is one thing that happened to a job. Exactly one event of a job has
// Done set, and it is the last.
type Event struct {
	Seq      int            `json:"seq"` // from 0, without holes
	Progress *load.Progress `json:"progress,omitempty"`
	Over     []load.Record  `json:"over,omitempty"`  // where it is to be told: requests since the last event, without their gaps
	Ready    bool           `json:"ready,omitempty"` // of a share of a load: it waits for the others
	Done     bool           `json:"done,omitempty"`
	Summary  *load.Summary  `json:"summary,omitempty"` // with Done: what was measured, also when Error is set
	Error    string         `json:"error,omitempty"`   // with Done: why the job ended early
	// Telemetry is, with Done, what was read meanwhile; nil: nothing was asked for.
	Telemetry *telemetry.Record `json:"telemetry,omitempty"`
	Gaps      *load.Histogram   `json:"gaps,omitempty"` // with Done: see [load.Result]
}

// job is one run of the generator. Its events stay in memory, its records go to
// disk when it ends, so that a caller who was away misses nothing.
type job struct {
	runID  string // whose it is
	cancel context.CancelFunc
	file   string
	begins chan time.Time // of a share: when it begins; has room for that
	enough chan struct{}  // closed when no more is to be sent
	done   chan struct{}  // closed with the last event

	mu     sync.Mutex
	ending bool // enough is closed
	events []Event
	more   chan struct{} // closed and replaced at each event
}

func (j *job) add(e Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Seq = len(j.events)
	j.events = append(j.events, e)
	close(j.more)
	j.more = make(chan struct{})
	if e.Done {
		close(j.done)
	}
}

// eventsFrom returns the events from n on, and a channel that is closed when there are more.
func (j *job) eventsFrom(n int) ([]Event, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clip(j.events[min(n, len(j.events)):]), j.more
}

// jobOrder is a job as it travels. Its secrets are in the body of the request and in the
// agent's memory, and nowhere else: they are no part of a job that is written down.
type jobOrder struct {
	Job
	Secrets map[string]string `json:"secrets,omitempty"`
}

// secret are the words of an order that nothing may repeat: its secrets, and the
// passwords in the addresses of its servers.
func (o jobOrder) secret() plain.Secrets {
	words := slices.Collect(maps.Values(o.Secrets))
	for _, address := range append([]string{o.Load.Target.BaseURL}, o.Load.Target.BaseURLs...) {
		if u, err := url.Parse(address); err == nil && u.User != nil {
			if password, ok := u.User.Password(); ok {
				words = append(words, password, u.User.String())
			}
		}
	}
	return plain.NewSecrets(words...)
}

// works are what runs for callers for as long as the agent does.
type works struct {
	ctx context.Context // ends when the agent does

	mu    sync.Mutex
	over  bool // nothing is begun any more
	group sync.WaitGroup
}

// begin runs do, unless the agent is ending; then it reports false.
func (w *works) begin(do func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false
	}
	w.group.Go(do)
	return true
}

// wait has nothing begin any more, and returns when all that was begun has ended.
func (w *works) wait() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.group.Wait()
}

// jobs are the runs of the generator that a caller may still ask about.
type jobs struct {
	dir        string // of their records
	spent      func() telemetry.Spent
	calibrated *load.Calibrated
	since      time.Time // when the agent began: see [Info.Up]
	works      *works
	log        *slog.Logger

	mu  sync.Mutex
	all map[string]*job
}

// put starts a job, or does nothing when it is known: a caller that lost the
// answer may ask again.
func (js *jobs) put(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	var order jobOrder
	if err := readNamed(r, id, &order); err != nil {
		return err
	}
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.all[id] == nil {
		spec, secrets := order.Job, order.secret()
		spec.Load.Secrets, spec.Load.Calibrated = order.Secrets, js.calibrated
		ctx, cancel := context.WithCancel(js.works.ctx)
		j := &job{runID: r.Header.Get(headerRun), cancel: cancel, file: filepath.Join(js.dir, id+".jsonl"),
			begins: make(chan time.Time, 1), enough: make(chan struct{}), done: make(chan struct{}), more: make(chan struct{})}
		if !js.works.begin(func() { defer cancel(); j.run(ctx, spec, secrets, js.spent()) }) {
			cancel()
			return errEnding
		}
		js.all[id] = j
		js.log.Info("job started", "job", id, "target", secrets.Hide(spec.Load.Target.BaseURL))
	}
	return nil
}

func (j *job) run(ctx context.Context, spec Job, secrets plain.Secrets, ours telemetry.Spent) {
	sampler := telemetry.Start(ctx, spec.Telemetry, ours)
	others := measure.Others{Enough: j.enough}
	if !spec.Load.Share.Whole() {
		others.Begin = j.wait
	}
	var over []load.Record
	var telling sync.Mutex
	if spec.Tell {
		others.Over = func(r *load.Record) {
			telling.Lock()
			defer telling.Unlock()
			told := *r
			told.Gaps, told.Error = nil, ""
			over = append(over, told)
		}
	}
	result, err := measure.RunWith(ctx, spec.Load, func(p load.Progress) {
		telling.Lock()
		defer telling.Unlock()
		j.add(Event{Progress: &p, Over: over})
		over = nil
	}, others)
	var m Measured
	if result != nil {
		m = Measured{Summary: &result.Summary, Records: result.Records}
	}
	done := Event{Done: true, Summary: m.Summary, Telemetry: sampler.Stop(m.Window())}
	if result != nil {
		done.Gaps = result.Gaps
		if kept := writeRecords(j.file, result.Records); kept != nil {
			err = errors.Join(err, fmt.Errorf("keep the records: %w", kept))
		}
	}
	if err != nil {
		done.Error = secrets.Hide(err.Error())
	}
	j.add(done)
}

// Window is the part of the time that the summary is of, by the clock of the host
// that has sent the load; the zero value when nothing was measured.
func (m Measured) Window() telemetry.Window {
	if m.Summary == nil || len(m.Records) == 0 {
		return telemetry.Window{}
	}
	s := m.Summary
	first := s.Started.Add(m.Records[0].Sent) // records come in the order of dispatch
	w := telemetry.Window{Zero: s.Started, From: first, To: first.Add(time.Duration(s.Duration * float64(time.Second)))}
	if s.Window != nil {
		w.From, w.To = first.Add(time.Duration(s.Window.From)), first.Add(time.Duration(s.Window.To))
	}
	return w
}

// writeRecords writes one record a line, whole or not at all.
func writeRecords(file string, records []load.Record) error {
	f, err := renameio.NewPendingFile(file, renameio.WithPermissions(0o600))
	if err != nil {
		return err
	}
	defer f.Cleanup()
	enc := json.NewEncoder(f)
	for i := range records {
		if err := enc.Encode(&records[i]); err != nil {
			return err
		}
	}
	return f.CloseAtomicallyReplace()
}

func (js *jobs) find(r *http.Request) (*job, error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if j := js.all[r.PathValue("id")]; j != nil {
		return j, nil
	}
	return nil, fail(http.StatusNotFound, "there is no job %s", r.PathValue("id"))
}

// events streams the events from ?from=N on, one JSON object a line, until the job is done.
func (js *jobs) events(w http.ResponseWriter, r *http.Request) error {
	j, err := js.find(r)
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(r.URL.Query().Get("from")) // none, or nonsense: from the first
	n = max(n, 0)
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc, rc := json.NewEncoder(w), http.NewResponseController(w)
	for {
		events, more := j.eventsFrom(n)
		for _, e := range events {
			if enc.Encode(e) != nil || e.Done {
				return nil
			}
		}
		n += len(events)
		if rc.Flush() != nil {
			return nil
		}
		select {
		case <-more:
		case <-r.Context().Done():
			// The agent is ending or the caller is gone. A job that ends with the
			// agent still has a last event to tell.
			if js.works.ctx.Err() == nil {
				return nil
			}
			<-more
		}
	}
}

func (js *jobs) records(w http.ResponseWriter, r *http.Request) error {
	j, err := js.find(r)
	if err != nil {
		return err
	}
	if _, err := os.Stat(j.file); err != nil { // 404 would mean that the job is not known
		return fail(http.StatusGone, "the records were not kept")
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	http.ServeFile(w, r, j.file)
	return nil
}

// endOthers ends the jobs of other runs: their callers were killed, and what they send to a server that somebody else runs
// would be measured with the run's own.
func (js *jobs) endOthers(run string) {
	js.mu.Lock()
	var all []*job
	for id, j := range js.all {
		if j.runID != run {
			all = append(all, j)
			delete(js.all, id)
		}
	}
	js.mu.Unlock()
	for _, j := range all {
		j.cancel()
		<-j.done
		if err := os.RemoveAll(j.file); err != nil {
			js.log.Error("remove what a job of an earlier run has measured", "err", err)
		}
	}
}

func (js *jobs) forget(w http.ResponseWriter, r *http.Request) error {
	js.mu.Lock()
	j := js.all[r.PathValue("id")]
	delete(js.all, r.PathValue("id"))
	js.mu.Unlock()
	if j == nil {
		return nil
	}
	j.cancel()
	<-j.done
	return os.RemoveAll(j.file)
}

// A watch reads what a plan of telemetry says while something is measured that is
// no job of this agent: an engine's own benchmark, or load that another host sends.
type watch struct {
	sampler *telemetry.Sampler
	cancel  context.CancelFunc
}

var errWatchLost = errors.New("the agent has ended meanwhile, and with it what it had read")

type watches struct {
	works *works
	spent func() telemetry.Spent

	mu  sync.Mutex
	all map[string]*watch
}

// put begins to read, or does nothing when the watch is known.
func (ws *watches) put(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	var plan telemetry.Plan
	if err := readNamed(r, id, &plan); err != nil {
		return err
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all[id] == nil {
		ctx, cancel := context.WithCancel(ws.works.ctx)
		sampler := telemetry.Start(ctx, plan, ws.spent())
		if !ws.works.begin(func() { <-ctx.Done(); sampler.Stop(telemetry.Window{}) }) {
			cancel()
			sampler.Stop(telemetry.Window{})
			return errEnding
		}
		ws.all[id] = &watch{sampler, cancel}
	}
	return nil
}

// end ends the reading and answers with the record of a window. It can be asked
// again: only forget forgets the watch.
func (ws *watches) end(w http.ResponseWriter, r *http.Request) error {
	var window telemetry.Window
	if err := read(r, &window); err != nil {
		return err
	}
	ws.mu.Lock()
	known := ws.all[r.PathValue("id")]
	ws.mu.Unlock()
	if known == nil {
		return fail(http.StatusNotFound, "there is no watch %s", r.PathValue("id"))
	}
	return reply(w, known.sampler.Stop(window))
}

func (ws *watches) forget(w http.ResponseWriter, r *http.Request) error {
	ws.mu.Lock()
	if known := ws.all[r.PathValue("id")]; known != nil {
		known.cancel()
		delete(ws.all, r.PathValue("id"))
	}
	ws.mu.Unlock()
	return nil
}

// Watch begins to read on the host what the plan says, until [Client.EndWatch].
func (a *Client) Watch(ctx context.Context, id string, plan telemetry.Plan) error {
	return a.insist(ctx, func() error { return a.call(ctx, "PUT", watchPath(id), plan, nil) })
}

// EndWatch ends what [Client.Watch] began and returns what was read, as the record
// of a window on the host's clock; nil when the plan asked for nothing.
func (a *Client) EndWatch(ctx context.Context, id string, w telemetry.Window) (*telemetry.Record, error) {
	defer a.forget(ctx, watchPath(id))
	var r *telemetry.Record
	err := a.insist(ctx, func() error { return a.call(ctx, "POST", watchPath(id), w, &r) })
	if unknown(err) {
		return nil, errWatchLost
	}
	return r, err
}

func watchPath(id string) string { return "/v1/watches/" + url.PathEscape(id) }

// Ahead is how far the host's clock is ahead of this machine's, to within half of
// the time that asking takes.
func (a *Client) Ahead(ctx context.Context) (time.Duration, error) {
	asked := time.Now()
	in, err := a.Info(ctx)
	return in.Now.Sub(asked.Add(time.Since(asked) / 2)), err
}
