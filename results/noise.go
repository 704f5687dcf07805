package results

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Noise is how far starts of one engine on one box lie apart when nothing else changes. What figures
// of that box differ by less is no difference: package figure decides it.
type Noise struct {
	Box      string    `json:"box"`    // see [Deployment.Box]
	Engine   string    `json:"engine"` // "vllm.h200"
	Kind     string    `json:"kind"`
	Version  string    `json:"version,omitempty"` // of the engine; empty: not known
	Host     string    `json:"host"`              // what the lab called it then
	RunID    string    `json:"run_id"`
	Measured time.Time `json:"measured"`
	Starts   int       `json:"starts"`
	// Spread is, by metric, the standard deviation of the figure's natural logarithm over the starts,
	// under the load where that is largest: 0.01 is a hundredth of the figure.
	Spread map[string]float64 `json:"spread"`
}

func noiseTable(n *Noise) table {
	return table{
		{"box", &n.Box, false}, {"engine", &n.Engine, false}, {"kind", &n.Kind, false}, {"version", &n.Version, false},
		{"host", &n.Host, false}, {"run_id", &n.RunID, false}, {"measured", &n.Measured, false}, {"starts", &n.Starts, false},
		{"spread", &n.Spread, false},
	}
}

// PutNoise keeps the noise of a box, in place of what was known of that engine there.
func (s *Store) PutNoise(ctx context.Context, n Noise) error {
	return storing(noiseTable(&n).put(ctx, s.db, "noise", 2), "the noise of box", n.Box)
}

// Noises are those of all boxes, the newest first. What cannot be read is not among them: proving the box again
// mends it.
func (s *Store) Noises(ctx context.Context) (all []Noise, err error) { return readNoises(ctx, s.db) }

// NoiseInput is the input of a run that came in a bundle that has the noise of its boxes: what others know of a box
// says nothing of what was measured here.
const NoiseInput = "noise.json"

// noisesFor are those that count for a run.
func noisesFor(ctx context.Context, db *database, run Run, here []Noise) (all []Noise, err error) {
	if !run.Bundled {
		return here, nil
	}
	var text []byte
	err = db.get(ctx, `SELECT content FROM inputs WHERE run_id = ? AND name = ?`, []any{run.ID, NoiseInput}, &text)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the noise of run %s: %w", run.ID, err)
	}
	if json.Unmarshal(text, &all) != nil {
		return nil, nil // nothing is known of it
	}
	return all, nil
}

func readNoises(ctx context.Context, db *database) (all []Noise, err error) {
	if db.lacks["noise"] {
		return nil, nil
	}
	found, err := things(ctx, db, "read the noise of boxes",
		`SELECT `+noiseTable(new(Noise)).names(db, "noise")+` FROM noise n ORDER BY n.measured DESC, n.box, n.engine`, nil, noiseTable)
	for _, n := range found {
		if n.why == nil {
			all = append(all, n.thing)
		}
	}
	return all, err
}

// Box is the box that a deployment ran on, or all of its boxes, as [provision.Facts.Box] names them; empty: of one it is
// not known, or somebody else runs the engine.
func (d *Deployment) Box() string {
	var boxes []string
	for _, m := range d.All() {
		var facts struct {
			Box string `json:"box"`
		}
		if json.Unmarshal(m.Facts, &facts) != nil || facts.Box == "" {
			return ""
		}
		if !slices.Contains(boxes, facts.Box) {
			boxes = append(boxes, facts.Box)
		}
	}
	slices.Sort(boxes)
	return strings.Join(boxes, "+")
}

// noiseOf is what is known of the deployment's box: with the same engine, or else one of its kind, or else the newest;
// nil: nothing.
func (d *Deployment) noiseOf(all []Noise) *Noise {
	box := d.Box()
	if len(all) == 0 || box == "" {
		return nil
	}
	like := func(n *Noise) int {
		switch {
		case n.Box != box:
			return 0
		case n.Engine == d.Engine:
			return 3
		case n.Kind == d.Kind:
			return 2
		}
		return 1
	}
	best := &all[0]
	for i := range all {
		if cmp.Compare(like(&all[i]), like(best)) > 0 {
			best = &all[i]
		}
	}
	if like(best) == 0 {
		return nil
	}
	return best
}
