package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hclbench/flow"
	"hclbench/load"
)

// Lease is one caller's claim on the agent: for which lab, by whom, and for how
// long without being renewed.
type Lease struct {
	Lab         string        `json:"lab"`
	Run         string        `json:"run"`
	Store       string        `json:"store"`          // id of the caller's results store: the same store may take over
	Holder      string        `json:"holder"`         // for people: "ada@laptop, hcl apply, pid 4711"
	Host        string        `json:"host,omitempty"` // what the caller calls this machine, and where in the lab, for messages
	Pos         string        `json:"pos,omitempty"`
	TTL         load.Duration `json:"ttl"`
	MaxDuration load.Duration `json:"max_duration,omitempty"` // since the run's first lease; 0: no limit
	Docker      string        `json:"docker,omitempty"`       // the daemon that runs the lab's containers, see [docker.Daemon.Access]; empty: none does
	Reserve     bool          `json:"reserve,omitempty"`      // nobody else's lease may be on this machine meanwhile
	PowerOff    *PowerOff     `json:"power_off,omitempty"`    // nil: the machine stays on
	Expires     time.Time     `json:"expires,omitzero"`       // set by the agent
}

// phase is where an agent stands in its life. It goes from idle to leased, and from
// both to one of the ends, of which there is no way back.
type phase int

const (
	idle     phase = iota
	leased         // somebody has claimed the agent
	expired        // nobody has renewed the lease
	released       // by the holder, or by somebody who destroys; or nobody had claimed it
)

// life is where an agent stands, with what belongs to that. It changes under the
// lessor's lock, and goes by value to who works with it later.
type life struct {
	phase phase
	lease Lease     // of leased and expired, and of who has released it
	claim string    // its id: another for each run
	since time.Time // of the run's first lease
	hard  time.Time // the earliest time by which the machine has to be off, of those that the run has told; zero: it has told none
	by    *ending   // of released: what else is asked; nil: nothing
}

func (l life) ending() bool { return l.phase == expired || l.phase == released }

// lessor gives the agent's lease, and with it the machine, and knows what is owed when
// it is over.
type lessor struct {
	dir       string
	unclaimed time.Duration
	ctx       context.Context // ends when the agent does
	quit      context.CancelFunc
	over      chan struct{} // closed when all is down that has to be
	said      gone          // then, what was
	err       error         // and what could not be
	claim     *claim
	log       *slog.Logger

	notes     chan chan<- struct{} // asks for the life to be noted; who sends more than nil is told when it is
	stopNotes func()

	mu      sync.Mutex
	life    life
	off     powerOff
	ended   map[string]string // runs whose lease somebody has ended, and who
	machine machine
	expiry  *time.Timer
}

// goOn has the agent stand where one that was killed has left its claim.
func (o *lessor) goOn(left life) {
	o.stopNotes = flow.Beside(o.ctx, o.keepNotes)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.life = left
	switch left.phase {
	case leased:
		o.log.Warn("going on with the lease of an agent that was killed", "lab", left.lease.Lab, "run", left.lease.Run)
		if left.lease.Reserve {
			by, err := o.machine.reserve()
			if err != nil || by != nil {
				o.log.Warn("the machine is not reserved again yet", "by", by, "err", err)
			}
			o.notes <- nil
		}
		o.expiry = time.AfterFunc(time.Until(left.lease.Expires), o.expired)
	case expired:
		o.log.Warn("ending what an agent that was killed has left", "lab", left.lease.Lab, "run", left.lease.Run)
		o.expiry = time.AfterFunc(0, o.quit)
	default:
		o.expiry = time.AfterFunc(o.unclaimed, o.expired)
	}
}

// keepNotes writes down who has the lease, and until when. Nobody else does, so that the last is what stands there.
// A renewal does not wait for it: a disk may hang for longer than a lease lasts, and must not end what is measured.
func (o *lessor) keepNotes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case done := <-o.notes:
			o.mu.Lock()
			l, m := o.life, o.machine
			o.mu.Unlock()
			if l.phase == leased || l.phase == expired {
				m.note(l.lease)
				o.claim.hold(l)
			}
			if l.phase == leased && l.lease.PowerOff != nil && !l.hard.IsZero() { // of a lease that a killed agent has left the machine was told
				o.powerOff(ctx, l)
			}
			if done != nil {
				close(done)
			}
		}
	}
}

