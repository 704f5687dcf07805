package accuracy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	"hclbench/load"
)

// The protocols: whose prompts, sampling and extraction. The versions are those that the recordings are of.
const (
	Own         = "hcl"
	LMEval12    = "lm-eval 0.4.12"
	LMEval13    = "lm-eval 0.4.13"
	VLLM        = "vllm"
	SGLang      = "sglang"
	InferenceX  = "inferencex"
	SimpleEvals = "simple-evals"
	EvalScope   = "evalscope 1.14.1"
)

// Protocols are the names of all of them.
func Protocols() []string {
	return []string{Own, LMEval12, LMEval13, VLLM, SGLang, InferenceX, SimpleEvals, EvalScope}
}

// Scorings are the ways to score jsonl: how an answer is found, and when it is right.
func Scorings() []string {
	var names []string
	for _, x := range scorings {
		names = append(names, x.name)
	}
	return names
}

// source says where the examples of a protocol come from.
type source int

// The sources.
const (
	noShots   source = iota
	firstOf          // the first of the file of examples; of its subject, where it has subjects
	drawnOf          // drawn from the file of examples anew for each question, with seed 1234
	firstSelf        // the first of the file of questions itself
	beside           // there are none, and the task needs a second file
)

// recipe is how a protocol asks a task. It is all there is to know of the pair, and a pair that has none does not exist.
type recipe struct {
	task, protocol string

	endpoints []string // that it has, the first by default
	samples   int      // of each question by default; 0: one
	questions int      // the first so many by default; 0: all
	maxTokens int
	temp      *float64
	topP      *float64
	seed      *int64
	stop      []string
	// silent are endpoints whose requests say no temperature.
	silent []string

	from    source
	shots   int                                                 // by default
	turns   bool                                                // in a chat, examples are turns, and the description is the system's message
	about   func(Question) string                               // stands before all; nil: nothing
	ask     func(Question) string                               // the question
	told    func(Question) string                               // the answer of an example
	example func(Question) string                               // an example, where it is more than the question and its answer: then the description stands before examples alone; nil: it is not
	order   func(s *Set, n, samples int) [][]int                // of the choices of each ask; nil: as the file has them
	tidy    func(choice string) string                          // what becomes of the text of a choice; nil: nothing
	reply   func(Reply) string                                  // what of a reply counts; nil: its text
	ways    []extraction                                        // how an answer is found: the first by default
	judge   func(Question, Reply) (mark Mark, extracted string) // marks all of a reply, failures too; nil: its text, by a way
	extra   func(endpoint string) map[string]json.RawMessage    // what has a server tell of a text that is given, in one piece; nil: it is to answer
}

// extraction is one way to find the answer of a reply and to hold it against the right one.
type extraction struct {
	name string
	// mark finds the answer in a text; ok is false when there is none.
	mark func(q Question, text string) (found string, ok, right bool)
}

func p[T any](v T) *T { return &v }

const simpleChoice = "Answer the following multiple choice question. The last line of your response should be of the following format: " +
	"'Answer: $LETTER' (without quotes) where LETTER is one of ABCD. Think step by step before answering.\n\n"

