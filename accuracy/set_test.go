package accuracy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/accuracy"
)

// own is a set of one question of one's own.
func own(t testing.TB, spec accuracy.Spec, line string) *accuracy.Set {
	t.Helper()
	spec.Task, spec.Path = accuracy.JSONL, "own.jsonl"
	set, err := accuracy.New(spec, strings.NewReader(line), nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestScorings(t *testing.T) {
	choose := `{"question":"Which?","choices":["red","green","blue"],"answer":"green"}`
	for _, c := range []struct {
		spec        accuracy.Spec
		line, reply string
		mark        accuracy.Mark
		extracted   string
	}{
		{accuracy.Spec{}, `{"question":"Capital?","answer":"Paris"}`, " Paris\n", accuracy.Right, "Paris"},
		{accuracy.Spec{}, `{"question":"Capital?","answer":["Paris","PARIS"]}`, "PARIS", accuracy.Right, "PARIS"},
		{accuracy.Spec{}, `{"question":"Capital?","answer":"Paris"}`, "paris", accuracy.Wrong, "paris"},
		{accuracy.Spec{}, `{"question":"Capital?","answer":"Paris"}`, " \n", accuracy.Invalid, ""},
		{accuracy.Spec{}, `{"question":"How many?","answer":7}`, "7", accuracy.Right, "7"},
		{accuracy.Spec{}, choose, "green", accuracy.Right, "green"},

		{accuracy.Spec{Scoring: "choice"}, choose, "Answer: B", accuracy.Right, "B"},
		{accuracy.Spec{Scoring: "choice"}, choose, "A is not it.\n**Answer:** (b)", accuracy.Right, "B"},
		{accuracy.Spec{Scoring: "choice"}, choose, `So $\boxed{\text{B}}$.`, accuracy.Right, "B"},
		{accuracy.Spec{Scoring: "choice"}, choose, "The answer is (B).", accuracy.Right, "B"},
		{accuracy.Spec{Scoring: "choice"}, choose, "The answer is B", accuracy.Right, "B"},
		{accuracy.Spec{Scoring: "choice"}, choose, "b.", accuracy.Right, "B"},
		{accuracy.Spec{Scoring: "choice"}, choose, "Answer: A? No. Answer: B", accuracy.Right, "B"},
		{accuracy.Spec{Scoring: "choice"}, choose, "Answer: C", accuracy.Wrong, "C"},
		{accuracy.Spec{Scoring: "choice"}, choose, "Answer: E", accuracy.Wrong, "E"},
		{accuracy.Spec{Scoring: "choice"}, choose, "The answer is a secret", accuracy.Invalid, ""},
		{accuracy.Spec{Scoring: "choice"}, choose, "Answer: because", accuracy.Invalid, ""},
		{accuracy.Spec{Scoring: "choice"}, choose, "", accuracy.Invalid, ""},

		{accuracy.Spec{Scoring: "numeric"}, `{"question":"?","answer":"1,234.50"}`, "It costs $1,234.5.", accuracy.Right, "1,234.5"},
		{accuracy.Spec{Scoring: "numeric"}, `{"question":"?","answer":-5}`, "It is −5 degrees", accuracy.Right, "−5"},
		{accuracy.Spec{Scoring: "numeric"}, `{"question":"?","answer":3}`, "16-3", accuracy.Right, "3"},
		{accuracy.Spec{Scoring: "numeric"}, `{"question":"?","answer":0.75}`, "3/4", accuracy.Right, "3/4"},
		{accuracy.Spec{Scoring: "numeric"}, `{"question":"?","answer":0.75}`, "#### .75 of the 100\n", accuracy.Wrong, "100"},
		{accuracy.Spec{Scoring: "numeric"}, `{"question":"?","answer":1500}`, `\boxed{1.5e3}, not 4`, accuracy.Right, "1.5e3"},
		{accuracy.Spec{Scoring: "numeric"}, `{"question":"?","answer":[1,2]}`, "2.", accuracy.Right, "2."},
		{accuracy.Spec{Scoring: "numeric"}, `{"question":"?","answer":1}`, "1/0", accuracy.Invalid, ""},
		{accuracy.Spec{Scoring: "numeric"}, `{"question":"?","answer":1}`, "one", accuracy.Invalid, ""},

		{accuracy.Spec{Scoring: "pattern", Pattern: `(?m)^Label: (\w+)$`}, `{"question":"?","answer":"ham"}`, "Label: spam\nLabel: ham", accuracy.Right, "ham"},
		{accuracy.Spec{Scoring: "pattern", Pattern: `yes|no`}, `{"question":"?","answer":"no"}`, "yes or no", accuracy.Right, "no"},
		{accuracy.Spec{Scoring: "pattern", Pattern: `yes|no`}, `{"question":"?","answer":"no"}`, "perhaps", accuracy.Invalid, ""},
		{accuracy.Spec{Scoring: "pattern", Pattern: `[A-Z]`}, choose, "B", accuracy.Right, "B"},
	} {
		a := own(t, c.spec, c.line).Mark(0, accuracy.Reply{Text: c.reply, Finish: "stop"})
		if a.Mark != c.mark || a.Extracted != c.extracted {
			t.Errorf("%s, %s: %q is %s (%q), want %s (%q)", c.spec.Scoring, c.line, c.reply, a.Mark, a.Extracted, c.mark, c.extracted)
		}
	}
}

func TestOwnAsk(t *testing.T) {
	set := own(t, accuracy.Spec{Scoring: "choice", Samples: 2}, `{"id":"q","question":"Which <one>?","choices":["red","green"],"answer":"B"}`)
	ask := set.Ask(1)
	want := `[{"role":"user","content":"Which <one>?\n\nA) red\nB) green\n\nThink as long as you need. Then end with a line \"Answer: X\", where X is one of the letters."}]`
	if got := string(ask.Messages); got != want || ask.MaxTokens != 4096 || *ask.Temperature != 0 || ask.Stop != nil {
		t.Errorf("asked %s with %d tokens at %v until %q, want %s", got, ask.MaxTokens, ask.Temperature, ask.Stop, want)
	}
	if set.Len() != 2 || set.Mark(1, accuracy.Reply{Text: "b"}).Sample != 1 {
		t.Errorf("%d asks, the second is sample %d: want 2 and 1", set.Len(), set.Mark(1, accuracy.Reply{}).Sample)
	}
	messages := `[{"role":"system","content":"Be short."},{"role":"user","content":"Capital?"}]`
	if got := string(own(t, accuracy.Spec{}, `{"messages":`+messages+`,"answer":"Paris"}`).Ask(0).Messages); got != messages {
		t.Errorf("asked %s, want %s", got, messages)
	}
}

// TestVLLM: its script is not in its package, so that no recording is at hand. Its extraction is SGLang's.
func TestVLLM(t *testing.T) {
	set := made(t, accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.VLLM, Shots: new(int)})
	ask := set.Ask(0)
	temperature, seed := 0.0, int64(42)
	want := accuracy.Ask{Endpoint: "completions", Prompt: "Question: Case 0: how many, if 2 & <3> are left?\nAnswer:", MaxTokens: 256,
		Temperature: &temperature, Seed: &seed, Stop: []string{"Question", "Assistant:", "<|separator|>"}}
	if diff := cmp.Diff(want, ask); diff != "" {
		t.Errorf("without examples (-want +got):\n%s", diff)
	}
	two := 2
	set = made(t, accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.VLLM, Shots: &two, Endpoint: "chat"})
	const example = `: how many, if 2 & <3> are left?\nAnswer: There are <<1+1=2>>2.\nSo it is so.\n#### `
	prompt := `[{"role":"user","content":"Question: Example 0` + example + `0\n\nQuestion: Example 1` + example + `1\n\nQuestion: Case 1: how many, if 2 & <3> are left?\nAnswer:"}]`
	if ask := set.Ask(1); string(ask.Messages) != prompt || ask.Temperature != nil {
		t.Errorf("in a chat it asks %s at %v, want %s and no temperature", ask.Messages, ask.Temperature, prompt)
	}
}

