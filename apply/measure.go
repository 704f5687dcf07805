package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/telemetry"
)

func (m *measurement) load(ctx context.Context) error {
	m.out.Job.Target.Model = m.t.row.Model
	m.out.Job.Target.LoraPath = len(m.out.Job.Workload.Adapters) > 0 && engines.TakesLoraPath(m.t.d.Engine)
	server := m.t.server(engines.BaseURL(m.t.d.Engine))
	defer server.close()
	from := m.t.at.onHosts(m.t.d.Senders(m.cell))

	asks, err := m.giveQuestions(ctx, from)
	if err != nil {
		return err
	}

	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan error, 1)
	go func() {
		dead := m.watch(running, server)
		cancel(dead)
		watched <- dead
	}()
	beyond := slices.DeleteFunc(slices.Clone(from), func(s *place.Session) bool { return s == m.t.home() })
	defer place.EndWith(beyond, cancel)()
	read, beside := readWhile(m.t.d, m.cell, m.t.objects.exports()...)
	for i, b := range beside {
		beside[i].end = watch(running, m.t.at[b.host], m.watchID(), b.plan)
	}
	got, err := m.send(running, from, server, read, asks)
	cancel(nil)
	lost := <-watched

	// What came of it is decided once, with its proof, also when the run is broken off meanwhile: what
	// was measured is whole and proved, or it is not kept.
	whole := err == nil && got.Summary != nil && got.Summary.Failed == 0
	after := ctx
	if whole {
		var done context.CancelFunc
		after, done = flow.Beyond(ctx, outcomeWithin)
		defer done()
	}
	m.collect(after, got.Telemetry, beside, from[0], got.Window())
	m.out.Finished, m.out.Telemetry, m.records = time.Now(), got.Telemetry, got.Records
	if !whole {
		m.t.renew(ctx)
		if gone := m.gone(from); gone != nil && ctx.Err() == nil { // which says nothing of the engine
			return m.t.blame(gone, context.Cause(gone.Held))
		}
	}
	lost = cmp.Or(lost, m.t.objects.ended(after, 0))
	if lost == nil && err == nil && got.Summary.Failed > 0 {
		lost = m.stillServes(ctx, server, stillWithin)
	}
	var doubts []load.Reason
	var unproved error
	if lost == nil && err == nil && got.Summary.Completed > 0 {
		doubts, unproved = m.t.prove(after, got.before, got.Measured)
		doubts = append(doubts, load.Because(load.CodeCutShort, cutShort(got.Records, m.t.context)...)...)
	}
	at := culprit(from, err)
	switch {
	case ctx.Err() != nil && (!whole || lost != nil || unproved != nil || doubts != nil):
		return nil // broken off: not a measurement, and not a failure
	case lost != nil: // numbers from a dying engine are not a measurement
		return errors.Join(failed(ofStart, nil, lost), m.t.blame(at, full(at.Host, err)))
	case err != nil:
		return errors.Join(failed(ofCell, nil, err), m.t.blame(at, full(at.Host, err)))
	case got.Summary.Completed == 0:
		return errors.New(withTail(unanswered(got.Summary), m.t.tail(after)))
	case unproved != nil:
		return unproved
	}
	m.out.Summary = got.Summary
	m.tellClocks()
	if asks != nil {
		doubts = append(doubts, asks.mark(m, got.Records)...)
	} else { // which is about when tokens came, and not about what they say
		throttled(m.out.Summary, got.Telemetry)
		crowded(m.out.Summary, got.Telemetry, m.cell.Load().Workload.Speed)
	}
	doubt(m.out.Summary, slices.Concat(m.t.doubts, load.Because(load.CodeLeft, got.left...), doubts)...)
	return nil
}

// tellTooLong warns of cells whose prompts and answers do not go into what the engine serves.
func (t *trial) tellTooLong() {
	told := map[int]bool{}
	for _, c := range t.left {
		if c.Batch() != nil {
			continue
		}
		input, output := c.Load().Workload.Longest()
		if sum := input + output; t.context > 0 && sum > t.context && !told[sum] {
			told[sum] = true
			t.tell.say(Warning, "a prompt of %d tokens and an answer of %d make %d, and the engine serves %d (max_model_len): "+
				"it refuses them, or cuts their answers short", input, output, sum, t.context)
		}
	}
}