var recipes = slices.Concat(
	[]recipe{{task: JSONL, protocol: Own, endpoints: []string{load.Chat, load.Completions}, maxTokens: 4096, temp: p(0.0),
		ask: func(q Question) string {
			if q.Choices == nil {
				return q.Text
			}
			return q.Text + "\n\n" + lettered(q.Choices, "", ") ") + "\nThink as long as you need. Then end with a line " +
				`"Answer: X", where X is one of the letters.`
		},
		ways: scorings}},
	[]recipe{
		// Each request is made twice: its answer comes as a stream, and then whole.
		{task: ToolCalls, protocol: Own, endpoints: []string{load.Chat}, samples: 2, maxTokens: 4096, temp: p(0.0), judge: markCall, ways: []extraction{{name: "schema"}}},
		{task: PromptCounts, protocol: Own, endpoints: []string{load.Chat}, maxTokens: 1, temp: p(0.0), from: beside, judge: markPrompt, ways: []extraction{{name: "count"}}},
		{task: NextToken, protocol: Own, endpoints: []string{load.Completions, load.Generate}, maxTokens: 1, temp: p(0.0), extra: forcing,
			ask: func(q Question) string { return q.Text }, ways: []extraction{{name: "logprobs"}}},
	},
	lmEval(LMEval12), lmEval(LMEval13), evalScope,
	[]recipe{
		{task: GSM8K, protocol: VLLM, endpoints: []string{load.Completions, load.Chat}, maxTokens: 256, temp: p(0.0), seed: p(int64(42)),
			silent: []string{load.Chat}, stop: []string{"Question", "Assistant:", "<|separator|>"},
			from: firstOf, shots: 5, ask: questionAnswer, told: worked, ways: lastNumber},
		{task: GSM8K, protocol: SGLang, endpoints: []string{load.Generate, load.Completions}, questions: 200, maxTokens: 512, temp: p(0.0),
			stop: []string{"Question", "Assistant:", "<|separator|>"},
			from: firstSelf, shots: 5, ask: questionAnswer, told: worked, ways: lastNumber},
		{task: MMLU, protocol: SGLang, endpoints: []string{load.Chat}, maxTokens: 2048, temp: p(0.0), topP: p(1.0),
			ask: simpleChoices, ways: simpleLetter},
		{task: GPQA, protocol: SGLang, endpoints: []string{load.Chat}, maxTokens: 2048, temp: p(0.0), topP: p(1.0),
			order: permuted(0), ask: simpleChoices, ways: simpleLetter},

		{task: GSM8K, protocol: InferenceX, endpoints: []string{load.Chat}, maxTokens: 12288, temp: p(0.0), topP: p(1.0), seed: p(int64(1234)),
			stop: []string{"</s>", "<|im_end|>"}, from: drawnOf, shots: 5, turns: true, reply: textOrReasoning,
			ask: func(q Question) string {
				return "Question: " + q.Text + "\nEnd your response with the answer on the last line, formatted as: #### [number]\nAnswer:"
			},
			told: worked, ways: gsm8kWays(-1)},
		{task: GPQA, protocol: InferenceX, endpoints: []string{load.Chat}, maxTokens: 12288, temp: p(0.0), topP: p(1.0), seed: p(int64(1234)),
			stop: []string{"\n\n", "</s>"}, samples: 2, order: permuted(3407), reply: textOrReasoning,
			ask: func(q Question) string {
				return q.Text + "\n\n" + lettered(q.Choices, "(", ") ") + "\nExpress your final answer as the corresponding option 'A', 'B', 'C', or 'D'.\n"
			},
			ways: []extraction{{"extract_abcd", standaloneLetter}}},

		{task: MMLU, protocol: SimpleEvals, endpoints: []string{load.Chat}, maxTokens: 2048, temp: p(0.5), turns: true,
			about: assistant, ask: simpleChoices, ways: []extraction{{"answer", multilingualLetter}}},
		{task: GPQA, protocol: SimpleEvals, endpoints: []string{load.Chat}, maxTokens: 2048, temp: p(0.5), turns: true, samples: 10,
			about: assistant, order: permuted(0), ask: simpleChoices, ways: simpleLetter},
	})

