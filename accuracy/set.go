package accuracy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
	"hclbench/plain"
)

// Set is the questions of an evaluation, made ready to be asked. Its asks are numbered: first all questions once, then all of them
// again, as often as there are samples. Several goroutines may use it.
type Set struct {
	Spec      Spec // with what the protocol says in place of what was left open
	Questions []Question
	// Notes are what a reader of the score has to know: examples that leak, say.
	Notes []string

	recipe recipe
	way    extraction
	shots  [][]Question // before each question; nil: none
	orders [][]int      // of the choices, of each ask; nil: as the file has them
}

// Check says what is wrong with a spec before any file is read: a pair of task and protocol that does not exist, an argument that means
// nothing to it. What the spec leaves open it returns as the protocol has it.
func (s Spec) Check() (Spec, error) {
	s, _, err := s.resolve()
	return s, err
}

// NeedsShots reports whether the spec, once it is checked, takes examples from a file of their own.
func (s Spec) NeedsShots() bool {
	s, r, err := s.resolve()
	return err == nil && (r.from == beside || (r.from == firstOf || r.from == drawnOf) && *s.Shots > 0)
}

func (s Spec) resolve() (Spec, recipe, error) {
	i := slices.IndexFunc(tasks, func(t Task) bool { return t.Name == s.Task })
	if i < 0 {
		var all []string
		for _, t := range tasks {
			all = append(all, t.Name)
		}
		return s, recipe{}, fmt.Errorf("there is no task %q: write one of %s", s.Task, plain.List(all, "or"))
	}
	has := tasks[i].Protocols()
	if s.Protocol == "" {
		s.Protocol = has[0]
	}
	i = slices.IndexFunc(recipes, func(r recipe) bool { return r.task == s.Task && r.protocol == s.Protocol })
	switch {
	case i < 0 && !slices.Contains(Protocols(), s.Protocol):
		return s, recipe{}, fmt.Errorf("there is no protocol %q: write one of %s", s.Protocol, plain.List(Protocols(), "or"))
	case i < 0 && s.Task == Math500 && s.Protocol == SimpleEvals:
		return s, recipe{}, fmt.Errorf("protocol %q has a model judge the answers to task %q, which hcl does not: write %s", s.Protocol, s.Task, plain.List(has, "or"))
	case i < 0:
		return s, recipe{}, fmt.Errorf("protocol %q has no task %q: %s it", s.Protocol, s.Task, plain.List(has, "and")+map[bool]string{true: " has", false: " have"}[len(has) == 1])
	}
	r := recipes[i]
	if s.Endpoint == "" {
		s.Endpoint = r.endpoints[0]
	}
	if !slices.Contains(r.endpoints, s.Endpoint) {
		return s, r, fmt.Errorf("protocol %q asks task %q by %s: %q is none of them", s.Protocol, s.Task, plain.List(r.endpoints, "or"), s.Endpoint)
	}
	if s.Shots == nil {
		s.Shots = &r.shots
	}
	if *s.Shots < 0 || *s.Shots > 100 {
		return s, r, fmt.Errorf("%d examples: from 0 to 100 are possible", *s.Shots)
	}
	if *s.Shots > 0 && (r.from == noShots || r.from == beside) {
		return s, r, fmt.Errorf("protocol %q asks task %q without examples: write shots = 0, or nothing", s.Protocol, s.Task)
	}
	if s.Samples == 0 {
		s.Samples = max(r.samples, 1)
	}
	if s.Samples < 1 || s.Samples > MostSamples {
		return s, r, fmt.Errorf("%d samples of each question: from 1 to %d are possible", s.Samples, MostSamples)
	}
	if s.Questions == 0 {
		s.Questions = r.questions
	}
	if s.Questions < 0 {
		return s, r, fmt.Errorf("%d questions: write how many of the file, from its beginning", s.Questions)
	}
	if s.MaxTokens == 0 {
		s.MaxTokens = r.maxTokens
	}
	if s.MaxTokens < 1 || s.MaxTokens > 1<<20 {
		return s, r, fmt.Errorf("%d tokens of an answer: from 1 to %d are possible", s.MaxTokens, 1<<20)
	}
	if r.extra != nil && (s.Samples > 1 || s.MaxTokens > 1) {
		return s, r, fmt.Errorf("task %q asks for each text once, and for no answer: leave out samples and max_tokens", s.Task)
	}
	// To jsonl its scorings are what the extractions are to the others.
	if s.Task == JSONL {
		if s.Extract != "" {
			return s, r, fmt.Errorf("the task jsonl has no extractions: write scoring = %q", s.Extract)
		}
		s.Extract, s.Scoring = s.Scoring, ""
	} else if s.Scoring != "" {
		return s, r, fmt.Errorf("scoring is of the task jsonl: how %q scores, its protocol says", s.Task)
	}
	var ways []string
	for _, w := range r.ways {
		ways = append(ways, w.name)
	}
	if s.Extract == "" {
		s.Extract = ways[0]
	}
	if !slices.Contains(ways, s.Extract) {
		return s, r, fmt.Errorf("%q is no way to find an answer to task %q by protocol %q: write %s", s.Extract, s.Task, s.Protocol, plain.List(ways, "or"))
	}
	if s.Task == JSONL {
		s.Extract, s.Scoring = "", s.Extract
	}
	switch _, err := regexp.Compile(s.Pattern); {
	case s.Scoring == "pattern" && s.Pattern == "":
		return s, r, fmt.Errorf("scoring pattern needs a pattern: a regular expression that finds the answer")
	case s.Scoring != "pattern" && s.Pattern != "":
		return s, r, fmt.Errorf("a pattern is of scoring pattern")
	case err != nil:
		return s, r, fmt.Errorf("the pattern: %w", err)
	}
	if s.ShotsPath != "" && r.from != firstOf && r.from != drawnOf && r.from != beside {
		return s, r, fmt.Errorf("protocol %q takes no examples for task %q from a file of their own", s.Protocol, s.Task)
	}
	return s, r, nil
}

