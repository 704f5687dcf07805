package accuracy

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
)

// ofReal is the tokenizer_config.json of the model that real engines serve in tests.
const ofReal = `{"tokenizer_class":"PreTrainedTokenizerFast","bos_token":"<|begin_of_text|>","eos_token":{"content":"<|end_of_text|>","lstrip":false},` +
	`"chat_template":"{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "}`

// promptSet is the task prompt-tokens of a template.
func promptSet(t *testing.T, template string) (*Set, error) {
	t.Helper()
	tokens, err := os.Open("../testdata/tokenizers/llama3-shaped.json")
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	return New(Spec{Task: "prompt-tokens", Path: "tokenizer_config.json", ShotsPath: "tokenizer.json"}, strings.NewReader(template), tokens)
}

// TestPromptTokens: the counts of template and tokenizer are those of real engines, and another template is found.
func TestPromptTokens(t *testing.T) {
	s, err := promptSet(t, ofReal)
	if err != nil || len(s.Notes) > 0 || !s.Spec.NeedsShots() {
		t.Fatalf("%v, %q", err, s.Notes)
	}
	// what vLLM 0.32.0 counts that serves this model, and with a template that begins with its bos_token and trims what users say
	real := map[string]int{"user": 12, "system": 21, "turns": 21, "blanks": 16, "letters": 37}
	wrong := map[string]int{"user": 13, "system": 22, "turns": 22, "blanks": 13, "letters": 38}
	var marks, others []Mark
	for i := range s.Len() {
		ask := s.Ask(i)
		if ask.Endpoint != load.Chat || ask.MaxTokens != 1 || len(ask.Messages) == 0 || ask.Whole {
			t.Errorf("%+v", ask)
		}
		marks = append(marks, s.Mark(i, Reply{Text: "a", Finish: "length", InputTokens: real[s.Questions[i].ID]}).Mark)
		others = append(others, s.Mark(i, Reply{Text: "a", Finish: "length", InputTokens: wrong[s.Questions[i].ID]}).Mark)
	}
	if diff := cmp.Diff([]Mark{Right, Right, Right, Right, Right}, marks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Mark{Wrong, Wrong, Wrong, Wrong, Wrong}, others); diff != "" {
		t.Errorf("by another template (-want +got):\n%s", diff)
	}
	if got := s.Mark(0, Reply{Text: "a"}); got.Mark != Invalid {
		t.Errorf("not counted: %+v", got)
	}
	if got := s.Mark(0, Reply{Error: "status 500"}); got.Mark != Failed {
		t.Errorf("failed: %+v", got)
	}
}

// TestTemplates: what a file may be, and what is said of one that is none.
func TestTemplates(t *testing.T) {
	const several = `{"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"{% for m in messages %}{{ m.content }}{% endfor %}"}]}`
	for text, want := range map[string]string{
		several: "",
		"{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}assistant{% endif %}": "",
		"{{ bos_token }}{{ messages[0].content }}":                                                             "it uses bos_token, which the file does not say: name the model's tokenizer_config.json",
		`{"bos_token":"<s>","chat_template":"{{ eos_token }}"}`:                                                "it uses eos_token",
		`{"bos_token":"<s>"}`:                  `the file has no "chat_template"`,
		`{"chat_template":[{"name":"x"}]}`:     `the file has no "chat_template"`,
		"{% for m in messages %}":              "the chat template: ",
		"{{ raise_exception('no messages') }}": "the chat template takes no messages",
	} {
		s, err := promptSet(t, text)
		switch {
		case want == "" && (err != nil || len(s.Questions) != 5):
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	s, err := promptSet(t, "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}{{ messages[0].content }}")
	if err != nil || len(s.Questions) != 4 || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "no system here") {
		t.Errorf("a template without system messages: %v, %q", err, s.Notes)
	}
	if _, err := New(Spec{Task: "prompt-tokens", Path: "a"}, strings.NewReader(ofReal), nil); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("no tokenizer: %v", err)
	}
	if _, err := New(Spec{Task: "prompt-tokens", Path: "a"}, strings.NewReader(ofReal), strings.NewReader("{}")); err == nil || !strings.Contains(err.Error(), "the tokenizer") {
		t.Errorf("a tokenizer that is none: %v", err)
	}
}

