package accuracy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hclbench/plain"
)

// Task is one kind of questions: what its file is, and which protocols ask it.
type Task struct {
	Name      string
	Help      string // what is asked, in one line
	File      string // what its file is, and where it is published
	Questions int    // of the published file; 0: it is the user's own
	Samples   int    // of each question, so that a verdict can be given; 0: none is, as its answers prove nothing good

	question func(row) (Question, error)
	// made makes the questions of the whole file and the one beside it; nil: each row is one.
	made func(file, beside io.Reader) (questions []Question, notes []string, err error)
}

// Tasks are all of them, in the order in which help names them.
func Tasks() []Task { return tasks }

// Protocols are those that have the task, the first by default.
func (t Task) Protocols() []string {
	var names []string
	for _, r := range recipes {
		if r.task == t.Name {
			names = append(names, r.protocol)
		}
	}
	return names
}

// The tasks.
const (
	JSONL        = "jsonl"
	ToolCalls    = "tool-calls"
	PromptCounts = "prompt-tokens"
	NextToken    = "next-token"
	GSM8K        = "gsm8k"
	MMLU         = "mmlu"
	MMLUPro      = "mmlu-pro"
	GPQA         = "gpqa-diamond"
	AIME         = "aime"
	Math500      = "math-500"
)

var tasks = []Task{
	{Name: JSONL, Help: "questions of your own, scored exact, choice, numeric or pattern", Samples: 1, question: own,
		File: `JSON lines of your own: "question" (or "messages"), "answer" (a text, a number, or a list of right ones), "choices", "id"`},
	{Name: ToolCalls, Help: "requests with tools: calls are as their JSON schemas say, and made where the baseline makes them", Samples: 1,
		File: `JSON lines, each the body of a request to chat completions ("messages", "tools", …), as samples of K2VV and MiniMax's verifier have them; of your own with "right": "call", "no call" or "refused"`,
		question: func(r row) (Question, error) {
			line, err := json.Marshal(r.members)
			if err != nil {
				return Question{}, err
			}
			return readCall(line)
		}},
	{Name: PromptCounts, Help: "the server's count of a few prompts' tokens against that of the model's chat template and tokenizer",
		File: "the model's tokenizer_config.json or chat_template.jinja, and beside it, as shots_path, its tokenizer.json", made: promptQuestions},
	{Name: NextToken, Help: "texts that are given: how likely each next token is, against the baseline",
		File: `JSON lines with a "text", or with a "question" and its "answer"`,
		question: func(r row) (Question, error) {
			if r.has("text") {
				return Question{ID: r.optional("id"), Text: r.text("text")}, nil
			}
			return Question{ID: r.optional("id"), Text: r.text("question") + "\n" + r.text("answer")}, nil
		}},
	{Name: GSM8K, Help: "word problems of grade school; the answer is a number", Questions: 1319, Samples: 1,
		File: "test.jsonl of openai/grade-school-math, and train.jsonl for the examples",
		question: func(r row) (Question, error) {
			q := Question{Text: r.text("question"), Worked: r.text("answer")}
			if _, right, ok := strings.Cut(q.Worked, "#### "); ok && strings.TrimSpace(right) != "" {
				q.Right = []string{strings.TrimSpace(right)}
			} else {
				return q, fmt.Errorf(`"answer" has no "#### " with a number after it`)
			}
			return q, nil
		}},
	{Name: MMLU, Help: "57 subjects, four choices", Questions: 14042, Samples: 1,
		File: "the rows of cais/mmlu as JSON lines (test; dev for the examples), or mmlu.csv of simple-evals",
		question: func(r row) (Question, error) {
			if r.has("Subject") { // simple-evals
				q := Question{Text: r.text("Question"), Subject: r.text("Subject"),
					Choices: []string{r.text("A"), r.text("B"), r.text("C"), r.text("D")}}
				return q, q.choose(strings.Index("ABCD", r.text("Answer")))
			}
			q := Question{Text: r.text("question"), Subject: r.text("subject"), Choices: r.texts("choices")}
			if len(q.Choices) != 4 {
				return q, fmt.Errorf(`"choices" has %d texts: it must have 4`, len(q.Choices))
			}
			n, err := strconv.Atoi(r.text("answer"))
			if err != nil {
				n = -1
			}
			return q, q.choose(n)
		}},
	{Name: MMLUPro, Help: "14 subjects, up to ten choices, with reasoning", Questions: 12032, Samples: 1,
		File: "the rows of TIGER-Lab/MMLU-Pro as JSON lines (test; validation for the examples)",
		question: func(r row) (Question, error) {
			q := Question{ID: r.text("question_id"), Text: r.text("question"), Choices: r.texts("options"),
				Worked: r.optional("cot_content"), Subject: r.text("category")}
			return q, q.choose(strings.Index(letters, r.text("answer")))
		}},
	{Name: GPQA, Help: "198 questions of experts, four choices; clustered: several samples of each", Questions: 198, Samples: 4,
		File: "gpqa_diamond.csv of Idavidrein/gpqa, or of simple-evals",
		question: func(r row) (Question, error) {
			q := Question{ID: r.optional("Record ID"), Text: r.text("Question"), Choices: []string{r.text("Correct Answer"),
				r.text("Incorrect Answer 1"), r.text("Incorrect Answer 2"), r.text("Incorrect Answer 3")}}
			return q, q.choose(0)
		}},
	{Name: AIME, Help: "30 problems a year, the answer is a whole number up to 999; clustered: several samples of each", Questions: 30, Samples: 8,
		File: "the rows of Maxwell-Jia/AIME_2024 or math-ai/aime25 as JSON lines",
		question: func(r row) (Question, error) {
			q := Question{ID: cmp.Or(r.optional("ID"), r.optional("id"))}
			if r.has("Problem") { // AIME_2024
				q.Text, q.Right = r.text("Problem"), []string{r.text("Answer")}
			} else {
				q.Text, q.Right = r.text("problem"), []string{r.text("answer")}
			}
			if n, err := strconv.Atoi(q.Right[0]); err != nil || n < 0 || n > 999 {
				return q, fmt.Errorf("the answer %q is no whole number from 0 to 999", plain.Cut(plain.Line(q.Right[0]), 40))
			}
			return q, nil
		}},
	{Name: Math500, Help: "500 problems of competitions; the answer is LaTeX", Questions: 500, Samples: 1,
		File: "test.jsonl of HuggingFaceH4/MATH-500",
		question: func(r row) (Question, error) {
			q := Question{ID: r.optional("unique_id"), Text: r.text("problem"), Subject: r.optional("subject"),
				Worked: r.text("solution"), Right: []string{r.text("answer")}}
			if _, ok := boxed(q.Worked); !ok {
				return q, fmt.Errorf(`"solution" has no \boxed{…}`)
			}
			return q, nil
		}},
}

