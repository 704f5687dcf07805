package agent

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"hclbench/telemetry"
)

// A watch reads what a plan of telemetry says while something is measured that is
// no job of this agent: an engine's own benchmark, or load that another host sends.
type watch struct {
	sampler *telemetry.Sampler
	cancel  context.CancelFunc
}

var errWatchLost = errors.New("the agent has ended meanwhile, and with it what it had read")

type watches struct {
	works *works

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
		sampler := telemetry.Start(ctx, plan)
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
