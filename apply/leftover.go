package apply

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"hclbench/engines"
	"hclbench/flow"
	"hclbench/plain"
	"hclbench/telemetry"
)

// What is left of a cell in the members of an engine takes memory and time from the next:
// requests that were given up, and KV caches that nobody has fetched.

const (
	// leftWithin is how long what is left may take to go: SGLang tells only every 30 s what is in
	// use while it has nothing to do.
	leftWithin = 35 * time.Second
	leftShare  = 0.01 // of a KV cache
)

// leftovers waits until the workers have nothing left of what came before. What they still have is
// why the next cell is to be doubted.
func (e *engine) leftovers(ctx context.Context, front *server, model string) []string {
	if !e.d.Grouped() {
		return nil
	}
	patience := min(leftWithin, engines.ReadinessOf(e.d.Engine).Stall)
	for begun := time.Now(); ; {
		left := e.left(ctx)
		if len(left) == 0 || time.Since(begun) > patience {
			return left
		}
		// Prefill frees what was fetched at its next step, which a request brings.
		if err := front.generate(ctx, model, askTimeout); err != nil {
			e.debug("a request between cells fails", err)
		}
		if !flow.Pause(ctx, countEvery) {
			return nil
		}
	}
}

// left is what each worker has in it now; one that does not tell has nothing.
func (e *engine) left(ctx context.Context) (left []string) {
	workers := e.workers()
	said := make([]string, len(workers))
	var asking sync.WaitGroup
	for i, m := range workers {
		names := engines.Exports(m.Engine)
		if names == nil || names.Iterations {
			continue
		}
		asking.Go(func() {
			s := m.server(e)
			defer s.close()
			var text []byte
			if err := s.get(ctx, "/metrics", &text); err != nil {
				e.debug("what is left in "+m.name+" is not known", err)
				return
			}
			now := names.Values(string(text))
			switch requests, used := now[telemetry.Running]+now[telemetry.Waiting], now[telemetry.KVCache]; {
			case requests > 0:
				said[i] = m.says(plain.Count(int(requests), "request") + " of before the cell had not ended when it began")
			case used > leftShare:
				said[i] = m.says(fmt.Sprintf("%.0f %% of its KV cache was in use when the cell began, without a request", math.Ceil(100*used)))
			}
		})
	}
	asking.Wait()
	return slices.DeleteFunc(said, func(s string) bool { return s == "" })
}
