package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Exports says what an engine or a router exports, and under which names.
type Exports struct {
	Of  string `json:"of,omitempty"` // whose they are, as series call it; empty: [Engine]
	URL string `json:"url"`
	// Iterations says that the answer is no text of Prometheus, but TensorRT-LLM's
	// JSON list of the iterations since it was last asked.
	Iterations bool `json:"iterations,omitempty"`
	// Loads is where SGLang's scheduler says what it works on at the moment, which its gauges tell
	// late; empty: nowhere. A version that does not know it is asked once.
	Loads      string     `json:"loads,omitempty"`
	Quantities []Quantity `json:"quantities,omitempty"`

	tellsLoads bool
	drawn      iterations
}

// Quantity is what an engine tells of itself, and under which names.
type Quantity struct {
	Name string `json:"name"` // one of this package's; the values of several rows of one name are added up
	Kind Kind   `json:"kind"`
	// Under are selectors of Prometheus, `name{label="value"}`, of which `"value*"` is the beginning of any; of these the first that is there counts, because
	// versions differ in spelling. `name{label}` is, of a [Size], the number in that label, and of a [Counter]
	// each value of the label apart.
	Under []string `json:"under,omitempty"`
	Scale float64  `json:"scale,omitempty"` // what they tell, times this, is in the quantity's unit; 0: it is
}

// Kind is what the number of a quantity means.
type Kind string

// The kinds. Those of the moment become series; of the others it counts by how much they grew.
const (
	Gauge     Kind = "gauge"     // of the moment; ranks are added up
	Level     Kind = "level"     // of the moment; the mean of ranks
	Recent    Kind = "recent"    // likewise, of the newest steps: 0 before the first
	Counter   Kind = "counter"   // only grows
	Histogram Kind = "histogram" // name_sum and name_count
	Size      Kind = "size"      // stays as long as the server runs
)

// kindOf is that of a quantity; empty: it is not told.
func (e *Exports) kindOf(name string) Kind {
	i := slices.IndexFunc(e.Quantities, func(q Quantity) bool { return q.Name == name })
	if i < 0 {
		return ""
	}
	return e.Quantities[i].Kind
}

// name is what series are of.
func (e *Exports) name() string { return cmp.Or(e.Of, Engine) }

// counters is what tracks of counters are of, which are no series.
func (e *Exports) counters() string { return counted + e.name() }

const counted = "counters of "

// everRead is the name of a counter that stands at zero for ever: it says when counters were read.
const everRead = ""

func isCounter(of string) bool { return strings.HasPrefix(of, counted) }

// How values are called besides by the name of their quantity.
const (
	times   = "times of " // how many values of a histogram there were
	apartBy = ":"         // between a name and the value of a label
)

const (
	askWithin  = 5 * time.Second
	maxExports = 16 << 20 // bytes of one answer
)

// asked is an engine that is asked again and again.
type asked struct {
	Exports
	client *http.Client
	before map[string]float64
}