// Decides is how many samples of each question a verdict takes; 0: the task has none, whatever is asked.
func (s Spec) Decides() int {
	for _, t := range tasks {
		if t.Name == s.Task {
			return t.Samples
		}
	}
	return 1 // of another version of hcl
}

// letters are the names of choices.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// choose says which choice is right; below 0 or beyond them: none.
func (q *Question) choose(n int) error {
	if n < 0 || n >= len(q.Choices) {
		return fmt.Errorf("its answer is none of its %s", plain.Count(len(q.Choices), "choice"))
	}
	q.Right = []string{strconv.Itoa(n)}
	return nil
}

// right is the number of the right choice.
func (q Question) right() int {
	n, _ := strconv.Atoi(q.Right[0]) // [Question.choose] has set it
	return n
}

// letter is that of the right choice.
func (q Question) letter() string { return letters[q.right() : q.right()+1] }

// own reads a line of a user's own file.
func own(r row) (Question, error) {
	q := Question{ID: r.optional("id"), Context: r.raw("messages"), Tools: r.raw("tools")}
	if q.Context == nil {
		q.Text = r.text("question")
	} else if r.has("question") {
		return q, fmt.Errorf(`it has both "question" and "messages": write one of them`)
	}
	if r.is("answer", '[') {
		q.Right = r.texts("answer")
	} else {
		q.Right = []string{r.text("answer")}
	}
	if len(q.Right) == 0 {
		return q, fmt.Errorf(`"answer" is an empty list`)
	}
	if !r.has("choices") {
		return q, nil
	}
	q.Choices = r.texts("choices")
	if len(q.Choices) < 2 || len(q.Choices) > len(letters) {
		return q, fmt.Errorf(`"choices" has %s: from 2 to %d are possible`, plain.Count(len(q.Choices), "text"), len(letters))
	}
	if len(q.Right) > 1 {
		return q, fmt.Errorf(`it has "choices" and several answers: write one`)
	}
	n := slices.Index(q.Choices, q.Right[0])
	if letter := q.Right[0]; n < 0 && len(letter) == 1 {
		n = strings.Index(letters, letter)
	}
	return q, q.choose(n)
}
