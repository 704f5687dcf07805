package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hclbench/engines"
	"hclbench/plain"
	"hclbench/telemetry"
)

// An engine of several members answers as one also when it is not what the plan says: a
// router that has lost a worker gives all to the others, decode prefills by itself when
// prefill fails, a KV cache that was lost is read anyway. So it is counted what each member
// has done. Of an engine alone the same counts show whose requests it has served.

// half reports whether the member answers only together with others.
func (m *member) half() bool { return m.Role == engines.Prefill || m.Role == engines.Decode }

// registered: of a prefill server that others come to on a port of its own all ranks are known
// there, which its server does not say.
func (e *engine) registered(m *member) probe {
	return probe{look: func(ctx context.Context) error {
		path, port := engines.Registered(m.Member.Member)
		if path == "" {
			return nil
		}
		s := m.server(e)
		defer s.close()
		s.base = atPort(s.base, port)
		return s.get(ctx, path, nil)
	}}
}

// counted: a router knows every worker of the plan, and says that each is well.
func (e *engine) counted(s *server, router *member) probe {
	return probe{look: func(ctx context.Context) error {
		path := engines.Workers(router.Engine)
		if path == "" {
			return nil
		}
		var said struct {
			Workers []struct {
				URL     string
				Type    string `json:"worker_type"`
				Healthy bool   `json:"is_healthy"`
			}
		}
		if err := s.get(ctx, path, &said); err != nil {
			return err
		}
		want, well := map[string]int{}, map[string]int{}
		ill := map[string]bool{} // some list each rank of data parallel, as URL@0, URL@1 …
		for _, w := range said.Workers {
			url, _, _ := strings.Cut(w.URL, "@")
			ill[url] = ill[url] || !w.Healthy
		}
		for _, m := range e.workers() {
			want[m.Role]++
		}
		for _, w := range said.Workers {
			if w.Type == "regular" {
				w.Type = engines.Serve
			}
			if url, _, _ := strings.Cut(w.URL, "@"); !ill[url] {
				well[w.Type]++
				ill[url] = true // once
			}
		}
		for role, n := range want {
			if well[role] != n {
				return fmt.Errorf("the router has %d of %d %s servers that are well", well[role], n, role)
			}
		}
		return nil
	}}
}