func TestMarks(t *testing.T) {
	gsm8k := func(protocol string) *accuracy.Set {
		return made(t, accuracy.Spec{Task: accuracy.GSM8K, Protocol: protocol})
	}
	for _, c := range []struct {
		name  string
		set   *accuracy.Set
		reply accuracy.Reply
		want  accuracy.Mark
	}{
		{"right, and then cut", gsm8k(accuracy.VLLM), accuracy.Reply{Text: "It is 18", Finish: "length"}, accuracy.Right},
		{"cut before its answer", gsm8k(accuracy.VLLM), accuracy.Reply{Text: "First, 16", Finish: "length"}, accuracy.Cut},
		{"cut, with nothing found", gsm8k(accuracy.LMEval13), accuracy.Reply{Text: "Well", Finish: "length"}, accuracy.Cut},
		{"wrong", gsm8k(accuracy.LMEval13), accuracy.Reply{Text: "#### 17", Finish: "stop"}, accuracy.Wrong},
		{"nothing found", gsm8k(accuracy.LMEval13), accuracy.Reply{Text: "Well", Finish: "stop"}, accuracy.Invalid},
		{"failed", gsm8k(accuracy.LMEval13), accuracy.Reply{Text: "#### 18", Error: "connection reset"}, accuracy.Failed},
		{"only reasoning", gsm8k(accuracy.LMEval13), accuracy.Reply{Reasoning: "#### 18", Finish: "stop"}, accuracy.Invalid},
		{"only reasoning, by a protocol that takes it", gsm8k(accuracy.InferenceX), accuracy.Reply{Reasoning: "#### 18", Finish: "stop"}, accuracy.Right},
		{"a text beside reasoning", gsm8k(accuracy.InferenceX), accuracy.Reply{Text: "17", Reasoning: "#### 18", Finish: "stop"}, accuracy.Invalid},
		{"reasoning cut", own(t, accuracy.Spec{}, `{"question":"?","answer":"a"}`), accuracy.Reply{Reasoning: "a", Finish: "length"}, accuracy.Cut},
	} {
		if got := c.set.Mark(0, c.reply); got.Mark != c.want {
			t.Errorf("%s: %s, want %s", c.name, got.Mark, c.want)
		}
	}
}

