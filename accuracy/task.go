package accuracy

// Task is one kind of questions: what its file is, and which protocols ask it.
type Task struct {
	Name      string
	Help      string   // what is asked, in one line
	File      string   // what its file is, and where it is published
	Questions int      // of the published file; 0: it is the user's own
	Samples   int      // of each question, so that a verdict can be given
	Protocols []string // that have it, the first by default
}

// Tasks are all of them, in the order in which help names them.
func Tasks() []Task { return tasks }

// Scorings are the ways to score jsonl: how an answer is found, and when it is right.
func Scorings() []string { return []string{"exact", "choice", "numeric", "pattern"} }

var tasks = []Task{}
