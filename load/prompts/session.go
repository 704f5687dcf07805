package prompts

// Request is one request to be sent.
type Request struct {
	Seq           int // of the warm-up or the measurement, in the order in which they were made
	Body          []byte
	Input, Output int // the lengths that it asks for, in tokens; Input is 0 where nobody has counted
}

// Session is requests that each wait for the answer to the one before: a conversation,
// or a prompt alone. One worker at a time has it.
type Session interface {
	// Request makes the next request.
	Request() Request
	// Listens reports whether the next request is made of what is answered.
	Listens() bool
	// Heard takes the answer, and reports whether another request follows. ok is false
	// when there was none.
	Heard(ok bool, answer []byte) bool
}

// Queue hands out the sessions of a warm-up or a measurement, to any number of workers.
type Queue interface {
	// Next is the next session; ok is false when none is left.
	Next() (s Session, ok bool)
	// Begun is how many have been handed out.
	Begun() int
}
