package measure

import (
	"cmp"
	"math"
	"slices"
	"time"

	"hclbench/load"
)

// Shared is what one of several clients has measured of its share of a load.
type Shared struct {
	Host  string
	Clock load.Clock
	*load.Result
}

// Merge is what clients have measured together that have begun a job at the same moment: its
// figures are those of the requests of all, as if one client had sent them.
func Merge(job load.Job, clients []Shared) *load.Result {
	w, out := job.Workload, &load.Result{Gaps: gapsOfAll(clients)}
	for i, c := range clients {
		for _, r := range c.Records {
			r.Client = i
			out.Records = append(out.Records, r)
		}
	}
	slices.SortFunc(out.Records, func(a, b load.Record) int {
		return cmp.Or(cmp.Compare(a.Sent, b.Sent), cmp.Compare(a.Seq, b.Seq))
	})
	s := summarize(w, job.Percentiles, clients[0].Summary.Started, duration(out.Records), out.Records)
	complete(&s, out.Gaps)
	s = s.Under(w.SLO, out.Records)
	s.Source = sourceOf(w, clients)
	source := s.Source
	for _, c := range clients {
		s.Clients = append(s.Clients, c.client())
	}
	asked := w
	if w.Dataset.Timed() {
		asked.Requests = 0 // they are at most so many; how many the file has, the clients know
	}
	found := doubtsOfClients(w, &s, out.Records)
	for _, part := range s.Parts() {
		// The generators are judged each by itself.
		all, here := evidence{workload: asked, records: out.Records}.verdict(*part, source), found
		for _, c := range clients {
			own := c.Summary.Part
			if whole := c.Summary.Untrimmed; part == s.Untrimmed && whole != nil {
				own = *whole
			}
			here = here.of(c.Host, own.Verdict)
			part.Generator = together(part.Generator, own.Generator)
		}
		part.Verdict, source = here.with(all), nil
	}
	out.Summary = s
	return out
}

// gapsOfAll are all times between chunks, where a client's records have lost some; else nil.
func gapsOfAll(clients []Shared) *load.Histogram {
	if !slices.ContainsFunc(clients, func(c Shared) bool { return c.Gaps != nil }) {
		return nil
	}
	all := new(load.Histogram)
	for _, c := range clients {
		if c.Gaps != nil {
			all.Merge(c.Gaps)
			continue
		}
		for i := range c.Records {
			if r := &c.Records[i]; r.OK() {
				for _, gap := range r.Gaps {
					all.Add(gap)
				}
			}
		}
	}
	return all
}

// client is what is kept of the client beside the figures of all.
func (c Shared) client() load.Client {
	out := load.Client{Host: c.Host, Clock: c.Clock, Part: c.Summary.Part}
	out.Intervals, out.Unbounded = nil, nil // a part of the requests says less of the engine than all of them
	if len(c.Records) > 0 {
		out.Late = load.Ms(c.Records[0].Sent - c.Records[0].Ready)
	}
	return out
}

// sourceOf is what all clients have drawn their prompts from; nil: from no file.
func sourceOf(w load.Workload, clients []Shared) *load.Source {
	first, measured, warmed := clients[0].Summary.Source, 0, 0
	for _, c := range clients {
		if s := c.Summary.Source; s != nil {
			measured, warmed = measured+s.Sessions, warmed+s.WarmupSessions
		}
	}
	if first == nil || w.Dataset.Fresh() { // each prompt is like no other
		return first
	}
	return new(first.Drawn(measured, warmed))
}

// together is what several generators took, see [load.Generator].
func together(a, b load.Generator) load.Generator {
	a.GCPauses, a.Cores, a.CPUShare = a.GCPauses+b.GCPauses, a.Cores+b.Cores, a.CPUShare+b.CPUShare
	a.Warmup, a.WarmupFailed = a.Warmup+b.Warmup, a.WarmupFailed+b.WarmupFailed
	a.Stopped, a.Starved = max(a.Stopped, b.Stopped), max(a.Starved, b.Starved)
	a.GCPauseMs, a.GCLongest = max(a.GCPauseMs, b.GCPauseMs), max(a.GCLongest, b.GCLongest)
	if a.ReadLag == nil || b.ReadLag != nil && b.ReadLag.Percentiles["99"] > a.ReadLag.Percentiles["99"] {
		a.ReadLag = b.ReadLag
	}
	return a
}

