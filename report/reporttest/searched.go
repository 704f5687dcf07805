package reporttest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/results"
)

// Search is what came of a search for the concurrency that an engine holds with 95 % of first tokens within a second and 90 %
// of tokens within 50 ms each.
type Search struct {
	Engine           string
	Pass, Open, Fail []float64 // loads; Open are UNRESOLVED
	Flaw             string
	Most             float64 // of the range, from 1; 0: 1024
	Running          bool    // it is not over
}

// SearchedSLO is the SLO of all of [Searched].
func SearchedSLO() []load.Objective {
	return []load.Objective{{Metric: "ttft", Percentile: 95, Max: load.Duration(time.Second)},
		{Metric: "tpot", Percentile: 90, Max: load.Duration(50 * time.Millisecond)}}
}

// Searched are the cells that searches have tried, of benchmark "chat", and what they have found. The highest load that
// passed was tried twice.
func Searched(searches ...Search) (rows []results.Row, found []results.Capacity) {
	for _, s := range searches {
		o := capacity.Outcome{Of: capacity.Concurrency, Flaw: s.Flaw, Over: !s.Running, Confidence: 0.95, Precision: 0.05, Least: 1,
			Most: cmp.Or(s.Most, 1024)}
		add := func(loads []float64, v capacity.Verdict, share float64) {
			for _, at := range loads {
				l := capacity.Load{Load: at, Verdict: v, Tries: 1}
				for i, x := range SearchedSLO() {
					line := capacity.LineOutcome{Name: x.Name(), Max: x.Max, Counted: 400 + int(at), Inflation: 1.2, Verdict: v}
					if i > 0 && v == capacity.Fail { // the other one fails
						line.Verdict = capacity.Unresolved
					}
					line.Within = int(math.Round(float64(line.Counted) * min(1, share+0.05*float64(i))))
					l.Lines = append(l.Lines, line)
				}
				o.Loads = append(o.Loads, l)
			}
		}
		add(s.Pass, capacity.Pass, 0.985)
		add(s.Open, capacity.Unresolved, 0.952)
		add(s.Fail, capacity.Fail, 0.88)
		slices.SortFunc(o.Loads, func(a, b capacity.Load) int { return cmp.Compare(a.Load, b.Load) })
		if len(s.Pass) > 0 {
			most := slices.Max(s.Pass)
			l := o.At(&most)
			if l.Tries, l.Again = 2, capacity.Pass; s.Running {
				l.Again = ""
			}
			if s.Flaw == "" {
				o.Holds, o.AtLeast = &most, most == o.Most
			} else {
				l.Again = capacity.Fail
			}
		}
		if len(s.Fail) > 0 && s.Flaw == "" {
			o.Breaks = new(slices.Min(s.Fail))
		}
		if len(s.Fail) > 0 {
			o.BoundBy = SearchedSLO()[0].Name()
		}
		o.Finished = s.Flaw == "" && !s.Running && (o.AtLeast || o.Breaks != nil && (*o.Breaks == o.Least || o.Holds != nil && *o.Breaks <= *o.Holds*1.05))
		for _, l := range o.Loads {
			for try := range l.Tries {
				o.Requests += l.Lines[0].Counted
				rows = append(rows, searchedRow(s.Engine, l, try+1))
			}
		}
		o.Took = float64(o.Requests) / 5
		r := rows[len(rows)-1]
		found = append(found, results.Capacity{ID: "search-" + s.Engine, RunID: r.RunID, DeploymentID: r.DeploymentID, Benchmark: r.Benchmark,
			Axes:     results.Axes{{Name: "engine", Value: s.Engine}, {Name: "output_tokens", Value: int64(128)}},
			Finished: Start.Add(time.Hour), Outcome: o})
	}
	return rows, found
}

func searchedRow(engine string, l capacity.Load, try int) results.Row {
	r := Row(engine, int64(l.Load), 200+6*l.Load, 20+0.1*l.Load)
	r.ID, r.Benchmark, r.Repetition, r.DeploymentID = fmt.Sprintf("%s-%v-%d", engine, l.Load, try), "chat", try, "d-"+engine
	r.Summary.Requests = l.Lines[0].Counted
	r.Summary.Completed = r.Summary.Requests
	r.Job.Workload = load.Workload{Requests: 1000, Concurrency: int(l.Load), OutputTokens: 128, SLO: SearchedSLO(),
		Dataset: load.Dataset{Kind: load.Random, InputTokens: 1024}}
	return r
}