// New reads the questions of a spec, and the examples where [Spec.NeedsShots]; nil: there is no such file.
// A mistake names the file and the line. What it reads is bounded; that it has the checksum, its caller has seen to.
func New(spec Spec, questions, shots io.Reader) (*Set, error) {
	spec, r, err := spec.resolve()
	if err != nil {
		return nil, err
	}
	s := &Set{Spec: spec, recipe: r}
	for _, w := range r.ways {
		if w.name == spec.Extract || w.name == spec.Scoring {
			s.way = w
		}
	}
	if spec.Scoring == "pattern" {
		s.way = pattern(regexp.MustCompile(spec.Pattern))
	}
	task := tasks[slices.IndexFunc(tasks, func(t Task) bool { return t.Name == spec.Task })]
	var all []Question
	if task.made != nil {
		all, s.Notes, err = task.made(questions, shots)
	} else {
		all, err = task.read(questions)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", plain.Line(spec.Path), err)
	}
	need := spec.Questions
	if need == 0 {
		need = task.Questions
	}
	if len(all) < need {
		return nil, fmt.Errorf("%s: it has %s, and %s asks %d: to ask only these, write questions = %d",
			plain.Line(spec.Path), plain.Count(len(all), "question"), spec.Task, need, len(all))
	}
	if spec.Questions == 0 {
		need = len(all)
	}
	s.Spec.Questions, s.Questions = need, all[:need]
	if spec.Scoring == "choice" {
		for _, q := range s.Questions {
			if q.Choices == nil {
				return nil, fmt.Errorf(`%s: line %d: it has no "choices", which scoring choice is about`, plain.Line(spec.Path), q.line)
			}
		}
	} else if spec.Scoring == "numeric" {
		for _, q := range s.Questions {
			if q.Choices != nil {
				return nil, fmt.Errorf(`%s: line %d: it has "choices", which scoring numeric is not about`, plain.Line(spec.Path), q.line)
			}
			for _, right := range q.Right {
				if _, ok := number(right); !ok {
					return nil, fmt.Errorf("%s: line %d: its answer %q is no number, which scoring numeric is about", plain.Line(spec.Path), q.line, plain.Cut(plain.Line(right), 40))
				}
			}
		}
	}
	for _, q := range s.Questions {
		if q.Context != nil && spec.Endpoint != load.Chat {
			return nil, fmt.Errorf(`%s: line %d: it has "messages", which %s does not take: write endpoint = %q`, plain.Line(spec.Path), q.line, spec.Endpoint, load.Chat)
		}
	}
	if err := s.draw(all, shots); err != nil {
		return nil, err
	}
	if r.order != nil {
		s.orders = r.order(s, need, spec.Samples)
	}
	if spec.Samples < task.Samples {
		s.Notes = append(s.Notes, fmt.Sprintf("%s has so few questions that one sample of each proves nothing: %d of each are usual", spec.Task, task.Samples))
	}
	return s, nil
}

// draw takes the examples of all questions.
func (s *Set) draw(all []Question, file io.Reader) error {
	n := *s.Spec.Shots
	if n == 0 {
		return nil
	}
	pool, from := all, s.Spec.Path
	if s.recipe.from != firstSelf {
		if file == nil {
			return fmt.Errorf("protocol %q takes the examples for task %q from a file: write shots_path, or shots = 0", s.Spec.Protocol, s.Spec.Task)
		}
		var err error
		task := tasks[slices.IndexFunc(tasks, func(t Task) bool { return t.Name == s.Spec.Task })]
		from = s.Spec.ShotsPath
		if pool, err = task.read(file); err != nil {
			return fmt.Errorf("%s: %w", plain.Line(from), err)
		}
	}
	bySubject := map[string][]Question{}
	for _, q := range pool {
		bySubject[q.Subject] = append(bySubject[q.Subject], q)
	}
	random := newPython(1234)
	for _, q := range s.Questions {
		pool := bySubject[q.Subject]
		if len(pool) < n {
			of := ""
			if q.Subject != "" {
				of = " about " + plain.Line(q.Subject)
			}
			return fmt.Errorf("%s: it has %s%s: %d are needed", plain.Line(from), plain.Count(len(pool), "example"), of, n)
		}
		if s.recipe.from != drawnOf {
			s.shots = append(s.shots, pool[:n])
			continue
		}
		var drawn []Question
		for _, i := range random.sample(len(pool), n) {
			drawn = append(drawn, pool[i])
		}
		s.shots = append(s.shots, drawn)
	}
	if s.recipe.from == firstSelf {
		s.Notes = append(s.Notes, fmt.Sprintf("the examples of %s are the first %d questions of the very file: these are asked with their own answers in the prompt, as it does",
			s.Spec.Protocol, n))
	}
	return nil
}