// What clients may be apart from each other.
const (
	maxApart   = 50 * time.Millisecond // in when they begin, and in what their clocks are known to
	apartOfRun = 0.01                  // of a run, where that is more
	maxUnlike  = 0.1                   // of a figure
	// of its requests, that fail on their way to the engine
	maxUnreached = 0.05
	surelyNot    = 4.0 // standard errors: 1 of 1000 by chance, of each figure and client
)

// ofClients are reasons that concern clients. What makes a measurement void is apart.
type ofClients struct{ void, suspect reasons }

// with is a verdict on all requests, and what is wrong with the clients that sent them. What one
// of them says by name is not said of all.
func (f ofClients) with(v load.Verdict) load.Verdict {
	if len(f.void) > 0 {
		return load.Verdict{Verdict: load.Void, Reasons: f.void}
	}
	if v.Verdict == load.Void {
		return v
	}
	v.Reasons = slices.DeleteFunc(slices.Clone(v.Reasons), func(r load.Reason) bool {
		return slices.ContainsFunc(f.suspect, func(of load.Reason) bool { return of.Code == r.Code })
	})
	return reasons(slices.Concat(f.suspect, v.Reasons)).verdict()
}

// of are the reasons with those that a client has found itself, by name, in the same part of the run.
func (f ofClients) of(client string, own load.Verdict) ofClients {
	f.void, f.suspect = slices.Clone(f.void), slices.Clone(f.suspect)
	for _, r := range own.Reasons {
		r.Text = client + ": " + r.Text
		switch r.Code {
		case busy.code, fellBehind.code, stoodStill.code:
			f.void = append(f.void, r)
		case sentLate.code, readLate.code, starved.code, paused.code, beyondStreams.code, warmupFailed.code:
			f.suspect = append(f.suspect, r)
		}
	}
	return f
}

// doubtsOfClients says which clients have not sent their share as they should.
func doubtsOfClients(w load.Workload, s *load.Summary, records []load.Record) (found ofClients) {
	run := time.Duration(s.Duration * float64(time.Second))
	limit := load.Ms(max(maxApart, time.Duration(apartOfRun*float64(run))))
	sent := make([]int, len(s.Clients)) // in a window too, in which a client may have nothing to send
	for _, r := range records {
		sent[r.Client]++
	}
	found.suspect.uneven(w, s, records)
	for i, c := range s.Clients {
		unknown := c.Clock.Within + math.Abs(c.Clock.Gained)
		switch {
		case sent[i] == 0:
			found.void.add(true, 0, 0, sentNothing, c.Host)
		case c.Late > limit:
			found.void.above(c.Late, limit, beganLate, c.Host, c.Late, limit)
		case cutOff(c, s):
			found.void.add(true, 0, 0, clientCutOff, c.Host, unreached(c.Figures), c.Requests, c.Failures())
		}
		found.void.above(unknown, limit, clockUnknown, c.Host, unknown, limit)
	}
	if w.Speed == 0 {
		found.suspect.unlike(w, s.Clients, records)
	}
	return found
}

// cutOff reports whether a client could not reach the engine for a good part of its share, and the others could.
func cutOff(c load.Client, s *load.Summary) bool {
	all, others := 0, 0
	for _, x := range s.Clients {
		all, others = all+x.Requests, others+unreached(x.Figures)
	}
	own := unreached(c.Figures)
	return float64(own) > maxUnreached*float64(c.Requests) && float64(others-own) <= maxUnreached*float64(all-c.Requests)
}

// unreached are the requests that failed on their way.
func unreached(f load.Figures) (n int) {
	for _, class := range []string{load.ClassConnect, load.ClassStale, load.ClassTruncated, load.ClassStall, load.ClassTimeout} {
		n += f.Errors[class]
	}
	return n
}

