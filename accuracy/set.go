package accuracy

import (
	"fmt"
	"io"
)

// Set is the questions of an evaluation, made ready to be asked. Its asks are numbered: first all questions once, then all of them
// again, as often as there are samples. Several goroutines may use it.
type Set struct {
	Spec      Spec // with what the protocol says in place of what was left open
	Questions []Question
	// Notes are what a reader of the score has to know: examples that leak, say.
	Notes []string
}

// New reads the questions of a spec, and the examples where the protocol takes them from a file of their own; nil: there is none.
// A mistake names the line. What it reads is bounded; that it has the checksum, its caller has seen to.
func New(spec Spec, questions, shots io.Reader) (*Set, error) {
	return nil, fmt.Errorf("task %q: it is not here yet", spec.Task)
}

// Len is how many asks there are: questions times samples.
func (s *Set) Len() int { return len(s.Questions) * s.Spec.Samples }

// Ask is number i of them, from 0.
func (s *Set) Ask(i int) Ask { return Ask{} }

// Mark marks what was answered on number i, and makes of it what is stored.
func (s *Set) Mark(i int, r Reply) Answer { return Answer{} }
