package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"hclbench/engines"
	"hclbench/results"
)

const notServing = "does not serve"

// serving is what is known of an engine that has proved that it serves.
type serving struct {
	model    string            // its name at the server
	phases   []results.Phase   // what took how long, by the engine's log
	listener *results.Listener // nil for an engine that someone else runs
}

// ready waits until the engine really serves: alive, port open, by nobody else,
// healthy, the model listed, still nobody else, one token generated.
func (e *engine) ready(ctx context.Context) (now serving, err error) {
	want := engines.ReadinessOf(e.d.Engine)
	if want.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, want.Timeout, fmt.Errorf("not ready after %s", want.Timeout))
		defer cancel()
	}
	w := e.waitFor(notServing, e.members...)
	server := e.server(engines.BaseURL(e.d.Engine))
	defer server.close()
	port := probe{look: func(ctx context.Context) error {
		err := server.open(ctx)
		w.asked.Store(err == nil)
		return err
	}}
	ours := probe{look: func(ctx context.Context) error {
		front := e.front()
		if front == nil {
			return nil
		}
		found, err := e.listener(ctx, front)
		found.By = e.secrets.Text(found.By)
		now.listener = &found
		return err
	}}
	health := probe{every: want.HealthEvery, look: func(ctx context.Context) error {
		if want.Health == "" {
			return nil
		}
		return server.get(ctx, want.Health, nil)
	}}
	model := probe{look: func(ctx context.Context) (err error) {
		now.model, err = server.model(ctx, want.Models, want.Model)
		return err
	}}
	token := probe{look: func(ctx context.Context) error { return server.generate(ctx, now.model, want.Stall) }}
	if err := w.until(ctx, port, ours, health, model, ours, token); err != nil {
		return now, err
	}
	now.phases = w.up.end(time.Now())
	return now, e.othersServe(ctx, want, now.model)
}

// othersServe makes sure that the other servers of an external engine serve the
// same model.
func (e *engine) othersServe(ctx context.Context, want engines.Readiness, model string) error {
	for _, base := range engines.MoreURLs(e.d.Engine) {
		server := e.server(base)
		defer server.close()
		_, err := server.model(ctx, want.Models, model)
		if err == nil {
			err = server.generate(ctx, model, want.Stall)
		}
		if err != nil {
			why := base + ", one of its urls, does not serve as the first does"
			return &waitError{what: notServing, why: why, probe: err.Error()}
		}
	}
	return nil
}

// hopelessAfter is how long a server may answer what waiting does not change: some
// say that they are ready a little before they are.
const hopelessAfter = time.Minute

// hopeless reports whether waiting does not change such an answer. ours says that the
// server was started for this run, with the one model that it serves; last, that it
// was asked to generate, after it had said that it was ready.
func hopeless(err error, ours, last bool) bool {
	unlisted, answer := new(unlistedError), new(answerError)
	switch {
	case errors.As(err, &unlisted):
		return ours && len(unlisted.listed) > 0
	case !errors.As(err, &answer):
		return errors.Is(err, errNoToken)
	}
	switch answer.code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout: // they say: later
		return false
	}
	return last || answer.code/100 == 3
}