// uneven finds the client that had sent its share of a closed loop well before another had: its slots
// stood empty for the rest, where one client alone would have filled them.
func (r *reasons) uneven(w load.Workload, s *load.Summary, records []load.Record) {
	if !loops(w) || s.Window != nil || w.Duration != 0 {
		return
	}
	last := lastDispatches(records)
	first, slowest := slices.Index(last, slices.Min(last)), slices.Index(last, slices.Max(last))
	apart := (slices.Max(last) - last[first]).Seconds()
	limit := max(load.MaxLittle*s.Duration, load.Ms(maxApart)/1e3)
	r.above(apart, limit, unevenShares, s.Clients[first].Host, apart, s.Clients[slowest].Host, limit)
}

// lastDispatches are when each client sent its last request.
func lastDispatches(records []load.Record) []time.Duration {
	var last []time.Duration
	for _, x := range records {
		for len(last) <= x.Client {
			last = append(last, 0)
		}
		last[x.Client] = max(last[x.Client], x.Sent)
	}
	return last
}

// unlike finds the client whose latencies differ from those of the others by more than chance
// explains, and enough to matter: the batches of all are of the same time, so that what the engine
// does in one concerns all of them.
func (r *reasons) unlike(w load.Workload, clients []load.Client, records []load.Record) {
	if !w.TimesTokens() || !unchanging(w) || w.Dataset.Talks() {
		return
	}
	of := make([][]load.Record, len(clients))
	for _, x := range records {
		of[x.Client] = append(of[x.Client], x)
	}
	c := newCut(w, records, always)
	for _, figure := range []struct {
		batches func([]load.Record) []float64
		doubt
	}{{c.waits, unlikeStart}, {c.gaps, unlikePace}} {
		batched := make([][]float64, len(clients))
		for i := range of {
			batched[i] = figure.batches(of[i])
		}
		if which, own, others := oddOne(batched); which >= 0 {
			rest := "the others"
			if len(clients) == 2 {
				rest = clients[1-which].Host
			}
			r.add(true, math.Abs(own-others)/others, maxUnlike, figure.doubt, own, clients[which].Host, others, rest)
		}
	}
}

// oddOne is the client that is farthest from the mean of the others, batch by batch; which is -1
// where none is by more than chance, or there are too few requests to tell.
func oddOne(batched [][]float64) (which int, own, others float64) {
	which = -1
	for _, b := range batched {
		if len(b) < batches {
			return which, 0, 0
		}
	}
	farthest := 0.0
	for i, values := range batched {
		apart, mean, rest := make([]float64, batches), 0.0, 0.0
		for b := range batches {
			sum := 0.0
			for j := range batched {
				sum += batched[j][b]
			}
			other := (sum - values[b]) / float64(len(batched)-1)
			apart[b], mean, rest = values[b]-other, mean+values[b]/batches, rest+other/batches
		}
		far := math.Abs(mean - rest)
		if far > farthest && far > maxUnlike*rest && far > surelyNot*math.Sqrt(spreadOf(apart)/batches) {
			which, own, others, farthest = i, mean, rest, far
		}
	}
	return which, own, others
}

// Why what several clients have sent is void, or suspect.
var (
	sentNothing  = doubt{"client-lost", nil, "%s has sent nothing of its share"}
	beganLate    = doubt{"client-late", nil, "%s sent its first request %.0f ms after it was due (the limit is %.0f ms)"}
	clockUnknown = doubt{"client-clock", nil, "when %s began and ended is known to %.0f ms only, by its clock before " +
		"and after the load (the limit is %.0f ms): see that its time is kept, and that the network to it is not busy"}
	clientCutOff = doubt{"client-lost", nil, "%s did not reach the engine with %d of its %d requests (%s), and the others did: " +
		"a part of the load was missing"}
	unevenShares = doubt{"clients-uneven", []string{"input_throughput", "output_throughput", "total_throughput", "request_throughput"},
		"%s had sent its share %.3g s before %s had (the limit is %.3g s), and its slots stood empty: " +
			"a load of several hosts whose answers differ in length is better ended by duration"}
	unlikeStart = doubt{"clients-unlike", []string{"ttft", "e2el", "normalized_latency"},
		"the time to first token was %.3g ms at %s and %.3g ms at %s, more than chance explains: " + unlikeWhy}
	unlikePace = doubt{"clients-unlike", nil,
		"the time between chunks was %.3g ms at %s and %.3g ms at %s, more than chance explains: " + unlikeWhy}
)

const unlikeWhy = "one of them, or its way to the engine, is slower"