// TestStored: what is stored is bounded and printable, and marked by all that came.
func TestStored(t *testing.T) {
	long := strings.Repeat("é\x1b[31m\u202e", 1<<17)
	set := own(t, accuracy.Spec{Scoring: "numeric"}, `{"id":"\u001b[2J","question":"?","answer":7}`)
	a := set.Mark(0, accuracy.Reply{Text: "8 " + long + " 7", Reasoning: long, Finish: long, InputTokens: -1, Calls: make([]accuracy.Call, 1000)})
	if a.Mark != accuracy.Right || !a.Short || !strings.HasSuffix(a.Text, " 7") || !strings.HasPrefix(a.Text, "8 é") {
		t.Errorf("marked %s, short %v, %d bytes from %q to %q", a.Mark, a.Short, len(a.Text), a.Text[:10], a.Text[len(a.Text)-10:])
	}
	line, err := json.Marshal(a)
	if err != nil || len(line) > accuracy.MaxLine || len(a.Text) > accuracy.MaxText+20 || len(a.Calls) != accuracy.MaxCalls || a.InputTokens != 0 {
		t.Errorf("a line of %d bytes, a text of %d, %d calls, %d tokens: %v", len(line), len(a.Text), len(a.Calls), a.InputTokens, err)
	}
	tag := strings.Repeat("<", 1<<17) // of which JSON makes six bytes each
	b := set.Mark(0, accuracy.Reply{Text: tag, Reasoning: tag, Error: tag, Calls: slices.Repeat([]accuracy.Call{{Name: tag, Arguments: tag[:1024]}}, 64)})
	if line, err := json.Marshal(b); err != nil || len(line) > accuracy.MaxLine || len(b.Calls) == 0 || !b.Short {
		t.Errorf("a line of %d bytes, %d calls, short %v: %v", len(line), len(b.Calls), b.Short, err)
	}
	if strings.ContainsAny(a.Question+a.Text+a.Reasoning+a.Finish, "\x1b\u202e") {
		t.Errorf("not printable: %q", a.Question)
	}
}