func newAsked(e Exports) *asked {
	// The engine itself is asked: by way of no proxy, and nobody that it names.
	return &asked{Exports: e, before: map[string]float64{}, client: &http.Client{
		Timeout:       askWithin,
		Transport:     &http.Transport{IdleConnTimeout: askWithin},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// read asks once.
func (a *asked) read(ctx context.Context) ([]Reading, error) {
	values, err := a.Read(ctx, a.ask)
	if err != nil {
		return nil, fmt.Errorf("read what %s exports: %w", cmp.Or(a.Of, "the engine"), err)
	}
	return a.readings(values, a.before), nil
}

// Read is what the engine tells, by the names of quantities; get asks a URL.
func (e *Exports) Read(ctx context.Context, get func(ctx context.Context, url string) ([]byte, error)) (map[string]float64, error) {
	text, err := get(ctx, e.URL)
	if err != nil {
		return nil, err
	}
	if e.Iterations {
		return e.drawn.read(text)
	}
	values := e.Values(string(text))
	if e.Loads == "" {
		return values, nil
	}
	text, err = get(ctx, e.Loads)
	var late interface{ Timeout() bool }
	switch {
	case err == nil && readLoads(text, values):
		e.tellsLoads = true
	case e.tellsLoads, errors.As(err, &late) && late.Timeout(): // no number of another meaning among those that it has told, or may yet
		for _, name := range []string{Running, Waiting, KVCache} {
			delete(values, name)
		}
	default:
		e.Loads = ""
	}
	return values, nil
}

// readLoads reads the answer of SGLang's /v1/loads, an entry for each rank of data parallel.
func readLoads(text []byte, values map[string]float64) bool {
	var told struct {
		Loads []struct {
			Running *float64 `json:"num_running_reqs"`
			Waiting *float64 `json:"num_waiting_reqs"`
			Used    float64  `json:"num_used_tokens"`
			Most    float64  `json:"max_total_num_tokens"`
		} `json:"loads"`
	}
	if json.Unmarshal(text, &told) != nil || len(told.Loads) == 0 {
		return false
	}
	var running, waiting, used, most float64
	for _, l := range told.Loads {
		if l.Running == nil || l.Waiting == nil {
			return false
		}
		running, waiting, used, most = running+*l.Running, waiting+*l.Waiting, used+l.Used, most+l.Most
	}
	values[Running], values[Waiting] = running, waiting
	if most > 0 {
		values[KVCache] = used / most
	}
	return true
}

// readings are those of values, by their names. Shares are those of what has come since before,
// which is brought up to date.
func (e *Exports) readings(values, before map[string]float64) (readings []Reading) {
	readings = append(readings, reading(e.counters(), everRead, 0))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		quantity, _, _ := strings.Cut(strings.TrimPrefix(name, times), apartBy)
		of := e.counters()
		switch e.kindOf(quantity) {
		case Gauge, Level, Recent:
			of = e.name()
		}
		readings = append(readings, reading(of, name, values[name]))
	}
	for _, share := range [][3]string{{PrefixHits, HitTokens, QueriedTokens}, {Accepted, AcceptedTokens, DraftedTokens}} {
		name, ofPart, ofWhole := share[0], share[1], share[2]
		part, ok := values[ofPart]
		whole, ok2 := values[ofWhole]
		if !ok || !ok2 {
			continue
		}
		if was, there := before[ofWhole]; there && whole > was {
			readings = append(readings, reading(e.name(), name, (part-before[ofPart])/(whole-was)))
		}
		before[ofPart], before[ofWhole] = part, whole
	}
	return readings
}

func (a *asked) ask(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxExports))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %d %s", url, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return text, err
}

// Values are those of a page in Prometheus' text format, by the names of quantities. Several engine
// ranks each have their own.
func (e *Exports) Values(page string) map[string]float64 {
	samples, values := parsePrometheus(page), map[string]float64{}
	for _, q := range e.Quantities {
		for _, under := range q.Under {
			if q.read(samples, under, values) {
				break
			}
		}
	}
	return values
}

var selector = regexp.MustCompile(`^([^{]+)(?:\{(\w+)(?:="(.*)")?\})?$`)

// A reason is a word, as engines have them, and there are few.
const mostReasons = 32

var reason = regexp.MustCompile(`^[\w.-]{1,40}$`)

// read adds what a selector finds to the values; found says whether there is any.
func (q Quantity) read(samples map[string][]sample, under string, values map[string]float64) (found bool) {
	m := selector.FindStringSubmatch(under)
	name, label, want := m[1], m[2], m[3]
	scale := cmp.Or(q.Scale, 1)
	sum := func(name string) (sum, n float64) {
		for _, s := range ofFirstRanks(samples[name]) {
			if value, has := s.label(label); label == "" || want == "" || has && (value == want || strings.HasSuffix(want, "*") && strings.HasPrefix(value, want[:len(want)-1])) {
				sum, n = sum+s.value, n+1
			}
		}
		return sum, n
	}
	if want == "" && label != "" {
		apart := map[string]bool{}
		for _, s := range ofFirstRanks(samples[name]) {
			value, has := s.label(label)
			if q.Kind == Counter && !apart[value] && (len(apart) == mostReasons || !reason.MatchString(value)) {
				value = "other"
			}
			apart[value] = true
			if number, err := strconv.ParseFloat(value, 64); q.Kind == Size && has && err == nil && number-number == 0 {
				values[q.Name], found = values[q.Name]+scale*number, true
			} else if q.Kind == Counter && has {
				values[q.Name+apartBy+value], found = values[q.Name+apartBy+value]+scale*s.value, true
			}
		}
		return found
	}
	total, n := sum(name)
	if q.Kind == Histogram {
		total, n = sum(name + "_sum")
	}
	if n == 0 || q.Kind == Recent && total == 0 {
		return false
	}
	switch q.Kind {
	case Level, Recent:
		total /= n
	case Histogram:
		count, _ := sum(name + "_count")
		values[times+q.Name] += count
	}
	values[q.Name] += scale * total
	return true
}

