package load

import (
	"cmp"
	"fmt"
)

// What made-up prompts are like where nothing says how long they are: a chat's first turn and its answer, as 1,000 of ShareGPT's
// have them on average (219,171 tokens and 200,752, docs.gpustack.ai, DeepSeek-R1 on H200), and so many turns.
const madeUpInput, madeUpOutput, madeUpTurns = 219, 201, 3

// MadeUp is the workload with prompts that are made up in the place of those in its files: as long as it cuts them to, or else
// as chats are. ok is false where nothing made up is like them: questions, recorded times, and sessions of agents.
func (w Workload) MadeUp() (made Workload, ok bool) {
	d := w.Dataset
	switch {
	case d.Questions || d.Timed():
		return w, false
	case d.Kind == ShareGPT || d.Kind == Text || d.Kind == JSONL:
		w.Dataset = NewDataset(Random)
		w.Dataset.InputTokens = cmp.Or(d.InputTokens, madeUpInput)
	case d.Kind == Conversation:
		w.Dataset = NewDataset(RandomConversation)
		w.Dataset.Turns, w.Dataset.QuestionTokens, w.Dataset.ThinkTime = madeUpTurns, madeUpInput, d.ThinkTime
		w.Dataset.MaxDelay = d.MaxDelay
	default:
		return w, false
	}
	w.Dataset.Seed = d.Seed
	if w.Generates() {
		w.OutputTokens = cmp.Or(w.OutputTokens, d.OutputTokens, madeUpOutput)
	}
	return w, true
}

// Lengths says how long prompts and answers are: "random 219 tokens in, 201 out".
func (w Workload) Lengths() string {
	if w.OutputTokens == 0 {
		return w.Dataset.words()
	}
	return fmt.Sprintf("%s, %d out", w.Dataset.words(), w.OutputTokens)
}
