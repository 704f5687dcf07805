package prompts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"hclbench/load"
)

// written is a file with a text.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSharedPrefixLengths: SGLang's rule for ranges, U{max(⌊L·r⌋,1) … L}, of
// prefixes by group and of questions and answers by prompt.
func TestSharedPrefixLengths(t *testing.T) {
	w := load.Workload{Dataset: load.Dataset{Kind: load.SharedPrefix, Groups: 2000, PromptsPerGroup: 2, PrefixTokens: 4, QuestionTokens: 200, RangeRatio: new(0.5)}, OutputTokens: 6}
	p := newSharedPrompts(job(w), ForPrompt)
	outputs := map[int]int{}
	prefixes := map[int]int{}
	for i := range 4000 {
		b, a := p.append(nil, i)
		if n := bytes.Count(b, []byte(",")) + 1; n != a.input {
			t.Fatalf("%d ids, said to be %d", n, a.input)
		}
		if a.input < 2+100 || a.input > 4+200 {
			t.Fatalf("input length %d", a.input)
		}
		outputs[a.output]++
		prefixes[length(p.prefix, Random(p.seed^scramble(p.use), forGroup, uint64(p.order[i]/2)))]++
	}
	for n := 3; n <= 6; n++ { // a quarter of 4000 each; four standard errors are 110
		if outputs[n] < 890 || outputs[n] > 1110 {
			t.Errorf("output length %d drawn %d times of 4000, want about 1000", n, outputs[n])
		}
	}
	for n := 2; n <= 4; n++ { // a third of 2000, twice each
		if prefixes[n] < 1150 || prefixes[n] > 1520 || prefixes[n]%2 != 0 {
			t.Errorf("prefix length %d drawn %d times of 4000, want about 1333", n, prefixes[n])
		}
	}
}

// TestPromptsWithoutServer: the prompts of a batch are those that a load of the same
// seed would send, or it is said why they cannot be made.
func TestPromptsWithoutServer(t *testing.T) {
	w := load.Workload{Dataset: load.Dataset{Kind: load.SharedPrefix, Groups: 2, PromptsPerGroup: 2, PrefixTokens: 5, QuestionTokens: 3}, Requests: 4, OutputTokens: 7, Endpoint: load.Completions}
	sent := newSharedPrompts(job(w), ForPrompt)
	n := 0
	source, err := Make(t.Context(), job(w), func(i int, prompt []byte, output int) error {
		if want, _ := sent.append(nil, i); string(prompt) != string(want) || output != 7 || i != n {
			t.Errorf("prompt %d = %s with %d tokens of output, want %s", i, prompt, output, want)
		}
		n++
		return nil
	})
	if err != nil || source != nil || n != 4 {
		t.Errorf("%d prompts, %+v, %v", n, source, err)
	}
	for kind, want := range map[string]string{load.ShareGPT: "tokenizer.json", load.Trace: "is not a batch"} {
		w.Dataset = load.Dataset{Kind: kind, Path: "x"}
		if _, err := Make(t.Context(), job(w), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", kind, err, want)
		}
	}
}

// TestTextSum: the checksum is that of the file, however much of it is read.
func TestTextSum(t *testing.T) {
	text := strings.Repeat("a line of text\n", maxCorpus/15+1000)
	path := written(t, "long.txt", text)
	want := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	read, sum, err := readCorpus(path)
	if err != nil || sum != want || len(read) != maxCorpus {
		t.Errorf("%d bytes read, %v, sha256 %s, want %s", len(read), err, sum, want)
	}
}

// TestTextOfLinks: a link to a folder is that folder, and a link to a file that file.
func TestTextOfLinks(t *testing.T) {
	dir, at := t.TempDir(), filepath.Join(t.TempDir(), "link")
	outside := written(t, "outside.txt", "two")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one"), 0o600), os.Symlink(outside, filepath.Join(dir, "b.txt")), os.Symlink(dir, at)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, at} {
		if text, _, err := readCorpus(path); err != nil || string(text) != "onetwo" {
			t.Errorf("readCorpus(%s) = %q, %v", path, text, err)
		}
	}
}

// TestTokenizerChecksum: a tokenizer that is not the one meant is refused.
func TestTokenizerChecksum(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokenizer.json")
	text := []byte(`{"model":{}}`)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for sum, want := range map[string]string{
		fmt.Sprintf("%X", sha256.Sum256(text)): "version", // it is read, and is no tokenizer
		strings.Repeat("0", 64):                fmt.Sprintf("its sha256 is %x, not 000", sha256.Sum256(text)),
	} {
		job := load.Job{Workload: load.Workload{Dataset: load.Dataset{Tokenizer: file, TokenizerSHA256: sum}}}
		if _, err := loadTokens(job, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with checksum %s: %v, want %q", sum, err, want)
		}
	}
}

// TestTokenizeGoesNowhereElse: what is asked of the server with the load's headers
// is asked of nobody else: no redirect is followed.
func TestTokenizeGoesNowhereElse(t *testing.T) {
	var reached atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/taken", http.StatusTemporaryRedirect))
	defer server.Close()
	job := load.Job{Target: load.Target{BaseURL: server.URL}, Secrets: map[string]string{"X-Api-Key": "canary"}}
	_, err := newTokens(context.Background(), job)
	if reached.Load() > 0 || err == nil || !strings.Contains(err.Error(), "307") || !strings.Contains(err.Error(), "not followed") {
		t.Errorf("%v, %d requests went elsewhere", err, reached.Load())
	}
}