// ofFirstRanks leaves out what other ranks repeat: SGLang's schedulers of tensor and pipeline parallel all count the same
// requests, and with enable-metrics-for-all-schedulers all tell them. Those of data parallel have each their own.
func ofFirstRanks(all []sample) (first []sample) {
	lowest := map[string]int{}
	rank := func(s sample) (of string, n int) {
		for _, label := range []string{"pp_rank", "tp_rank"} {
			value, _ := s.label(label)
			i, _ := strconv.Atoi(value)
			n = n<<16 + i
		}
		of, _ = s.label("dp_rank")
		return of, n
	}
	for _, s := range all {
		of, n := rank(s)
		if least, known := lowest[of]; !known || n < least {
			lowest[of] = n
		}
	}
	for _, s := range all {
		if of, n := rank(s); n == lowest[of] {
			first = append(first, s)
		}
	}
	return first
}

// sample is a value of Prometheus' text format with its labels, as they are written.
type sample struct {
	labels string
	value  float64
}

// label is the value of a label.
func (s sample) label(name string) (value string, has bool) {
	for rest := s.labels; ; {
		_, after, found := strings.Cut(rest, name+`="`)
		if !found {
			return "", false
		}
		begins := strings.TrimSuffix(rest[:len(rest)-len(after)], name+`="`)
		rest = after
		if begins == "" || strings.HasSuffix(begins, ",") || strings.HasSuffix(begins, "{") {
			value, _, _ = strings.Cut(after, `"`)
			return value, true
		}
	}
}

// parsePrometheus reads Prometheus' text format: the samples of each name.
func parsePrometheus(text string) map[string][]sample {
	samples := map[string][]sample{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		end := strings.IndexAny(line, "{ \t")
		if end <= 0 || line[0] == '#' {
			continue
		}
		labels, rest := "", line[end:]
		if rest[0] == '{' {
			close := strings.LastIndexByte(rest, '}') + 1
			labels, rest = rest[:close], rest[close:]
		}
		value := strings.Fields(rest + " ?")[0]                              // sometimes a time follows
		if v, err := strconv.ParseFloat(value, 64); err == nil && v-v == 0 { // neither NaN nor infinite
			samples[line[:end]] = append(samples[line[:end]], sample{labels, v})
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
			values[KVCache], values[HitTokens], values[QueriedTokens] = c.Used/c.Most, c.Reused, c.Reused+c.Missed
		}
		if it.Draft != nil {
			t.accepted += it.Draft.Accepted
			t.drafted += it.Draft.Drafted
			values[AcceptedTokens], values[DraftedTokens] = t.accepted, t.drafted
		}
	}
	return values, nil
}

// shares adds what an engine's counters grew by within the window, or the mean of what it said of
// itself; nothing of what it does not tell.
func (s *Sampler) shares(r *Record, e *Exports, w Window) {
	s.addShare(r, e, PrefixHits, HitTokens, QueriedTokens, w)
	if e.kindOf(Accepted) == Recent {
		s.averaged(r, e, Accepted, w)
		s.averaged(r, e, StepTokens, w)
		return
	}
	s.addShare(r, e, Accepted, AcceptedTokens, DraftedTokens, w)
	s.addShare(r, e, StepTokens, AcceptedTokens, Drafts, w)
}

// grew is by how much a counter did within the window; ok is false where it was not read, or began anew.
func (s *Sampler) grew(e *Exports, name string, w Window) (by float64, ok bool) {
	t := s.track(e.counters(), name)
	if t == nil {
		return 0, false
	}
	by = t.valueAt(w.To) - t.valueAt(w.From)
	return by, by >= 0
}

// counts adds what else they grew by, and how large what stays is.
func (s *Sampler) counts(r *Record, e *Exports, w Window) {
	role, _, _ := strings.Cut(e.Of, " ")
	for _, t := range s.series {
		name, label, _ := strings.Cut(t.name, apartBy)
		if t.of != e.counters() || strings.HasPrefix(name, times) ||
			slices.Contains([]string{everRead, HitTokens, QueriedTokens, AcceptedTokens, DraftedTokens, Drafts}, name) {
			continue
		}
		c := Count{Of: role, Name: name, Label: label}
		if e.kindOf(name) == Size {
			c.Sum = t.value[len(t.value)-1]
		} else if by, ok := s.grew(e, t.name, w); ok && w.Known() {
			c.Sum = by
			c.Times, _ = s.grew(e, times+t.name, w)
		}
		if c.Sum > 0 || c.Times > 0 {
			r.count(c)
		}
	}
}

func (s *Sampler) addShare(r *Record, e *Exports, name, part, whole string, w Window) {
	p, ok := s.grew(e, part, w)
	all, ok2 := s.grew(e, whole, w)
	share := Share{p, all}
	if !ok || !ok2 || share.Whole <= 0 {
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