// final is the life at its end, when the agent's context is over.
func (o *lessor) final() life {
	o.expiry.Stop()
	o.stopNotes()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.life
}

// current is the lease that somebody holds, or held last; nil when there is none.
func (o *lessor) current() *Lease {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.life.phase != leased && o.life.phase != expired {
		return nil
	}
	return new(o.life.lease)
}

func (o *lessor) reserved() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.machine.reservation != nil && !o.life.ending()
}

func (o *lessor) giveBack() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.machine.giveBack()
}

// Requests say for which store and run they are made. While there is a lease, only
// those of its holder change anything.
const (
	headerStore = "Hcl-Store"
	headerRun   = "Hcl-Run"
)

// heldBy reports whether a store's caller holds the lease: the run that has it, or one
// that knows no run, as `hcl destroy` does.
func (l Lease) heldBy(store, run string) bool {
	return l.Store == store && (run == "" || run == l.Run)
}

// held lets those change something who hold the lease, and while there is none
// everybody but a run whose lease was ended.
func (o *lessor) held(do handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		o.mu.Lock()
		why := o.against(r)
		o.mu.Unlock()
		if why != nil {
			return why
		}
		return do(w, r)
	}
}

// against is why a request must not change anything; nil when it may. The caller holds o.mu.
func (o *lessor) against(r *http.Request) *refusal {
	store, run := r.Header.Get(headerStore), r.Header.Get(headerRun)
	if by, ok := o.ended[run]; ok {
		return &refusal{Ended: by}
	}
	if o.life.phase == leased && !o.life.lease.heldBy(store, run) {
		return &refusal{Lease: o.life.lease}
	}
	return nil
}

// granted is the answer to who gets the lease.
type granted struct {
	Lease
	Claim   string `json:"claim"`              // another than before: nothing of what was made, set and checked for that is there any more
	StaysOn string `json:"stays_on,omitempty"` // why the machine cannot be told to shut itself down
}

// refusal is the answer to who does not get the lease, or has it no more.
type refusal struct {
	Lease        // that is in the way
	Ended string `json:"ended,omitempty"` // who has ended the lease of the run that asks
}

func (r *refusal) Error() string { return "somebody else has the host" }

// put takes or renews the lease. Another store's live lease is refused with 409 and that lease
// as the body, and so is one that reserves a machine which an agent of another lab has
// reserved, and that of a run whose lease somebody has ended. An agent that is ending says 503.
func (o *lessor) put(w http.ResponseWriter, r *http.Request) error {
	var want Lease
	if err := read(r, &want); err != nil {
		return err
	}
	if want.TTL <= 0 {
		return fail(http.StatusBadRequest, "a lease of %s is none", want.TTL)
	}
	now, anew, err := o.grant(want)
	if err != nil {
		return err
	}
	if !anew {
		select {
		case o.notes <- nil:
		default: // it is asked for already
		}
		return reply(w, now)
	}
	noted := make(chan struct{})
	select {
	case o.notes <- noted:
	case <-o.ctx.Done():
		return errEnding
	}
	select {
	case <-noted:
		o.mu.Lock()
		now.StaysOn = o.off.why
		o.mu.Unlock()
		return reply(w, now)
	case <-o.ctx.Done():
		return errEnding
	}
}

// grant gives or renews the lease. anew: it is the run's first.
func (o *lessor) grant(want Lease) (now granted, anew bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.life.ending() || o.ctx.Err() != nil {
		return now, false, errEnding
	}
	if by, ok := o.ended[want.Run]; ok {
		return now, false, &refusal{Ended: by}
	}
	was := o.life
	if was.phase == leased && was.lease.Store != want.Store {
		return now, false, &refusal{Lease: was.lease}
	}
	at, next := time.Now(), was
	anew = was.phase == idle || was.lease.Run != want.Run
	if anew {
		next.since, next.claim = at, rand.Text()
	}
	if hard := want.PowerOff.hardEnd(at); anew || next.hard.IsZero() || !hard.IsZero() && hard.Before(next.hard) { // the caller's clock may be set on
		next.hard = hard
	}
	want.Expires = at.Add(time.Duration(want.TTL))
	most := time.Duration(want.MaxDuration)
	if end := next.since.Add(most + min(most/10, overrun)); want.MaxDuration > 0 && end.Before(want.Expires) {
		want.Expires = end
	}
	if want.Reserve {
		by, err := o.machine.reserve()
		if err != nil {
			return now, false, err
		}
		if by != nil {
			if was.phase == idle { // whoever waits asks again, and the agent stays for that
				o.expiry.Reset(o.unclaimed)
			}
			return now, false, &refusal{Lease: *by}
		}
	}
	if anew {
		o.log.Info("leased", "lab", want.Lab, "run", want.Run, "holder", want.Holder, "ttl", want.TTL.String())
		if was.phase == leased {
			o.endedBy(was.lease.Run, want.Holder) // should its caller only have slept
		}
	}
	next.phase, next.lease = leased, want
	o.life = next
	o.expiry.Reset(time.Until(want.Expires))
	return granted{want, next.claim, o.off.why}, anew, nil
}