// cutShort tells of answers that ended where the engine's context did; context 0: it is not known.
func cutShort(records []load.Record, context int) (doubts []string) {
	cut := 0
	for _, r := range records {
		if r.OK() && r.OutputTokens < r.AskedOutput && r.InputTokens+r.OutputTokens >= context {
			cut++
		}
	}
	if context > 0 && cut > 0 {
		doubts = append(doubts, fmt.Sprintf("%d of %d answers were cut short where prompt and answer had the %d tokens "+
			"that the engine serves (max_model_len)", cut, len(records), context))
	}
	return doubts
}

// outcomeWithin is how long after an interruption it may take to prove what was measured before it.
const outcomeWithin = 20 * time.Second

// gone is a host beside the engine's that cannot send its share any more; nil: all can.
func (m *measurement) gone(from []*place.Session) *place.Session {
	i := slices.IndexFunc(from, func(s *place.Session) bool { return s != m.t.home() && s.Held.Err() != nil })
	if i < 0 {
		return nil
	}
	return from[i]
}

// culprit is the host that an error is about, of those that send a load.
func culprit(from []*place.Session, err error) *place.Session {
	of := new(agent.SenderError)
	if errors.As(err, &of) {
		if i := slices.IndexFunc(from, func(s *place.Session) bool { return s.Host == of.Host }); i >= 0 {
			return from[i]
		}
	}
	return from[0]
}

// maxClock is how far a client's clock may be from the caller's without a word.
const maxClock = time.Second

// tellClocks warns of clients whose clocks are wrong: it costs the measurement nothing, and their
// logs cannot be read beside others.
func (m *measurement) tellClocks() {
	for _, c := range m.out.Summary.Clients {
		apart := time.Duration(c.Clock.Ahead * float64(time.Millisecond)).Round(100 * time.Millisecond)
		if apart.Abs() > maxClock {
			m.tell.say(Warning, "the clock of %s is %s from this machine's. The load began at the same moment everywhere; "+
				"only logs cannot be laid side by side: sudo timedatectl set-ntp true", c.Host, apart)
		}
	}
}

// watch returns why there is nothing more to measure: the engine has ended, or hangs; nil: the measurement
// is over. Nothing probes the engine itself while it answers, and nothing reads its log.
func (m *measurement) watch(ctx context.Context, server *server) error {
	stall := cmp.Or(time.Duration(m.out.Job.Workload.Stall), load.DefaultStall)
	for ask, read := stall, silence; ; {
		if !flow.Pause(ctx, time.Second) {
			return nil
		}
		if _, err := firstEnded(ctx, m.t.members); err != nil {
			return err
		}
		if err := m.t.objects.ended(ctx, watchPoll); err != nil {
			return err
		}
		silent, patience := time.Duration(m.silent.Load()), time.Duration(0)
		if silent < stall {
			ask = stall
		}
		if silent < silence {
			read = silence
		}
		switch {
		case silent >= ask:
			ask, patience = silent+stall, min(stall, stillWithin)
		case silent >= read:
			read = 2 * silent
			if m.t.lostBy(m.t.tail(ctx)) != "" {
				patience = silence
			}
		}
		if patience > 0 {
			if err := m.hangs(ctx, server, patience); err != nil {
				return fmt.Errorf("every request in flight has stalled, with no token for %s, and %w", silent.Round(time.Second), err)
			}
		}
	}
}

// silence is how long no token comes until an engine's log is read: SGLang, whose scheduler or detokenizer has died, waits a
// minute for what its GPUs dump before it ends.
const silence = 5 * time.Second

// watchPoll is how often a cluster is asked what became of what the run has made there.
const watchPoll = 3 * time.Second

// hangs reports why there is no use in waiting for an engine from which nothing has come for the
// stall time: it answers no small request within patience, and meanwhile none of its members that generate counts
// a token. Prefill counts what is sent, whatever comes of it.
func (m *measurement) hangs(ctx context.Context, server *server, patience time.Duration) error {
	begun := make(chan map[*member]tally, 1)
	go func() { begun <- m.t.tallyWithin(ctx, patience) }()
	err := m.stillServes(ctx, server, patience)
	before := <-begun
	if err == nil {
		return nil
	}
	now := m.t.tallyWithin(ctx, countPatience)
	if ctx.Err() != nil {
		return nil
	}
	var silent []string
	for worker, was := range before {
		is, answers := now[worker]
		did := is.since(was)
		switch {
		case worker.Role != engines.Prefill && (did[generated] > 0 || did[prompted] > 0):
			return nil
		case !answers && worker.name != "":
			silent = append(silent, worker.name)
		}
	}
	if slices.Sort(silent); silent != nil {
		err = fmt.Errorf("%w; %s no longer tell counts either", err, strings.Join(silent, ", "))
	}
	return err
}

// agentLosses is how often a cell is measured anew because the agent has died.
const agentLosses = 2