// lmEval is how lm-evaluation-harness asks a server, by its models local-completions and local-chat-completions.
func lmEval(version string) []recipe {
	both := []string{load.Completions, load.Chat}
	greedy := func(r recipe) recipe {
		r.protocol, r.endpoints, r.temp, r.seed, r.turns = version, both, p(0.0), p(int64(1234)), true
		return r
	}
	return []recipe{
		greedy(recipe{task: GSM8K, maxTokens: 256, stop: []string{"Question:", "</s>", "<|im_end|>"},
			from: drawnOf, shots: 5, ask: questionAnswer, told: worked, ways: gsm8kWays(0)}),
		greedy(recipe{task: MMLU, maxTokens: 256, stop: []string{"</s>", "\n"}, from: firstOf,
			about: func(q Question) string {
				return "The following are multiple choice questions (with answers) about " + strings.ReplaceAll(q.Subject, "_", " ") + ".\n\n"
			},
			ask: func(q Question) string {
				return strip(q.Text) + "\n" + lettered(q.Choices, "", ". ") + "Answer:"
			},
			told: Question.letter,
			ways: []extraction{{"get_response", func(q Question, text string) (string, bool, bool) {
				line, _, _ := strings.Cut(text, "\n")
				found := strip(line)
				return found, found != "", unpunctuated(found) == unpunctuated(q.letter())
			}}}}),
		greedy(recipe{task: MMLUPro, maxTokens: 2048, stop: []string{"Question:"}, from: firstOf, shots: 5,
			about: func(q Question) string {
				return "The following are multiple choice questions (with answers) about " + q.Subject + ". Think step by step and then finish your " +
					"answer with \"the answer is (X)\" where X is the correct letter choice.\n"
			},
			ask: func(q Question) string {
				choices := slices.Clone(q.Choices[:min(len(q.Choices), 10)])
				for i := range choices {
					choices[i] = strip(choices[i])
				}
				return "Question:\n" + q.Text + "\nOptions:\n" + lettered(choices, "", ". ") + "Answer: Let's think step by step."
			},
			told: func(q Question) string {
				return strings.ReplaceAll(q.Worked, "A: Let's think step by step. ", "")
			},
			ways: []extraction{{"custom-extract", func(q Question, text string) (string, bool, bool) {
				found, ok := matched(answerIs, 0, text)
				return found, ok, unpunctuated(found) == unpunctuated(q.letter())
			}}}}),
		greedy(recipe{task: GPQA, maxTokens: 256, stop: []string{"</s>"}, order: shuffled, tidy: func(choice string) string {
			return strings.ReplaceAll(strings.ReplaceAll(strip(choice), " [title]", ". "), "  ", " ")
		},
			ask: func(q Question) string {
				return "What is the correct answer to this question:" + q.Text + "\nChoices:\n" + lettered(q.Choices, "(", ") ") +
					"Let's think step by step: "
			},
			ways: []extraction{{"strict-match", gpqaStrict}, {"flexible-extract", gpqaFlexible(version == LMEval13)}}}),
		greedy(recipe{task: AIME, maxTokens: 32768, stop: []string{"Question:", "</s>", "<|im_end|>", "<|eot_id|>"},
			ask: questionAnswer, ways: []extraction{{"none", aimeAnswer}}}),
		greedy(recipe{task: Math500, maxTokens: 256, stop: []string{"Problem:"},
			ask:  func(q Question) string { return "Problem: " + q.Text + "\nAnswer:" },
			ways: []extraction{{"none", hendrycksAnswer}}}),
	}
}

func questionAnswer(q Question) string { return "Question: " + q.Text + "\nAnswer:" }

func worked(q Question) string { return q.Worked }

func assistant(Question) string { return "You are a helpful assistant." }

func simpleChoices(q Question) string {
	return simpleChoice + q.Text + "\n\n" + strings.TrimSuffix(lettered(q.Choices, "", ") "), "\n")
}

func textOrReasoning(r Reply) string {
	if r.Text == "" {
		return r.Reasoning
	}
	return r.Text
}

// lettered are choices, one to a line, each with its letter between before and after.
func lettered(choices []string, before, after string) string {
	var b strings.Builder
	for i, c := range choices {
		b.WriteString(before + letters[i:i+1] + after + c + "\n")
	}
	return b.String()
}