// TestRender: a template sees what a server's does: members in their order, and the special tokens of the file.
func TestRender(t *testing.T) {
	tmpl, err := readTemplate(strings.NewReader(`{"bos_token":"<s>","eos_token":{"content":"</s>"},"pad_token":null,` +
		`"chat_template":"{{ bos_token }}{{ messages | tojson }}{{ eos_token }}{% if tools %}T{% endif %}{{ pad_token is defined }}"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := tmpl.render([]byte(`[{"role":"user","content":"a","and":[1,2.5,true,null,{"z":1,"a":2}]}]`))
	if want := `<s>[{"role": "user", "content": "a", "and": [1, 2.5, true, null, {"z": 1, "a": 2}]}]</s>False`; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestComparePrompts(t *testing.T) {
	answers := func(counts ...int) (all []Answer) {
		for i, n := range counts {
			all = append(all, Answer{Question: string(rune('a' + i)), InputTokens: n}, Answer{Question: string(rune('a' + i)), Sample: 1, InputTokens: n})
		}
		return all
	}
	got := ComparePrompts(answers(5, 7, 9, 0), answers(5, 8, 10, 4, 6))
	if want := (PromptTokens{1, 2, "question b has 8 tokens, and 7 of the baseline's"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestToolCalls: the task asks each request twice, as a stream and whole, and marks what comes.
func TestToolCalls(t *testing.T) {
	s, err := New(Spec{Task: "tool-calls", Path: "samples.jsonl"}, strings.NewReader(`{"messages":[{"role":"user","content":"a"}],"temperature":0.6,"max_tokens":99,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}
{"messages":[{"role":"user","content":"b"}],"thinking":{"type":"disabled"}}
`), nil)
	if err != nil || s.Len() != 4 || len(s.Notes) > 0 {
		t.Fatalf("%d asks, %v, %q", s.Len(), err, s.Notes)
	}
	first, other, again := s.Ask(0), s.Ask(1), s.Ask(2)
	if first.Whole || !again.Whole || first.Endpoint != load.Chat || first.MaxTokens != 99 || *first.Temperature != 0.6 || len(first.Tools) == 0 {
		t.Errorf("%+v, %+v", first, again)
	}
	if other.MaxTokens != 4096 || *other.Temperature != 0 || string(other.Extra["thinking"]) != `{"type":"disabled"}` {
		t.Errorf("%+v", other)
	}
	got := s.Mark(2, Reply{Calls: []Call{{"f", "{}"}}, Finish: "tool_calls", InputTokens: 3})
	if diff := cmp.Diff(Answer{Question: "1", Sample: 1, Mark: Right, Extracted: "call f", Calls: []Call{{"f", "{}"}}, Finish: "tool_calls", InputTokens: 3}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := New(Spec{Task: "tool-calls", Path: "samples.jsonl"}, strings.NewReader("{\"messages\":[]}\n"), nil); err == nil || !strings.Contains(err.Error(), "samples.jsonl: line 1: ") {
		t.Errorf("%v", err)
	}
}

// TestReadingsOfCallsAndPrompts: a candidate whose prompts are others, whose calls are bad, and that calls where two starts of the baseline
// do not, is odd in all three, and the baseline's own second start in none.
func TestReadingsOfCallsAndPrompts(t *testing.T) {
	answers := func(tokens int, calls func(i int) bool, valid bool) (all []Answer) {
		for i := range 200 {
			a := Answer{Question: fmt.Sprint(i), Mark: Right, Extracted: "no call", Finish: "stop", Text: "a", InputTokens: tokens, OutputTokens: 9}
			if calls(i) {
				a.Extracted, a.Finish, a.Calls, a.Text = "call f", "tool_calls", []Call{{"f", "{}"}}, ""
				if !valid && i%4 == 0 {
					a.Mark, a.Extracted = Wrong, "bad call of f"
				}
			}
			all = append(all, a)
		}
		return all
	}
	base := answers(30, func(i int) bool { return i%2 == 0 }, true)
	second := answers(30, func(i int) bool { return i%2 == 0 && i != 8 || i == 9 }, true)
	broken := answers(31, func(i int) bool { return i%2 == 0 && i > 40 }, false)
	if got := ReadAgainst(base, second, second, true, false); len(got.Odd) > 0 || got.Prompts.Same != 200 || got.Calls.Trigger != (Trigger{99, 1, 1, 99}) || got.Calls.F1 != 0.99 {
		t.Errorf("the same again: %q, %+v, %+v", got.Odd, got.Prompts, got.Calls)
	}
	got := ReadAgainst(base, broken, second, true, false).Odd
	want := []string{
		"the prompts of 200 of 200 questions have another number of tokens than the baseline's (question 0 has 31 tokens, and 30 of the baseline's): its chat template or its tokenizer is another, or somebody adds to them",
		"50.6 % of its answers that call a tool call one that was offered, with valid arguments, and 100.0 % of the baseline's",
		"it calls tools where the baseline does not, or the other way round, in 21 of 200 answers (F1 0.88), and two starts of the baseline in 2 of 200",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := ReadAgainst(base, broken, nil, true, false).Odd; len(got) != 2 {
		t.Errorf("without a second start of the baseline: %q", got)
	}
	text := []Answer{{Question: "a", Mark: Right, Text: "a"}}
	if got := ReadAgainst(text, text, nil, true, false); got.Calls != nil || got.Prompts != nil {
		t.Errorf("of a text: %+v, %+v", got.Calls, got.Prompts)
	}
}
