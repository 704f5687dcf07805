package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"hclbench/accuracy"
	"hclbench/capacity"
	"hclbench/tune"
)

// Ledger is everything that a tuning has tried over all runs, as it is kept with each of them.
type Ledger struct {
	Question  string        `json:"question"` // a hash of what was asked: of another question nothing counts
	Seed      uint64        `json:"seed,string"`
	FinalSeed uint64        `json:"final_seed,string,omitempty"` // of the finals; 0: not drawn yet, so that who proposes candidates cannot find it
	Starts    []Tried       `json:"starts"`
	Asked     []Asked       `json:"asked,omitempty"`
	Summary   *tune.Summary `json:"summary,omitempty"` // what came of them, for who has no lab; nil: of an earlier hcl
}

// Asked is what a proposer has said when it was asked.
type Asked struct {
	After  int      `json:"after"`           // so many starts of the ledger
	Stages int      `json:"stages"`          // that were over
	Lines  []string `json:"lines,omitempty"` // that are candidates
	Told   []string `json:"told,omitempty"`  // what was wrong with others, or with all
}

// Tried is a start of a ledger.
type Tried struct {
	tune.Start
	Engine     string       `json:"engine"` // its candidate, as results call it
	Settings   string       `json:"settings,omitempty"`
	Run        string       `json:"run"`
	Deployment string       `json:"deployment"`
	Began      time.Time    `json:"began"`
	Loads      []TriedLoad  `json:"loads,omitempty"`
	Checks     []Check      `json:"checks,omitempty"` // of its answers
	Noise      *tune.Noise  `json:"noise,omitempty"`  // of its box, as it was proved before; nil: it was not
	Result     *tune.Result `json:"result"`           // nil: it was broken off, and is made again
	Cost       tune.Cost    `json:"cost"`             // also of one that was broken off
}

// TriedLoad is what a start measured at a load.
type TriedLoad struct {
	Cell   string   `json:"cell"`
	Axes   Axes     `json:"axes"`
	Figure float64  `json:"figure,omitempty"` // 0: there is none
	Missed []string `json:"missed,omitempty"` // lines of the SLO
	Error  string   `json:"error,omitempty"`
	Doubt  string   `json:"doubt,omitempty"` // why the figure is none: the engine has not done what was asked for
	// Capacity is what a search has found, of which the figure is what is likely.
	Capacity *capacity.Outcome `json:"capacity,omitempty"`
}

// Check is what the answers of a start to the questions that guard a tuning prove beside those of its first.
type Check struct {
	Asker
	Axes    Axes             `json:"axes"`
	Verdict accuracy.Verdict `json:"verdict,omitempty"` // empty: it is the baseline itself
	Why     string           `json:"why,omitempty"`
}

// LedgerName is the name under which a run keeps the ledger of a tuning.
func LedgerName(tuning string) string { return LedgerInputs + tuning + ".json" }

// LedgerInputs is what their names begin with.
const LedgerInputs = "tune/"

// At is the place of a cell among the loads of the start; −1: it is none of them. What a search has tried is of the search.
func (t *Tried) At(r *Row) int {
	return slices.IndexFunc(t.Loads, func(l TriedLoad) bool { return l.Cell == r.ID || l.Capacity != nil && t.Deployment == r.DeploymentID })
}

// Tunings returns what tunings have tried: of one run, or of each lab and tuning what was kept last, as q selects cells. What
// cannot be read is an error beside the others.
func (s *Store) Tunings(ctx context.Context, q Query) (all []Ledger, err error) {
	kept, err := s.ledgers(ctx, q)
	for _, name := range slices.SortedFunc(maps.Keys(kept), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		var l Ledger
		if wrong := json.Unmarshal(kept[name], &l); wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s of lab %s is damaged in the store: %w", name[1], name[0], wrong))
			continue
		}
		all = append(all, l)
	}
	return all, err
}

// Ledgers returns the ledgers of measuring runs, of each lab and name the newest. Those of runs that came in a bundle are not
// among them.
func (s *Store) Ledgers(ctx context.Context) (map[[2]string][]byte, error) {
	return s.ledgers(ctx, Query{})
}

func (s *Store) ledgers(ctx context.Context, q Query) (map[[2]string][]byte, error) {
	type input struct {
		lab, name string
		content   []byte
	}
	where, args := "r.id = ?", []any{q.Run}
	if q.Run == "" {
		where, args = "r.bundled = 0 AND (r.command = 'rehearse') = ? AND (r.lab = ? OR ? = '')", []any{q.Rehearsed, q.Lab, q.Lab}
	}
	all, err := collect(ctx, s.db, "read the ledgers", `SELECT r.lab, i.name, i.content FROM inputs i JOIN runs r ON r.id = i.run_id
		WHERE `+where+` AND substr(i.name, 1, length(?)) = ? ORDER BY r.id`, append(args, LedgerInputs, LedgerInputs),
		func(i *input) []any { return []any{&i.lab, &i.name, &i.content} })
	newest := map[[2]string][]byte{}
	for _, i := range all {
		newest[[2]string{i.lab, i.name}] = i.content
	}
	return newest, err
}
