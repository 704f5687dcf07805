package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Exports says what an engine exports, and under which names: of each list, the
// first that is there counts, because versions differ in spelling.
type Exports struct {
	Of  string `json:"of,omitempty"` // whose they are, as series call it; empty: [Engine]
	URL string `json:"url"`
	// Iterations says that the answer is no text of Prometheus, but TensorRT-LLM's
	// JSON list of the iterations since it was last asked.
	Iterations bool `json:"iterations,omitempty"`

	Running  []string `json:"running,omitempty"`
	Waiting  []string `json:"waiting,omitempty"`
	KVCache  []string `json:"kv_cache,omitempty"` // share in use, 0 to 1
	Preempt  []string `json:"preemptions,omitempty"`
	Hits     []string `json:"prefix_hits,omitempty"`    // counter: prompt tokens found in the prefix cache
	Queries  []string `json:"prefix_queries,omitempty"` // counter: prompt tokens that were looked up
	Accepted []string `json:"accepted,omitempty"`       // counter: drafted tokens that were accepted
	Drafted  []string `json:"drafted,omitempty"`        // counter: drafted tokens
	Drafts   []string `json:"drafts,omitempty"`         // counter: steps that had a draft

	// Of engines that count none of these: of the last steps, the share of drafted
	// tokens that were accepted, and the tokens that a step brought; 0 before the first.
	AcceptRate []string `json:"accept_rate,omitempty"`
	StepTokens []string `json:"tokens_per_step,omitempty"`
}

// name is what series are of.
func (e *Exports) name() string { return cmp.Or(e.Of, Engine) }

// counters is what tracks of counters are of, which are no series.
func (e *Exports) counters() string { return counted + e.name() }

const counted = "counters of "

func isCounter(of string) bool { return strings.HasPrefix(of, counted) }

const (
	hits     = "prefix_hits"
	queries  = "prefix_queries"
	accepted = "accepted"
	drafted  = "drafted"
	drafts   = "drafts"
)

const (
	askWithin  = 5 * time.Second
	maxExports = 16 << 20 // bytes of one answer
)

// source asks the engine. Shares are those since the reading before.
func (e *Exports) source() Source {
	// The engine itself is asked: by way of no proxy, and nobody that it names.
	client := &http.Client{
		Timeout:       askWithin,
		Transport:     &http.Transport{IdleConnTimeout: askWithin},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	before := map[string]float64{}
	var drawn iterations
	return polled(1, func(ctx context.Context) ([]Reading, error) {
		text, err := e.ask(ctx, client)
		if err != nil {
			return nil, fmt.Errorf("ask what %s exports: %w", cmp.Or(e.Of, "the engine"), err)
		}
		var values map[string]float64
		if e.Iterations {
			if values, err = drawn.read(text); err != nil {
				return nil, fmt.Errorf("read what %s exports: %w", cmp.Or(e.Of, "the engine"), err)
			}
		} else {
			values = e.Values(string(text))
		}
		return e.readings(values, before), nil
	})
}

// readings are those of values, by their names. Shares are those of what has come since before,
// which is brought up to date.
func (e *Exports) readings(values, before map[string]float64) (readings []Reading) {
	for _, name := range []string{Running, Waiting, KVCache, Preemptions, Accepted, StepTokens} {
		if v, ok := values[name]; ok {
			readings = append(readings, reading(e.name(), name, v))
		}
	}
	for _, share := range [][3]string{{PrefixHits, hits, queries}, {Accepted, accepted, drafted}} {
		name, ofPart, ofWhole := share[0], share[1], share[2]
		part, ok := values[ofPart]
		whole, ok2 := values[ofWhole]
		if !ok || !ok2 {
			continue
		}
		readings = append(readings, reading(e.counters(), ofPart, part), reading(e.counters(), ofWhole, whole))
		if was, there := before[ofWhole]; there && whole > was {
			readings = append(readings, reading(e.name(), name, (part-before[ofPart])/(whole-was)))
		}
		before[ofPart], before[ofWhole] = part, whole
	}
	if steps, ok := values[drafts]; ok {
		readings = append(readings, reading(e.counters(), drafts, steps))
	}
	return readings
}

func (e *Exports) ask(ctx context.Context, client *http.Client) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxExports))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %d %s", e.URL, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return text, err
}

// Values are those of a page in Prometheus' text format, by the names of series.
func (e *Exports) Values(page string) map[string]float64 {
	values := map[string]float64{}
	e.pick(parsePrometheus(page), values)
	return values
}

// pick finds the values by their names. Several engine ranks each have their own:
// counts are summed, shares averaged.
func (e *Exports) pick(samples map[string][]float64, values map[string]float64) {
	for _, p := range []struct {
		name  string
		under []string
	}{
		{Running, e.Running}, {Waiting, e.Waiting}, {KVCache, e.KVCache}, {Preemptions, e.Preempt},
		{hits, e.Hits}, {queries, e.Queries}, {accepted, e.Accepted}, {drafted, e.Drafted}, {drafts, e.Drafts},
		{Accepted, e.AcceptRate}, {StepTokens, e.StepTokens},
	} {
		for _, name := range p.under {
			found := valuesOf(name, samples)
			if len(found) == 0 {
				continue
			}
			sum := 0.0
			for _, v := range found {
				sum += v
			}
			isRecent := p.name == Accepted || p.name == StepTokens
			if isRecent && sum == 0 {
				continue // before the first step
			}
			if isRecent || p.name == KVCache {
				sum /= float64(len(found))
			}
			values[p.name] = sum
			break
		}
	}
}