func atPort(base string, port int) string {
	host, _, err := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	if err != nil {
		return base // which the first request says
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// tally is what a member has counted so far, by what it shows of it: an engine shows no counter
// before it has counted.
type tally map[string]float64

// The entries of a tally, see [engines.Proof].
const (
	read      = "read"
	fetched   = "fetched"
	handed    = "handed"
	generated = "generated"
	lost      = "failures"
	began     = "began" // no count: when the process did, in seconds since 1970
)

// tally asks the members for their counts, side by side. One that cannot be asked has none.
func (e *engine) tally(ctx context.Context) map[*member]tally {
	var mu sync.Mutex
	var asking sync.WaitGroup
	all := map[*member]tally{}
	for _, m := range e.members {
		if p := engines.ProofOf(m.Member.Member); p != nil && m.Answers {
			asking.Go(func() {
				if t := e.count(ctx, m, p); t != nil {
					mu.Lock()
					defer mu.Unlock()
					all[m] = t
				}
			})
		}
	}
	asking.Wait()
	return all
}

// tallyWithin is what members count that tell it soon.
func (e *engine) tallyWithin(ctx context.Context, patience time.Duration) map[*member]tally {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	return e.tally(ctx)
}

// count asks one member; nil: it does not answer.
func (e *engine) count(ctx context.Context, m *member, p *engines.Proof) tally {
	s := m.server(e)
	defer s.close()
	s.base = engines.CountsAt(m.Member.Member)
	var text []byte
	if err := s.get(ctx, "/metrics", &text); err != nil {
		e.debug("the counts of "+m.name+" are not known", err)
		return nil
	}
	return countsOf(p, string(text))
}

// countsOf are those of a page of metrics.
func countsOf(p *engines.Proof, page string) tally {
	t := tally{}
	for name, counters := range map[string][]engines.Counter{
		read: p.Read, fetched: p.Fetched, handed: p.Handed, generated: p.Generated, lost: p.Failures,
	} {
		for _, c := range counters {
			if n, ok := telemetry.Sum(page, c.Name, c.Label); ok {
				t[name] += n
			}
		}
	}
	if at, ok := startOf(page); ok {
		t[began] = at
	}
	return t
}

// since is what has been counted since an earlier tally.
func (t tally) since(before tally) tally {
	out := tally{}
	for name, n := range t {
		out[name] = n - before[name]
	}
	delete(out, began)
	return out
}

// anew reports whether the counters are others than those of an earlier tally: what a process has counted
// neither goes down nor away.
func (t tally) anew(before tally) bool {
	for name, was := range before {
		is, told := t[name]
		apart := was - is
		if name == began {
			apart = math.Abs(apart) - startSlack.Seconds()
		}
		if !told || apart > 0 {
			return true
		}
	}
	return false
}

// shows reports whether it would show in its counts that a member has served: decode reads no prompts.
func (m *member) shows(t tally) bool {
	_, writes := t[generated]
	_, reads := t[read]
	return writes || reads && m.Role != engines.Decode
}

const (
	// slack is how far counts may be apart: a share of prompts is too short to be handed over.
	slack = 0.01
	// slackTokens is how many more than all clients an engine may count: hcl asks it for a token where it is
	// silent, and a router to see whether it is well.
	slackTokens = 64
	// countPatience is how long after the last answer engines may count it.
	countPatience = 5 * time.Second
	countEvery    = 250 * time.Millisecond
)

// prove holds what the engine has done while a cell was measured against what the clients have. The
// error says in what it was not what the plan says; doubts, what else speaks against the measurement, or
// could not be seen.
func (e *engine) prove(ctx context.Context, cell sent) (doubts []string, err error) {
	doubts = slices.Concat(e.objects.doubts(ctx), e.unproved(cell.before), e.joined(ctx))
	told := false
	for begun := time.Now(); len(cell.before) > 0; {
		wrong, strange := e.compare(cell, e.tally(ctx))
		if len(wrong) > 0 && time.Since(begun) <= countPatience && ctx.Err() == nil {
			if !told {
				told = true
				e.tell.say(Waiting, "looking again at what it counts: %s", wrong[0])
			}
			select {
			case <-time.After(countEvery):
			case <-ctx.Done():
			}
			continue
		}
		if doubts = append(doubts, strange...); len(wrong) > 0 && e.d.Grouped() {
			err = errors.New("the engine did not work as it was planned: " + strings.Join(wrong, "\n  - "))
		} else {
			doubts = append(doubts, wrong...)
		}
		break
	}
	return doubts, err
}

// compare says in what members have not done what the plan says, and what they have done for others. They
// count the requests of the warm-up too, of which there are no records.
func (e *engine) compare(cell sent, now map[*member]tally) (wrong, strange []string) {
	before, warm, warming := cell.before, 0, 0
	if s := cell.Summary; s != nil {
		warm, warming = s.Warmup-s.WarmupFailed, s.Warmup
	}
	requests := len(cell.Records) + warm
	prompts, answers, whole := 0.0, 0.0, true
	most, longest, bounded := 0.0, 0, true // of answers that did not come whole it is known what they may have been
	for _, r := range cell.Records {
		prompts, answers = prompts+float64(r.InputTokens), answers+float64(r.OutputTokens)
		longest = max(longest, r.AskedOutput)
		if r.OK() && !r.NoUsage {
			most += float64(r.OutputTokens)
			continue
		}
		whole, bounded = false, bounded && r.AskedOutput > 0
		most += float64(max(r.AskedOutput, r.OutputTokens))
	}
	most += float64(warming * longest)
	bounded = bounded && (warming == 0 || longest > 0)
	say := func(m *member, format string, args ...any) {
		wrong = append(wrong, m.says(fmt.Sprintf(format, args...)))
	}
	sum, tells := tally{}, map[string]int{} // over the workers that generate, or hand over, and how many of those tell
	writers, readers := 0, 0
	for _, m := range e.members {
		was, asked := before[m]
		is, answers := now[m]
		writes, reads := m.Answers && (m.Role == engines.Decode || m.Role == engines.Serve), m.Answers && m.Role == engines.Prefill
		if writes {
			writers++
		}
		if reads {
			readers++
		}
		if !asked {
			continue
		}
		if !answers {
			say(m, "its counters, which it told before, cannot be had any more")
			continue
		}
		if is.anew(was) {
			say(m, "its counters have begun anew: it was started again by itself")
			continue
		}
		did := is.since(was)
		if did[lost] > 0 {
			say(m, "it counts %.0f failures that no answer shows", did[lost])
		}
		rest := float64(engines.BlockSize(m.Engine) * requests)
		if _, told := did[fetched]; told && m.Role == engines.Decode && did[read] > slack*prompts+rest {
			say(m, "it has read %.0f of %.0f tokens of prompts itself, which was for prefill to do", did[read], prompts)
		}
		for name, n := range did {
			if name == generated && writes || name == handed && reads {
				sum[name] += n
				tells[name]++
			}
		}
	}
	if tells[generated] == writers && whole && sum[generated] < (1-slack)*answers {
		wrong = append(wrong, fmt.Sprintf("the engine counts %.0f generated tokens, the clients %.0f", sum[generated], answers))
	}
	if bounded && sum[generated] > (1+slack)*most+slackTokens {
		strange = append(strange, fmt.Sprintf("the engine counts %.0f generated tokens, and the clients have asked for %.0f at most: "+
			"it has served others meanwhile", sum[generated], most))
	}
	if readers > 0 && tells[handed] == readers && whole && sum[handed] < (1-slack)*float64(requests) {
		wrong = append(wrong, fmt.Sprintf("prefill has handed over %.0f of %d requests: decode has read the prompts of the others itself",
			sum[handed], requests))
	}
	slices.Sort(wrong)
	return wrong, strange
}

// Of the requests that try an engine: how long they may take together, how many tokens each asks for, and how many
// words its prompt has, more than a block of a KV cache: shorter ones are never handed over.
const (
	tryWithin = 10 * time.Minute // the first long prompt of a large model compiles kernels
	tryTokens = 8
	// settleTime is how long a router that does not list its workers may take to learn of all of them: they
	// tell it of themselves every few seconds.
	settleTime = 15 * time.Second
	tryWords   = 256
)

// tryAll sends requests through the engine until each of its instances has served by its own
// count. The same prompt has to get the same answer from all of them.
func (e *engine) tryAll(ctx context.Context, model string) error {
	if !e.d.Grouped() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	var doors []*server
	for _, m := range e.members {
		if m.Answers && (m.Engine.Router || !e.front().Engine.Router) {
			doors = append(doors, m.server(e))
			defer doors[len(doors)-1].close()
		}
	}
	before, patience := e.tally(ctx), engines.ReadinessOf(e.d.Engine).Stall
	said := map[string]string{}
	var idle []string
	round, settled := max(len(e.workers()), 3), time.Now()
	if front := e.front().Engine; front.Router && engines.Workers(front) == "" {
		settled = settled.Add(settleTime)
	}
	for n := 0; n < 8*round || time.Now().Before(settled); n++ {
		// Two of three are the same; the third is new, which routers give to another worker.
		prompt := strings.Repeat("one two three four ", tryWords/4)
		if n%3 == 2 {
			prompt = "try " + strconv.Itoa(n) + " " + prompt
		}
		text, err := doors[n%len(doors)].answer(ctx, model, prompt, tryTokens, min(tryWithin, patience))
		if err != nil {
			if m, how := endsSoon(ctx, e.members); m != nil {
				return &waitError{what: notServing, why: how.Error(), probe: err.Error(), tail: m.tail(ctx)}
			}
			return &waitError{what: notServing, why: "a request through the whole of it fails", probe: err.Error(), tail: e.tail(ctx)}
		}
		if first, again := said[prompt]; again && first != text {
			return &waitError{what: notServing, why: fmt.Sprintf("the same prompt at temperature 0 is answered with %q and with %q: "+
				"a part of it has other weights, or a broken KV cache", plain.Cut(first, 80), plain.Cut(text, 80))}
		}
		if said[prompt] = text; (n+1)%round > 0 {
			continue
		}
		if idle = idleAmong(before, e.tally(ctx)); len(idle) == 0 {
			return nil
		}
	}
	return &waitError{what: notServing, why: fmt.Sprintf("of %d requests none came to %s", 8*round, strings.Join(idle, ", "))}
}

// unproved is why nothing shows that the members do what the plan says; nil where the counts of all
// were told.
func (e *engine) unproved(told map[*member]tally) (doubt []string) {
	if !e.d.Grouped() || len(e.workers()) < 2 {
		return nil
	}
	var silent []*member
	for _, m := range e.workers() {
		if !m.shows(told[m]) {
			silent = append(silent, m)
		}
	}
	if silent == nil {
		return nil
	}
	first, which := silent[0], "it does"
	if others := len(silent) - 1; others > 0 {
		which = fmt.Sprintf("it and %d more do", others)
	}
	why := cmp.Or(engines.Uncounted(first.Engine), "its counters cannot be had")
	if told[first] != nil {
		why = "it shows no counter of tokens that hcl knows"
	}
	return []string{first.says("nothing proves what " + which + " in the group: " + why)}
}

// unseenLosses is what counts that were told leave open; empty: nothing.
func unseenLosses(told map[*member]tally) (open string) {
	for m, counts := range told {
		if _, has := counts[lost]; engines.ProofOf(m.Member.Member).ShowsZero && m.half() && !has {
			open = max(open, m.says("this version does not count transfers of its KV cache that fail, "+
				"so that only its log tells of them"))
		}
	}
	return open
}

// idleAmong are the workers that have counted nothing since, of those that would show it. Some show no
// counter before it counts: of them the others tell whether its name is known.
func idleAmong(before, now map[*member]tally) (names []string) {
	known := map[*engines.Proof]bool{}
	for m, n := range now {
		p := engines.ProofOf(m.Member.Member)
		known[p] = known[p] || !p.ShowsZero && m.shows(n)
	}
	for m, n := range now {
		did, shows := n.since(before[m]), m.shows(n) || known[engines.ProofOf(m.Member.Member)]
		if !m.Engine.Router && shows && did[generated] == 0 && did[read] == 0 {
			names = append(names, m.name)
		}
	}
	slices.Sort(names)
	return names
}

// resetCaches drops the prefix caches of all that have one, and says what came of it.
func (e *engine) resetCaches(ctx context.Context, front *server) string {
	if !e.d.Grouped() {
		return front.resetCache(ctx, e.d.Engine)
	}
	worst := "flushed"
	for _, m := range e.workers() {
		s := m.server(e)
		said := s.resetCache(ctx, m.Engine)
		s.close()
		if what, why, no := strings.Cut(said, ": "); no && (worst == "flushed" || what == "failed") {
			worst = what + ": " + m.says(why)
		}
	}
	return worst
}
