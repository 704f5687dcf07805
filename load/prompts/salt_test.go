package prompts

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hclbench/load"
)

// TestSalt: each prompt begins with random tokens of its own, behind what a system says; the rest
// is as it was. Whoever sends the load again sends the same.
func TestSalt(t *testing.T) {
	rows := `{"prompt":"one two","output_tokens":3}` + "\n" + `{"prompt":"one two","output_tokens":3}`
	lists := `{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"one two"}],"output_tokens":3}` + "\n" +
		`{"messages":[{"role":"user","content":[{"type":"image_url","n":12345678901234567890}]}],"output_tokens":3}` + "\n" + `{"prompt":"one two","output_tokens":3}`
	salt := `((?:[a-z]+ ){11})`
	for _, c := range []struct{ name, kind, endpoint, text, want string }{
		{"ids", load.JSONL, load.Completions, rows, `^\{"max_tokens":3,"prompt":\[((?:\d+,){5})1000,1001\]\}$`},
		{"texts", load.JSONL, load.Chat, rows, `^\{"max_tokens":3,"messages":\[\{"content":"` + salt + `one two","role":"user"\}\]\}$`},
		{"messages", load.JSONL, load.Chat, lists, `^\{"max_tokens":3,"messages":\[(?:\{"content":"be brief","role":"system"\},)?\{(?:"role":"user",)?"content":` +
			`(?:\[\{"type":"text","text":)?"` + salt + `(?:one two|"\},\{"type":"image_url","n":12345678901234567890\}\])"?(?:,"role":"user")?\}\]\}$`},
		{"its own mark", load.JSONL, load.Chat, `{"messages":[{"role":"user","content":"say \\u0000salt"}],"output_tokens":3}`,
			`"content":"` + salt + `say \\\\u0000salt"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := load.Dataset{Kind: c.kind, Path: written(t, "f", c.text), Salt: true}
			n := strings.Count(c.text, "\n") + 1
			sent := bodies(t, d, c.endpoint, 4*n) // each four times
			if again := bodies(t, d, c.endpoint, 4*n); !slices.Equal(sent, again) {
				t.Errorf("sent again, they are others: %s", again)
			}
			seen := map[string]bool{}
			for _, body := range sent {
				m := regexp.MustCompile(c.want).FindStringSubmatch(body)
				if m == nil {
					t.Errorf("%s is not %s", body, c.want)
				} else if seen[m[1]] {
					t.Errorf("the salt %s comes twice", m[1])
				} else {
					seen[m[1]] = true
				}
			}
		})
	}
}

// TestSaltOfConversations: one for each, behind the system's message, in all of its requests.
func TestSaltOfConversations(t *testing.T) {
	talk := `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"one"},{"role":"assistant","content":"a"},{"role":"user","content":"two"},{"role":"assistant","content":"c"}]}`
	got := bodies(t, load.Dataset{Kind: load.Conversation, Path: written(t, "f", talk), Salt: true}, load.Chat, 4)
	salts := map[string]int{}
	for _, body := range got {
		var x asked
		if err := json.Unmarshal([]byte(body), &x); err != nil {
			t.Fatal(err)
		}
		first := x.Messages[1].Content
		if x.Messages[0].Content != "s" || len(strings.Fields(first)) != saltWords+1 || !strings.HasSuffix(first, " one") || len(x.Messages) > 2 && x.Messages[3].Content != "two" {
			t.Errorf("messages %q", x.Messages)
		}
		salts[first]++
	}
	if len(salts) != 2 {
		t.Errorf("two conversations of two requests each begin with %v", salts)
	}
}

// TestSaltCounts: the prompt is longer by its salt, repeated prompts are like no other, and what
// has no place for a salt is said.
func TestSaltCounts(t *testing.T) {
	d := load.Dataset{Kind: load.JSONL, Path: written(t, "f", `{"prompt":"one two","output_tokens":3}`), Salt: true}
	warm, sent, source := requests(t, job(load.Workload{Dataset: d, Requests: 3}), true)
	if sent[0].lengths != [2]int{2 + saltIDs, 3} || source.Repeated != 0 || source.Prompts != 1 {
		t.Errorf("lengths %v, %+v", sent[0].lengths, source)
	}
	if slices.Contains(promptsOf(sent), warm[0].prompt()) {
		t.Error("the warm-up sends a prompt of the measurement")
	}
	for text, want := range map[string]string{
		`{"messages":[{"role":"system","content":"a"}],"output_tokens":3}`: "no user message to put the salt in",
		`{"messages":[{"role":"user","content":null}],"output_tokens":3}`:  "message 1 has no text to put the salt in",
	} {
		d.Path = written(t, "f", text)
		if err := CheckInputs(job(load.Workload{Dataset: d, Endpoint: load.Chat})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}