// Sum adds up what stands under a name in Prometheus' text format, of those alone that have
// a label, `source="local_compute"`, where one is given; ok is false where there is none.
// Counters are found with and without "_total".
func Sum(text, name, label string) (sum float64, ok bool) {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, label) {
			lines = append(lines, line)
		}
	}
	found := valuesOf(name, parsePrometheus(strings.Join(lines, "")))
	for _, v := range found {
		sum += v
	}
	return sum, len(found) > 0
}

// valuesOf are the values of a name. Names of counters end with "_total" in newer forms of the
// format, and not in older ones.
func valuesOf(name string, samples map[string][]float64) []float64 {
	if found := samples[name]; len(found) > 0 {
		return found
	}
	return samples[strings.TrimSuffix(name, "_total")]
}

// parsePrometheus reads Prometheus' text format, labels left aside: the values of each name.
func parsePrometheus(text string) map[string][]float64 {
	samples := map[string][]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		end := strings.IndexAny(line, "{ \t")
		if end <= 0 || line[0] == '#' {
			continue
		}
		rest := line[end:]
		if rest[0] == '{' {
			rest = rest[strings.LastIndexByte(rest, '}')+1:]
		}
		value := strings.Fields(rest + " ?")[0]                              // sometimes a time follows
		if v, err := strconv.ParseFloat(value, 64); err == nil && v-v == 0 { // neither NaN nor infinite
			samples[line[:end]] = append(samples[line[:end]], v)
		}
	}
	return samples
}

// iterations adds up what TensorRT-LLM tells once only.
type iterations struct{ accepted, drafted float64 }

func (t *iterations) read(text []byte) (map[string]float64, error) {
	var list []struct {
		Rank    int      `json:"attentionDpRank"`
		Active  *float64 `json:"numActiveRequests"`
		Queued  *float64 `json:"numQueuedRequests"`
		KVCache *struct {
			Used   float64 `json:"usedNumBlocks"`
			Most   float64 `json:"maxNumBlocks"`
			Reused float64 `json:"reusedBlocks"`
			Missed float64 `json:"missedBlocks"`
		} `json:"kvCacheStats"`
		Draft *struct {
			Drafted  float64 `json:"numDraftTokens"`
			Accepted float64 `json:"numAcceptedTokens"`
		} `json:"specDecodingStats"`
		Batch struct {
			Scheduled float64 `json:"numScheduledRequests"`
			Paused    float64 `json:"numPausedRequests"`
		} `json:"inflightBatchingStats"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	values := map[string]float64{}
	running := 0.0
	for _, it := range list { // the last one's gauges stay
		if it.Rank == 0 {
			running = 0
		}
		if running += it.Batch.Scheduled + it.Batch.Paused; it.Rank > 0 { // with attention DP: its batch is its own, all else rank 0's
			values[Running] = running
			continue
		}
		if it.Active != nil {
			values[Running] = *it.Active
		}
		if it.Queued != nil {
			values[Waiting] = *it.Queued
		}
		if c := it.KVCache; c != nil && c.Most > 0 {
			values[KVCache], values[hits], values[queries] = c.Used/c.Most, c.Reused, c.Reused+c.Missed
		}
		if it.Draft != nil {
			t.accepted += it.Draft.Accepted
			t.drafted += it.Draft.Drafted
			values[accepted], values[drafted] = t.accepted, t.drafted
		}
	}
	return values, nil
}

// shares adds what an engine's counters grew by within the window, or the mean of what it said of
// itself; nothing of what it does not tell.
func (s *Sampler) shares(r *Record, e *Exports, w Window) {
	s.grew(r, e, PrefixHits, hits, queries, w)
	if len(e.AcceptRate) > 0 {
		s.averaged(r, e, Accepted, w)
		s.averaged(r, e, StepTokens, w)
		return
	}
	s.grew(r, e, Accepted, accepted, drafted, w)
	s.grew(r, e, StepTokens, accepted, drafts, w)
}

func (s *Sampler) grew(r *Record, e *Exports, name, part, whole string, w Window) {
	p, all := s.track(e.counters(), part), s.track(e.counters(), whole)
	if p == nil || all == nil {
		return
	}
	grew := func(t *track) float64 { return t.valueAt(w.To) - t.valueAt(w.From) }
	share := Share{grew(p), grew(all)}
	if share.Whole <= 0 || share.Part < 0 {
		return
	}
	if name == StepTokens {
		share.Part += share.Whole // each step brings a token of its own
	}
	r.share(name, share)
}

func (s *Sampler) averaged(r *Record, e *Exports, name string, w Window) {
	t := s.track(e.name(), name)
	if t == nil {
		return
	}
	var share Share
	for i, at := range t.at {
		if !at.Before(w.From) && !at.After(w.To) {
			share.Part, share.Whole = share.Part+t.value[i], share.Whole+1
		}
	}
	if share.Whole > 0 {
		r.share(name, share)
	}
}