// Len is how many asks there are: questions times samples.
func (s *Set) Len() int { return len(s.Questions) * s.Spec.Samples }

// textOfToken is more bytes than a token of usual texts has on average.
const textOfToken = 6

// Takes is how many tokens the longest prompt and its answer take together, at least: no tokenizer is at hand, so its text is counted.
func (s *Set) Takes() (most int) {
	for i := range s.Questions {
		a := s.Ask(i)
		text := len(a.Prompt)
		var turns []struct{ Content json.RawMessage }
		_ = json.Unmarshal(a.Messages, &turns) // what is none, the server tells
		for _, t := range turns {
			var whole string
			var parts []struct{ Text string }
			if json.Unmarshal(t.Content, &whole) != nil {
				_ = json.Unmarshal(t.Content, &parts)
			}
			for _, p := range parts {
				text += len(p.Text)
			}
			text += len(whole)
		}
		most = max(most, text/textOfToken+a.MaxTokens)
	}
	return most
}

// asked is the question of ask number i, as it is asked: its choices in order.
func (s *Set) asked(i int) Question {
	q := s.Questions[i%len(s.Questions)]
	if s.orders == nil {
		return q
	}
	choices := make([]string, len(q.Choices))
	right := q.Choices[q.right()]
	for to, from := range s.orders[i] {
		choices[to] = q.Choices[from]
	}
	if s.recipe.tidy != nil {
		for to := range choices {
			choices[to] = s.recipe.tidy(choices[to])
		}
		right = s.recipe.tidy(right)
	}
	q.Choices, q.Right = choices, []string{strconv.Itoa(slices.Index(choices, right))}
	return q
}

// Ask is number i of them, from 0.
func (s *Set) Ask(i int) Ask {
	q, r := s.asked(i), s.recipe
	if q.Asks != nil {
		a := *q.Asks
		a.Endpoint, a.MaxTokens, a.Whole = s.Spec.Endpoint, cmp.Or(a.MaxTokens, s.Spec.MaxTokens), i/len(s.Questions)%2 == 1
		if a.Temperature == nil {
			a.Temperature = r.temp
		}
		return a
	}
	a := Ask{Endpoint: s.Spec.Endpoint, MaxTokens: s.Spec.MaxTokens, Temperature: r.temp, TopP: r.topP, Seed: r.seed, Stop: r.stop, Tools: q.Tools}
	if slices.Contains(r.silent, a.Endpoint) {
		a.Temperature = nil
	}
	if r.extra != nil {
		a.Whole, a.Extra = true, r.extra(a.Endpoint)
	}
	if q.Context != nil {
		a.Messages = q.Context
		return a
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var turns []message
	var text strings.Builder
	if r.about != nil && (r.example == nil || s.shots != nil) {
		about := r.about(q)
		turns = append(turns, message{"system", about})
		text.WriteString(about)
	}
	if s.shots != nil {
		for _, shot := range s.shots[i%len(s.Questions)] {
			if r.example != nil {
				text.WriteString(r.example(shot))
				continue
			}
			turns = append(turns, message{"user", r.ask(shot)}, message{"assistant", r.told(shot)})
			text.WriteString(r.ask(shot) + " " + r.told(shot) + "\n\n")
		}
	}
	turns = append(turns, message{"user", r.ask(q)})
	text.WriteString(r.ask(q))
	switch {
	case a.Endpoint != load.Chat:
		a.Prompt = text.String()
		return a
	case !r.turns:
		turns = []message{{"user", text.String()}}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(turns) // texts have no mistakes
	a.Messages = json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
	return a
}

// Mark marks what was answered on number i, and makes of it what is stored.
func (s *Set) Mark(i int, r Reply) Answer {
	q := s.asked(i)
	a := Answer{Question: q.ID, Sample: i / len(s.Questions)}
	switch {
	case s.recipe.extra != nil:
		return markForced(a, r)
	case s.recipe.judge != nil:
		a.Mark, a.Extracted = s.recipe.judge(q, r)
		return stored(a, r)
	}
	if r.Error != "" {
		a.Mark = Failed
		return stored(a, r)
	}
	text := r.Text
	if s.recipe.reply != nil {
		text = s.recipe.reply(r)
	}
	found, ok, right := s.way.mark(q, text)
	a.Extracted = found
	switch {
	case right:
		a.Mark = Right
	case r.Finish == "length":
		a.Mark = Cut
	case !ok:
		a.Mark, a.Extracted = Invalid, ""
	default:
		a.Mark = Wrong
	}
	return stored(a, r)
}