func TestMistakes(t *testing.T) {
	good := `{"question":"How many?","answer":"#### 1"}` + "\n"
	for _, c := range []struct{ name, task, file, want string }{
		{"empty", accuracy.GSM8K, "", "own.jsonl: it is empty"},
		{"no questions", accuracy.JSONL, "\n\n", "own.jsonl: it has no questions"},
		{"Parquet", accuracy.MMLU, "PAR1\x00\x00", "own.jsonl: it is Parquet, which is not read. Make JSON lines of it: uv run"},
		{"too few", accuracy.GSM8K, good + "\n", "own.jsonl: it has 1 question, and gsm8k asks 1319: to ask only these, write questions = 1"},
		{"no JSON", accuracy.GSM8K, good + "{\n", "own.jsonl: line 2: it is no JSON object: "},
		{"another task's", accuracy.GSM8K, good + `{"problem":"x","answer":"1"}`, `own.jsonl: line 2: it has no "question"; a question of gsm8k is one of test.jsonl of `},
		{"an answer of none", accuracy.GSM8K, good + `{"question":"x","answer":"1"}`, `own.jsonl: line 2: "answer" has no "#### "`},
		{"an empty question", accuracy.GSM8K, `{"question":" ","answer":"#### 1"}`, `own.jsonl: line 1: "question" is empty`},
		{"not UTF-8", accuracy.GSM8K, "{\"question\":\"\xff\"}", "own.jsonl: line 1: it is not UTF-8"},
		{"ids twice", accuracy.JSONL, `{"id":"a","question":"?","answer":1}` + "\n\n" + `{"id":"a","question":"?","answer":1}`, `own.jsonl: line 3: its id "a" is that of line 1`},
		{"an object as answer", accuracy.JSONL, `{"question":"?","answer":{}}`, `own.jsonl: line 1: "answer" is neither text nor number`},
		{"no answers", accuracy.JSONL, `{"question":"?","answer":[]}`, `own.jsonl: line 1: "answer" is an empty list`},
		{"one choice", accuracy.JSONL, `{"question":"?","answer":"a","choices":["a"]}`, `own.jsonl: line 1: "choices" has 1 text: from 2 to 26 are possible`},
		{"none of the choices", accuracy.JSONL, `{"question":"?","answer":"c","choices":["a","b"]}`, `own.jsonl: line 1: its answer is none of its 2 choices`},
		{"a question twice", accuracy.JSONL, `{"question":"?","messages":[],"answer":"c"}`, `own.jsonl: line 1: it has both "question" and "messages"`},
		{"three choices", accuracy.MMLU, `{"question":"?","subject":"anatomy","choices":["a","b","c"],"answer":0}`, `own.jsonl: line 1: "choices" has 3 texts: it must have 4`},
		{"a letter beyond", accuracy.MMLUPro, `{"question_id":1,"question":"?","category":"law","options":["a","b"],"answer":"C"}`, `own.jsonl: line 1: its answer is none of its 2 choices`},
		{"a ragged table", accuracy.GPQA, "Question,Correct Answer\na,b\nc\n", "own.jsonl: line 2: it has no \"Incorrect Answer 1\""},
		{"a year's answer", accuracy.AIME, `{"problem":"?","answer":"1000"}`, `own.jsonl: line 1: the answer "1000" is no whole number from 0 to 999`},
		{"no box", accuracy.Math500, `{"problem":"?","solution":"5","answer":"5"}`, `own.jsonl: line 1: "solution" has no \boxed{…}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := accuracy.New(accuracy.Spec{Task: c.task, Path: "own.jsonl"}, strings.NewReader(c.file), strings.NewReader(good))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s…", err, c.want)
			}
		})
	}
	for _, c := range []struct {
		spec              accuracy.Spec
		file, shots, want string
	}{
		{accuracy.Spec{Task: "gsm"}, "", "", `there is no task "gsm": write one of jsonl, `},
		{accuracy.Spec{Task: accuracy.GSM8K, Protocol: "lm-eval"}, "", "", `there is no protocol "lm-eval": write one of hcl, lm-eval 0.4.12, `},
		{accuracy.Spec{Task: accuracy.MMLU, Protocol: accuracy.VLLM}, "", "", `protocol "vllm" has no task "mmlu": lm-eval 0.4.12, lm-eval 0.4.13, evalscope 1.14.1, sglang and simple-evals have it`},
		{accuracy.Spec{Task: accuracy.Math500, Protocol: accuracy.SimpleEvals}, "", "", `protocol "simple-evals" has a model judge the answers to task "math-500"`},
		{accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.InferenceX, Endpoint: "completions"}, "", "", `protocol "inferencex" asks task "gsm8k" by chat: "completions" is none of them`},
		{accuracy.Spec{Task: accuracy.GSM8K, Extract: "loose"}, "", "", `"loose" is no way to find an answer to task "gsm8k" by protocol "lm-eval 0.4.12": write strict-match or flexible-extract`},
		{accuracy.Spec{Task: accuracy.GSM8K, Scoring: "exact"}, "", "", `scoring is of the task jsonl`},
		{accuracy.Spec{Task: accuracy.JSONL, Scoring: "pattern"}, "", "", `scoring pattern needs a pattern`},
		{accuracy.Spec{Task: accuracy.JSONL, Scoring: "pattern", Pattern: "("}, "", "", `the pattern: error parsing regexp`},
		{accuracy.Spec{Task: accuracy.JSONL, Pattern: "a"}, "", "", `a pattern is of scoring pattern`},
		{accuracy.Spec{Task: accuracy.JSONL, Shots: new(3)}, "", "", `protocol "hcl" asks task "jsonl" without examples`},
		{accuracy.Spec{Task: accuracy.JSONL, Scoring: "choice"}, `{"question":"?","answer":"a"}`, "", `own.jsonl: line 1: it has no "choices"`},
		{accuracy.Spec{Task: accuracy.JSONL, Scoring: "numeric"}, `{"question":"?","answer":"a"}`, "", `own.jsonl: line 1: its answer "a" is no number`},
		{accuracy.Spec{Task: accuracy.JSONL, Scoring: "numeric"}, `{"question":"?","answer":"1","choices":["1","2"]}`, "", `own.jsonl: line 1: it has "choices", which scoring numeric is not about`},
		{accuracy.Spec{Task: accuracy.JSONL, Endpoint: "completions"}, `{"messages":[],"answer":"a"}`, "", `own.jsonl: line 1: it has "messages", which completions does not take`},
		{accuracy.Spec{Task: accuracy.GSM8K, Questions: 1}, good, good + good, `own-shots.jsonl: it has 2 examples: 5 are needed`},
		{accuracy.Spec{Task: accuracy.GSM8K, Questions: 1, Protocol: accuracy.SGLang}, good, "", `own.jsonl: it has 1 example: 5 are needed`},
	} {
		c.spec.Path, c.spec.ShotsPath = "own.jsonl", ""
		if c.shots != "" {
			c.spec.ShotsPath = "own-shots.jsonl"
		}
		if _, err := accuracy.New(c.spec, strings.NewReader(c.file), strings.NewReader(c.shots)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s…", c.spec, err, c.want)
		}
	}
}

// TestNotes: what makes a score say less is said.
func TestNotes(t *testing.T) {
	set := made(t, accuracy.Spec{Task: accuracy.GSM8K, Protocol: accuracy.SGLang})
	if len(set.Notes) != 1 || !strings.Contains(set.Notes[0], "asked with their own answers in the prompt") || !strings.Contains(set.Ask(2).Prompt, "Case 2: how many, if 2 & <3> are left?\nAnswer: There") {
		t.Errorf("SGLang's examples leak, which is said so: %q", set.Notes)
	}
	if set := made(t, accuracy.Spec{Task: accuracy.AIME}); len(set.Notes) != 1 || !strings.Contains(set.Notes[0], "8 of each are usual") {
		t.Errorf("one sample of each of AIME's questions: %q", set.Notes)
	}
	if set := made(t, accuracy.Spec{Task: accuracy.GSM8K}); set.Notes != nil {
		t.Errorf("notes on GSM8K: %q", set.Notes)
	}
}

// TestTakes: the longest prompt and its answer are told by its text, of whatever form, and not by images in it.
func TestTakes(t *testing.T) {
	long := strings.Repeat("word ", 600)
	for _, x := range []struct{ line, endpoint string }{
		{`{"question": "` + long + `", "answer": "7"}`, "completions"},
		{`{"question": "` + long + `", "answer": "7"}`, "chat"},
		{`{"messages": [{"role": "user", "content": [{"type": "text", "text": "` + long + `"}, {"type": "image_url", "image_url": {"url": "data:` + long + `"}}]}], "answer": "7"}`, "chat"},
	} {
		s, err := accuracy.New(accuracy.Spec{Task: accuracy.JSONL, Path: "q", Endpoint: x.endpoint, MaxTokens: 100}, strings.NewReader(`{"question": "?", "answer": "7"}`+"\n"+x.line), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Takes(); got != 600 {
			t.Errorf("%.30s… by %s takes %d tokens, want 600", x.line, x.endpoint, got)
		}
	}
}