// ending is what is asked when somebody else than its holder ends a lease, as `hcl destroy` does.
type ending struct {
	By     string `json:"by"`               // who, for the holder, who is told when it comes again
	Docker string `json:"docker,omitempty"` // the daemon that runs containers, should no claim tell it
	Force  bool   `json:"force,omitempty"`  // also what carries the lab's name and is somebody else's; and forget what is left
	Lab    string `json:"lab,omitempty"`
	Cache  bool   `json:"cache,omitempty"` // clear what hcl keeps on the host
}

// overrun is how much longer than a run may last its agent waits for the caller to end it: it knows what that costs.
const overrun = 10 * time.Second

// end ends the agent, for the lease's holder, or for whoever says who it is. The answer, with what was
// removed, comes when all of the claim has ended.
func (o *lessor) end(w http.ResponseWriter, r *http.Request) error {
	var by *ending
	if r.ContentLength > 0 {
		by = new(ending)
		if err := read(r, by); err != nil {
			return err
		}
	}
	o.mu.Lock()
	if why := o.against(r); why != nil && (by == nil || !by.Force) {
		o.mu.Unlock()
		return why
	}
	taken := !o.life.ending() && o.ctx.Err() == nil
	if taken {
		if o.life.phase == leased && by != nil {
			o.endedBy(o.life.lease.Run, by.By)
		}
		o.life.phase, o.life.by = released, by
	}
	o.mu.Unlock()
	o.quit()
	<-o.over                 // not r.Context(): that has ended with the agent
	if by != nil && !taken { // what it has left it has noted for the next
		said := o.said
		said.Missed = true
		return reply(w, said)
	}
	if o.err != nil {
		return faultOf(o.err)
	}
	return reply(w, o.said)
}

// endedName is a file in the agent's directory with the runs whose lease was ended by
// somebody else: their callers may be at work yet, and bring up another agent.
const endedName = "ended.json"

// endedMost is how many of them are remembered, the last: no caller sleeps for so long.
const endedMost = 100

// endedBy notes who has ended the lease of a run. The caller holds o.mu.
func (o *lessor) endedBy(run, who string) {
	for len(o.ended) >= endedMost {
		delete(o.ended, slices.Min(slices.Collect(maps.Keys(o.ended)))) // ids of runs sort by time
	}
	o.ended[run] = who
	if err := writeJSON(filepath.Join(o.dir, endedName), o.ended, 0o600); err != nil {
		o.log.Error("note whose lease was ended", "err", err)
	}
}

func readEnded(dir string) map[string]string {
	var ended map[string]string
	if readJSON(filepath.Join(dir, endedName), &ended) != nil || ended == nil {
		return map[string]string{}
	}
	return ended
}

// expired ends an agent that nobody has claimed, or not again.
func (o *lessor) expired() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.life.ending() || o.ctx.Err() != nil {
		return
	}
	switch l := o.life.lease; {
	case o.life.phase == idle:
		o.life.phase = released
	case time.Until(l.Expires) > 0: // renewed while the timer fired
		o.expiry.Reset(time.Until(l.Expires))
		return
	default:
		o.life.phase = expired
		o.log.Warn("the lease ran out: cleaning up", "lab", l.Lab, "run", l.Run, "holder", l.Holder)
	}
	o.quit()
}

// holder is who is at work here, for others: "run r1 of lab l on box, by ada@laptop, pid 4711".
func (o *lessor) holder() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	machine, err := os.Hostname()
	if err != nil {
		machine = "another machine"
	}
	if o.life.phase != leased {
		return "somebody on " + machine
	}
	l := o.life.lease
	return fmt.Sprintf("run %s of lab %s on %s, by %s", l.Run, l.Lab, machine, l.Holder)
}
