package measure

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/tokenizer"
)

const qwen = "../../testdata/tokenizers/qwen2-shaped.json"

// TestTokenizerFile: lengths are those of the model's own tokenizer, prompts
// travel as its token ids, and on chat as the text that those make.
func TestTokenizerFile(t *testing.T) {
	file, err := os.ReadFile(qwen)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	count := func(text string) int { return len(tok.Encode(text)) }
	label := fmt.Sprintf("qwen2-shaped.json sha256:%x", sha256.Sum256(file))
	question := strings.Repeat("How does the server decide what goes into a batch, and what waits? ", 20)
	ids := tok.Encode(question)
	gpt := written(t, "gpt.json", fmt.Sprintf(`[{"conversations": [{"from": "human", "value": %q}, {"from": "gpt", "value": "It depends."}]}]`, question))
	book := written(t, "book.txt", question)
	for _, c := range []struct {
		d    load.Dataset
		n    int
		want int // output tokens
	}{
		{load.Dataset{Kind: load.ShareGPT, Path: gpt}, len(ids), count("It depends.")},
		{load.Dataset{Kind: load.ShareGPT, Path: gpt, InputTokens: 50}, 50, count("It depends.")},
		{load.Dataset{Kind: load.Text, Path: book, InputTokens: 40}, 40, 7},
	} {
		c.d.Tokenizer = qwen
		for _, endpoint := range []string{load.Completions, load.Chat} {
			l, target := listening(t, false)
			w := load.Workload{Dataset: c.d, Requests: 1, Concurrency: 1, Endpoint: endpoint, IgnoreEOS: true}
			if c.d.Kind == load.Text {
				w.OutputTokens = 7
			}
			r := run(t, target, w)
			if s := r.Summary; s.Completed != 1 || r.Records[0].AskedInput != c.n || s.OutputTokens != int64(c.want) || s.Source.Tokenizer != label {
				t.Errorf("%s at %s: asked for %d and %d tokens, want %d and %d; counted by %q: %v", c.d.Kind, endpoint, r.Records[0].AskedInput, s.OutputTokens, c.n, c.want, s.Source.Tokenizer, s.ErrorSamples)
			}
			b := l.bodies()[0]
			if endpoint == load.Chat {
				if text := b.Messages[0].Content; !strings.Contains(question, text) || count(text) > c.n+1 || count(text) < c.n-1 {
					t.Errorf("%s: %d tokens of text %q", c.d.Kind, count(text), text)
				}
				continue
			}
			var sent []int32
			if err := json.Unmarshal(b.Prompt, &sent); err != nil || len(sent) != c.n {
				t.Errorf("%d ids, %v, want %d", len(sent), err, c.n)
			}
			if c.d.Kind == load.ShareGPT && !slices.Equal(sent, ids[:c.n]) {
				t.Errorf("ids %v, want %v", sent, ids[:c.n])
			}
		}
	}
	broken := written(t, "tokenizer.json", "{}")
	_, target := listening(t, true)
	for path, want := range map[string]string{broken: "tokenizer tokenizer.json: ", filepath.Join(t.TempDir(), "no.json"): "open data set file no.json"} {
		w := load.Workload{Dataset: load.Dataset{Kind: load.ShareGPT, Path: gpt, Tokenizer: path}, Requests: 1, Concurrency: 1, Endpoint: load.Completions}
		if _, err := Run(t.Context(), load.Job{Target: target, Workload: w}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
