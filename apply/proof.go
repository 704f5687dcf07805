package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/telemetry"
)

// An engine of several members answers as one also when it is not what the plan says: a
// router that has lost a worker gives all to the others, decode prefills by itself when
// prefill fails, a KV cache that was lost is read anyway. So it is counted what each member
// has done. Of an engine alone the same counts show whose requests it has served.

// tally is what a member has counted so far, by what it shows of it: an engine shows no counter
// before it has counted.
type tally map[string]float64

// The entries of a tally.
const (
	prompted  = telemetry.PromptTokens
	computed  = telemetry.Computed
	elsewhere = telemetry.CachedOutside // whoever tells it tells all that is not computed
	handed    = telemetry.HandedOver
	generated = telemetry.Generated
	lost      = telemetry.Failures
	letGo     = telemetry.LetGo
	retried   = telemetry.Retried
	began     = "began" // no count: when the process did, in seconds since 1970
)

// tally asks the members for their counts, side by side. One that cannot be asked has none.
func (e *engine) tally(ctx context.Context) map[*member]tally {
	counts := flow.Map(e.members, func(m *member) tally {
		counts := engines.Counts(m.Member.Member)
		if counts == nil || !m.Answers {
			return nil
		}
		return e.count(ctx, m, counts)
	})
	all := map[*member]tally{}
	for i, t := range counts {
		if t != nil {
			all[e.members[i]] = t
		}
	}
	return all
}

// tallyWithin is what members count that tell it soon.
func (e *engine) tallyWithin(ctx context.Context, patience time.Duration) map[*member]tally {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	return e.tally(ctx)
}

// count asks one member; nil: it does not answer.
func (e *engine) count(ctx context.Context, m *member, counts *telemetry.Exports) tally {
	s := m.server(e)
	defer s.close()
	text, err := s.read(ctx, counts.URL)
	if err != nil {
		e.debug("the counts of "+m.name+" are not known", err)
		return nil
	}
	return countsOf(counts, string(text))
}

