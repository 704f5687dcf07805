package reporttest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/results"
)

// Server is one whose capacity is searched for.
type Server struct {
	Engine string
	Holds  float64 // requests in flight of which 95 % have their first token within a second
	After  float64 // as Holds, when a load is tried again at the end; 0: it stays as it is
	Budget float64 // requests; 0: 20,000
	Most   float64 // of the range; 0: 1024
}

// Searched are the cells of searches for the concurrency that servers hold, and what was found: by the real search, of requests
// that are drawn.
func Searched(t testing.TB, servers ...Server) (rows []results.Row, found []results.Capacity) {
	t.Helper()
	slo := []load.Objective{{Metric: "ttft", Percentile: 95, Max: load.Duration(time.Second)},
		{Metric: "tpot", Percentile: 90, Max: load.Duration(50 * time.Millisecond)}}
	for n, server := range servers {
		s, err := capacity.New(capacity.Question{SLO: slo, Least: 1, Most: cmp.Or(server.Most, 1024), Whole: true,
			Confidence: 0.95, Precision: 0.05, Budget: cmp.Or(server.Budget, 20_000), PerRequest: 1})
		if err != nil {
			t.Fatal(err)
		}
		rng, requests, repetitions := rand.New(rand.NewPCG(uint64(n), 27)), 0, map[float64]int{}
		for try, ok := s.Next(); ok; try, ok = s.Next() {
			holds := server.Holds
			if try.Again && server.After > 0 {
				holds = server.After
			}
			sent := send(rng, &try, holds)
			s.Tried(try, float64(sent), "", false)
			requests += sent
			repetitions[try.Load]++
			rows = append(rows, searchedRow(server.Engine, try.Load, holds, repetitions[try.Load], sent, slo))
		}
		r := rows[len(rows)-1]
		found = append(found, results.Capacity{ID: "search-" + server.Engine, RunID: r.RunID, DeploymentID: r.DeploymentID, Benchmark: r.Benchmark,
			Axes:     results.Axes{{Name: "engine", Value: server.Engine}, {Name: "output_tokens", Value: int64(128)}},
			Finished: Start.Add(time.Hour), Outcome: s.Outcome(time.Duration(requests)*100*time.Millisecond, requests)})
	}
	return rows, found
}

// send sends requests of a load until it is decided, in a closed loop, and tells how many.
func send(rng *rand.Rand, try *capacity.Try, holds float64) (sent int) {
	try.Begin()
	var flying []load.Record
	next := func(at time.Duration) {
		ttft := time.Duration(float64(time.Second) * math.Pow(try.Load/holds, 1.2) * math.Exp(0.5*(rng.NormFloat64()-1.645)))
		tpot := time.Duration(float64(30*time.Millisecond) * math.Exp(0.1*rng.NormFloat64()))
		first := at + ttft
		flying = append(flying, load.Record{Seq: sent, Sent: at, First: first, Last: first + tpot, End: first + tpot, OutputTokens: 2})
		sent++
	}
	for range int(try.Load) {
		next(time.Duration(len(flying)) * time.Millisecond)
	}
	for {
		of := 0
		for i := range flying {
			if flying[i].End < flying[of].End {
				of = i
			}
		}
		r := flying[of]
		flying[of] = flying[len(flying)-1]
		flying = flying[:len(flying)-1]
		if try.Over(&r) || sent >= int(try.Most) {
			return sent
		}
		next(r.End)
	}
}

func searchedRow(engine string, at, holds float64, repetition, sent int, slo []load.Objective) results.Row {
	r := Row(engine, int64(at), 800*math.Pow(at/holds, 1.2), 30)
	r.ID, r.Benchmark, r.Repetition, r.DeploymentID = fmt.Sprintf("%s-%v-%d", engine, at, repetition), "chat", repetition, "d-"+engine
	r.Summary.Requests, r.Summary.Completed = sent, sent
	r.Job.Workload = load.Workload{Requests: sent, Concurrency: int(at), OutputTokens: 128, SLO: slo,
		Dataset: load.Dataset{Kind: load.Random, InputTokens: 1024}}
	return r
}
