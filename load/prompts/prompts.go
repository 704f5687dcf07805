// Package prompts makes what a load asks: each kind of data set is one entry of a
// table, and says how its prompts, or its conversations, are read or drawn.
package prompts

import (
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"hclbench/load"
)

// Request is one request to be sent.
type Request struct {
	Seq           int         // of this client's, in the order in which they were made
	Body          net.Buffers // in pieces, of which others may have some too: not to be written to
	Input, Output int         // the lengths that it asks for, in tokens; Input is 0 where nobody has counted
	Texts         int         // that are embedded or ranked; 0: it generates
	Whole         bool        // the answer comes in one piece, whatever the load says

	Session, Turn int           // of a conversation, from 1; 0: it stands alone
	Final         bool          // the conversation has no more
	After         time.Duration // how long after the answer before it goes
	NotBefore     time.Duration // of recorded times: when it goes at the earliest; 0: they do not say
	Adapter       string        // that it goes to; empty: the model itself
	Calls         bool          // the answer that was recorded calls a tool
	Joins         []*Branch     // that have to be over before it goes; After counts from then, if that is later
}

// Branch is a session that runs beside the one that it is a part of: a sub-agent.
type Branch struct {
	Session
	Over chan struct{} // closed by who carries it out
}

// Session is requests that each wait for the answer to the one before: a conversation,
// which one worker at a time has, or a prompt alone.
type Session interface {
	// Request makes the next request.
	Request() Request
	// Listens reports whether the next request is made of what is answered.
	Listens() bool
	// Heard takes the answer, and reports whether another request follows. ok is false
	// when there was none.
	Heard(ok bool, answer []byte) bool
	// Forks are the branches that begin with the answer that was heard last.
	Forks() []*Branch
}

// Queue hands out the sessions of a warm-up or a measurement, to any number of workers.
type Queue interface {
	// Next is the next session; ok is false when none is left.
	Next() (s Session, ok bool)
	// Begun is how many have been handed out.
	Begun() int
}

// maker makes the prompts of a run, or of its warm-up. Prompt i is the same in
// whatever order they are made, and several goroutines may make them.
type maker interface {
	// append writes prompt i behind b as JSON, and says what else its request asks for.
	append(b []byte, i int) ([]byte, ask)
}

// ask is what a request asks for beside its prompt.
type ask struct {
	input, output int    // lengths, in tokens; input is 0 where nobody has counted
	members       []byte // more of its body, see [load.Template.Fill]
	images        []picture
	texts         int  // that are embedded or ranked; 0: one, or it generates
	whole         bool // the answer is to come in one piece
}

// rows are prompts that each stand alone. They are the session of each of them, too: so
// a request needs none of its own.
type rows struct {
	maker
	set         *Set
	use         uint64
	total       int          // 0: as many as are asked for
	begun, made atomic.Int64 // sessions and requests
	room        atomic.Int64 // that the longest prompt so far took
}

func (q *rows) Next() (Session, bool) {
	n := int(q.begun.Add(1))
	return q, q.total == 0 || n <= q.total
}

func (q *rows) Begun() int { return int(q.made.Load()) }

func (q *rows) Request() Request {
	i := int(q.made.Add(1)) - 1
	number := q.set.slice.Nth(i)
	prompt, ask := q.append(make([]byte, 0, q.room.Load()), number)
	q.room.Store(max(q.room.Load(), int64(len(prompt))))
	adapter := q.set.adapted(q.use, number)
	if q.set.silent {
		ask.output, ask.texts = 0, max(1, ask.texts)
	}
	body := q.set.templates[adapter].Fill(prompt, ask.output, ask.members)
	return Request{Seq: i, Body: illustrated(body, ask.images), Input: ask.input, Output: ask.output, Texts: ask.texts, Whole: ask.whole,
		Adapter: adapter}
}

func (*rows) Listens() bool { return false }

func (*rows) Heard(bool, []byte) bool { return false }

func (*rows) Forks() []*Branch { return nil }

// What a random stream is for. Streams of different use never meet, so that a
// change in one (a longer prompt) leaves the others as they were.
const (
	ForPrompt uint64 = iota + 1
	ForWarmup
	ForArrivals
	forGroup
	forBlock
	forOrder
	forSalt
	forThinking
	forAdapter
	forTurn
	forImages
)

// Seed is that of a job's data set.
func Seed(j load.Job) uint64 { return j.Seed ^ scramble(j.Workload.Dataset.Seed) }

// Random is the stream of request index, the same in whatever order requests are made.
func Random(seed, use, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(scramble(seed^scramble(use)), scramble(index+seed)))
}

// scramble is the finaliser of SplitMix64: neighbouring seeds become unrelated.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