// countsOf are those of a page of metrics.
func countsOf(counts *telemetry.Exports, page string) tally {
	all, t := counts.Values(page), tally{}
	for _, name := range []string{prompted, computed, elsewhere, handed, generated, lost, letGo, retried} {
		if n, ok := all[name]; ok {
			t[name] = n
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

// wasReset reports whether the counters are others than those of an earlier tally: what a process has counted
// neither goes down nor away.
func (t tally) wasReset(before tally) bool {
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
	_, reads := t[prompted]
	return writes || reads && m.Role != engines.Decode
}

const (
	// slack is how far counts may be apart: a share of prompts is too short to be handed over.
	slack = 0.01
	// slackTokens is how many more than all clients an engine may count: hcl asks it for a token where it is
	// silent, and a router to see whether it is well.
	slackTokens = 64
)

// prove holds what the engine has done while a cell was measured against what the clients have. The
// error says in what it was not what the plan says; doubts, what else speaks against the measurement, or
// could not be seen.
func (e *engine) prove(ctx context.Context, before map[*member]tally, cell agent.Measured) (doubts []load.Reason, err error) {
	doubts = slices.Concat(load.Because(load.CodePods, e.objects.doubts(ctx)...),
		load.Because(load.CodeUnproved, e.unproved(before)...), load.Because(load.CodePort, e.joined(ctx)...))
	told := false
	for begun := time.Now(); len(before) > 0; {
		wrong, strange := e.compare(before, e.tally(ctx), cell)
		if len(wrong) > 0 && time.Since(begun) <= countPatience && ctx.Err() == nil {
			if !told {
				told = true
				e.tell.say(Waiting, "looking again at what it counts: %s", wrong[0])
			}
			flow.Pause(ctx, countEvery)
			continue
		}
		if doubts = append(doubts, load.Because(load.CodeGroup, strange...)...); len(wrong) > 0 && e.d.Grouped() {
			err = errors.New("the engine did not work as it was planned: " + strings.Join(wrong, "\n  - "))
		} else {
			doubts = append(doubts, load.Because(load.CodeGroup, wrong...)...)
		}
		break
	}
	return doubts, err
}

// demand is what the clients of a cell have of an engine, by their records. They tell of the requests of the warm-up only
// how many there were.
type demand struct {
	requests         int     // those of the warm-up that were answered are among them
	prompts, answers float64 // tokens
	whole            bool    // every answer came whole, and with its usage: else the engine may have counted more
	most             float64 // tokens that all answers together may have
	bounded          bool    // most is known
}

func demandOf(cell agent.Measured) demand {
	a, warming, longest := demand{requests: len(cell.Records), whole: true, bounded: true}, 0, 0
	for _, r := range cell.Records {
		a.prompts, a.answers = a.prompts+float64(r.InputTokens), a.answers+float64(r.OutputTokens)
		longest = max(longest, r.AskedOutput)
		if r.OK() && !r.NoUsage {
			a.most += float64(r.OutputTokens)
			continue
		}
		a.whole, a.bounded = false, a.bounded && r.AskedOutput > 0
		a.most += float64(max(r.AskedOutput, r.OutputTokens))
	}
	if s := cell.Summary; s != nil {
		warming = s.Warmup
		a.requests += s.Warmup - s.WarmupFailed
	}
	a.most += float64(warming * longest)
	a.bounded = a.bounded && (warming == 0 || longest > 0)
	return a
}

// share is what a member has counted of a cell.
type share struct {
	*member
	was, is tally // nil: it did not tell
	did     tally // between the two; nil where they do not tell it
}

// total sums an entry up over the members of these roles that tell it. all: each of them does.
func total(shares []share, entry string, roles ...string) (sum float64, all bool) {
	all = true
	for _, s := range shares {
		if s.Answers && slices.Contains(roles, s.Role) {
			n, told := s.did[entry]
			sum, all = sum+n, all && told
		}
	}
	return sum, all
}

// The rules by which a member has done what the plan says; each says what it has not done, empty: nothing.
var ofMember = []func(share, demand) string{
	func(s share, _ demand) string {
		if s.is == nil {
			return "its counters, which it told before, cannot be had any more"
		}
		return ""
	},
	func(s share, _ demand) string {
		if s.is != nil && s.is.wasReset(s.was) {
			return "its counters have begun anew: it was started again by itself"
		}
		return ""
	},
	func(s share, _ demand) string {
		if n := s.did[lost]; n > 0 {
			return fmt.Sprintf("it counts %.0f failures that no answer shows", n)
		}
		return ""
	},
	func(s share, _ demand) string {
		if n := s.did[letGo]; n > 0 {
			return fmt.Sprintf("it gave up the KV cache of %s before it heard that decode had it, as its lease was over: the hosts are too busy or too "+
				"slow for it", plain.Count(int(n), "request"))
		}
		return ""
	},
	func(s share, a demand) string {
		rest := float64(engines.BlockSize(s.Engine) * a.requests)
		if _, tells := s.did[elsewhere]; tells && s.Role == engines.Decode && s.did[computed] > slack*a.prompts+rest {
			return fmt.Sprintf("it has read %.0f of %.0f tokens of prompts itself, which was for prefill to do", s.did[computed], a.prompts)
		}
		return ""
	},
}

// The rules by which all members together have.
var ofAll = []func([]share, demand) string{
	func(shares []share, a demand) string {
		if n, all := total(shares, generated, engines.Decode, engines.Serve); all && a.whole && n < (1-slack)*a.answers {
			return fmt.Sprintf("the engine counts %.0f generated tokens, the clients %.0f", n, a.answers)
		}
		return ""
	},
	func(shares []share, a demand) string {
		reads := func(s share) bool { return s.Answers && s.Role == engines.Prefill }
		n, all := total(shares, handed, engines.Prefill)
		if all && slices.ContainsFunc(shares, reads) && a.whole && n < (1-slack)*float64(a.requests) {
			const text = "prefill has handed over %.0f of %d requests: decode has read the prompts of the others itself"
			return fmt.Sprintf(text, n, a.requests)
		}
		return ""
	},
}

// compare says in what members have not done what the plan says, and what they have done for others.
func (e *engine) compare(before, now map[*member]tally, cell agent.Measured) (wrong, strange []string) {
	a := demandOf(cell)
	var shares []share
	for _, m := range e.members {
		s := share{member: m, was: before[m], is: now[m]}
		if s.was != nil && s.is != nil && !s.is.wasReset(s.was) {
			s.did = s.is.since(s.was)
		}
		shares = append(shares, s)
		for _, rule := range ofMember {
			if what := rule(s, a); s.was != nil && what != "" {
				wrong = append(wrong, m.says(what))
			}
		}
		if n := s.did[retried]; n > 0 {
			strange = append(strange, m.says(fmt.Sprintf("it has sent requests again %s, which had failed: their latencies are those of "+
				"all attempts", plain.Count(int(n), "time"))))
		}
	}
	for _, rule := range ofAll {
		if what := rule(shares, a); what != "" {
			wrong = append(wrong, what)
		}
	}
	if n, _ := total(shares, generated, engines.Decode, engines.Serve); a.bounded && n > (1+slack)*a.most+slackTokens {
		const text = "the engine counts %.0f generated tokens, and the clients have asked for %.0f at most: it has served others meanwhile"
		strange = append(strange, fmt.Sprintf(text, n, a.most))
	}
	slices.Sort(wrong)
	return wrong, strange
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
		if _, has := counts[lost]; engines.ShowsZero(m.Member.Member) && m.isHalf() && !has {
			open = max(open, m.says("this version does not count transfers of its KV cache that fail, "+
				"so that only its log tells of them"))
		}
	}
	return open
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
func (e *engine) left(ctx context.Context) []string {
	said := flow.Map(e.workers(), func(m *member) string {
		names := engines.Exports(m.Engine)
		if names == nil || names.Iterations {
			return ""
		}
		s := m.server(e)
		defer s.close()
		now, err := names.Read(ctx, s.read)
		if err != nil {
			e.debug("what is left in "+m.name+" is not known", err)
			return ""
		}
		switch requests, used := now[telemetry.Running]+now[telemetry.Waiting], now[telemetry.KVCache]; {
		case requests > 0:
			return m.says(plain.Count(int(requests), "request") + " of before the cell had not ended when it began")
		case used > leftShare:
			return m.says(fmt.Sprintf("%.0f %% of its KV cache was in use when the cell began, without a request", math.Ceil(100*used)))
		}
		return ""
	})
	return slices.DeleteFunc(said, func(s string) bool { return s == "" })
}