// sent is what came of a load: of the last attempt, where the agent has died in others.
type sent struct {
	agent.Measured
	left   []string          // what others had left of the engine when it began
	before map[*member]tally // what its members had counted then
}

// send has the senders' agents send the load, and returns what was measured.
func (m *measurement) send(ctx context.Context, from []*place.Session, server *server,
	read telemetry.Plan, asks *asking) (got sent, err error) {
	senders, to := make([]agent.Sender, len(from)), m.cell.Load().Target
	for i, s := range from {
		senders[i].Client = s.Agent
		for _, base := range append([]string{to.BaseURL}, to.BaseURLs...) {
			if s == m.t.home() {
				break
			}
			if err := reaches(ctx, s, base); err != nil {
				return got, err
			}
		}
	}
	for attempt := 0; ; attempt++ {
		m.out.Job.Seed += uint64(attempt) // no prompt that the attempt before has put into the cache
		for i, s := range from {
			senders[i].Load = m.out.Job.Job // as the host gets it; where its files lie there is of no interest later
			if senders[i].Load.Files = s.Files; asks != nil {
				senders[i].Load = asks.from(senders[i].Load, s)
			}
		}
		got.left = m.t.leftovers(ctx, server, m.t.row.Model)
		got.before = m.t.tally(ctx)
		m.silent.Store(0)
		if m.out.CacheReset = m.t.resetCaches(ctx, server); strings.HasPrefix(m.out.CacheReset, "failed") {
			m.tell.say(Warning, "the prefix cache is not dropped: %s", m.out.CacheReset)
		}
		id := fmt.Sprintf("%s.%s.%d", m.t.row.RunID, m.cell.ID, attempt)
		progress := func(p load.Progress) {
			m.silent.Store(int64(p.Silent * float64(time.Second)))
			m.tell.tell(Event{Type: Progress, Progress: &p})
		}
		if m.of != nil { // which is of one sender
			job := agent.Job{Load: senders[0].Load, Telemetry: read}
			got.Measured, err = senders[0].RunUntil(ctx, id, job, progress, m.of.try.Watch())
		} else {
			got.Measured, err = agent.RunTogether(ctx, id, senders, read, progress)
		}
		if attempt == agentLosses || !errors.Is(err, agent.ErrJobLost) || ctx.Err() != nil {
			return got, err
		}
		m.tell.at(culprit(from, err).Host).say(Warning, "the agent died in mid-cell and is started again; the cell is measured again")
	}
}

// unanswered is why there is nothing to measure: no request was answered, or none counts.
func unanswered(s *load.Summary) string {
	if why := strings.Join(s.ErrorSamples, "; "); why != "" {
		return "no request was answered: " + why
	}
	return strings.Join(s.Verdict.Texts(), "; ")
}

const stillWithin = 30 * time.Second // how long an engine that serves may take for a small request

// stillServes reports why the engine does not answer a small request any more.
func (m *measurement) stillServes(ctx context.Context, server *server, patience time.Duration) error {
	if _, err := firstEnded(ctx, m.t.members); err != nil {
		return err
	}
	err := server.generate(ctx, m.t.row.Model, patience)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	// It may be dead, and the runtime not have noticed yet: that says more.
	if _, ended := endsSoon(ctx, m.t.members); ended != nil {
		return ended
	}
	return fmt.Errorf("it no longer answers: %w", err)
}

// reaches reports why load would not get from a sender to the engine at a URL.
func reaches(ctx context.Context, from *place.Session, base string) error {
	if err := from.Reaches(ctx, base); err != nil {
		advice := "look for a firewall between them, or let the engine listen on an address that both know, " +
			"flags = { host = \"10.0.0.5\" }"
		if from.Pod != nil {
			advice = "look for a NetworkPolicy between their pods"
		}
		return fmt.Errorf("%s sends the load but does not reach the engine at %s, although the engine serves on its own "+
			"host: %s: %w", from.Host, place.Address(base), advice, err)
	}
	return nil
}

func (m *measurement) watchID() string { return m.t.row.RunID + "." + m.cell.ID }

// collect ends the watches side by side, and adds what they have read to the record of the job, by
// the sender's clock.
func (m *measurement) collect(ctx context.Context, to *telemetry.Record, beside []watching, from *place.Session, sent telemetry.Window) {
	read := func(b watching) *telemetry.Record { return b.read(ctx, m.t.at[b.host], from, sent) }
	for i, r := range flow.Map(beside, read) {
		if to != nil && r != nil {
			to.Add(r, beside[i].host.Name)
		}
	}
}