// permuted is the order that simple-evals draws for the choices of each ask: `random.Random(seed).sample(range(4), 4)`.
func permuted(seed uint64) func(*Set, int, int) [][]int {
	return func(s *Set, n, samples int) [][]int {
		random, orders := newPython(seed), make([][]int, n*samples)
		for i := range orders {
			orders[i] = random.sample(4, 4)
		}
		return orders
	}
}

// rightLast is an order of choices of which the right one is the last, where the file has it first.
func rightLast(order []int) []int {
	for i, x := range order {
		order[i] = (x + 1) % 4
	}
	return order
}

// shuffled is the order of lm-eval: it puts the right choice last, and shuffles with Python's own generator, which it seeds with 0. Samples
// of a question have the same order, as the harness has repeats.
func shuffled(_ *Set, n, samples int) [][]int {
	random, orders := newPython(0), make([][]int, n*samples)
	for i := range n {
		order := rightLast(random.shuffle(4))
		for sample := range samples {
			orders[sample*n+i] = order
		}
	}
	return orders
}

// evalScope is how EvalScope asks a server; it says no bound of an answer, and hcl says one.
var evalScope = []recipe{
	{task: MMLU, protocol: EvalScope, endpoints: []string{load.Chat}, maxTokens: 16384, temp: p(0.0), from: firstOf, shots: 5,
		about: func(Question) string { return "Here are some examples of how to answer similar questions:\n\n" },
		example: func(q Question) string {
			return q.Text + "\n" + lettered(q.Choices, "", ") ") + "ANSWER: " + q.letter() + "\n\n"
		},
		ask: scopeChoices, ways: scopeLetter},
	{task: MMLUPro, protocol: EvalScope, endpoints: []string{load.Chat}, maxTokens: 16384, temp: p(0.0), from: firstOf, shots: 5,
		about: func(q Question) string {
			return "The following are multiple choice questions (with answers) about " + strings.ToLower(q.Subject) + ". Think step by step and then finish " +
				"your answer with 'ANSWER: [LETTER]' (without quotes) where [LETTER] is the correct letter choice.\n\n"
		},
		example: func(q Question) string {
			way := strings.ReplaceAll(q.Worked, "The answer is", "ANSWER:")
			letter, _, _ := strings.Cut(way[strings.LastIndex(way, "ANSWER:")+len("ANSWER:"):], ".")
			letter = strings.Trim(strings.Trim(strip(letter), "("), ")")
			return "Question:\n" + q.Text + "\nOptions:\n" + lettered(q.Choices, "", " ") + strings.ReplaceAll(way, "ANSWER: ("+letter+")", "ANSWER: "+letter) + "\n\n"
		},
		ask: func(q Question) string {
			return scopeLine(q) + "Question:\n" + q.Text + "\nOptions:\n" + lettered(q.Choices, "", ") ")
		},
		ways: scopeLetter},
	{task: GPQA, protocol: EvalScope, endpoints: []string{load.Chat}, maxTokens: 16384, temp: p(0.0), ask: scopeChoices, ways: scopeLetter,
		tidy: strip, order: func(s *Set, n, samples int) [][]int { // each question is shuffled by its own text
			orders := make([][]int, n*samples)
			for i := range orders {
				sum := sha256.Sum256([]byte(strip(s.Questions[i%n].Text)))
				orders[i] = rightLast(newPython(binary.BigEndian.Uint64(sum[:])).shuffle(4))
			}
			return orders
		}},
}

func scopeLine(q Question) string {
	return "Answer the following multiple choice question. The last line of your response should be of the following format: 'ANSWER: [LETTER]' (without " +
		"quotes) where [LETTER] is one of " + strings.Join(strings.Split(letters[:len(q.Choices)], ""), ",") + ". Think step by step before answering.\n\n"
}

func scopeChoices(q Question) string {
	return scopeLine(q) + q.Text + "\n\n" + strings.TrimSuffix(lettered(q.Choices, "", ") "), "\n")
}
