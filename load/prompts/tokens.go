package prompts

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/load/wire"
	"hclbench/plain"
	"hclbench/tokenizer"
)

// tokens makes token ids of text, without the special ones that a server would put around it.
type tokens interface {
	encode(ctx context.Context, text string) ([]int32, error)
	// decode makes text of ids; ok is false when that cannot be done.
	decode(ids []int32) (text string, ok bool)
	name() string
}

var errNoTokenizer = errors.New("the server has no /tokenize")

// errNoDecoder: text that is cut is put together again from its tokens.
var errNoDecoder = errors.New("to cut text for /v1/chat/completions the data set needs a tokenizer.json: " +
	"the server's /tokenize does not turn tokens back into text")

// newTokens is the data set's own tokenizer, or the server's. It is nil when there is neither.
func newTokens(ctx context.Context, job load.Job) (tokens, error) {
	if path := job.Workload.Dataset.Tokenizer; path != "" {
		return loadTokens(job, path)
	}
	s := serverTokens{job: job, client: wire.Direct()}
	switch _, err := s.encode(ctx, "a"); {
	case errors.Is(err, errNoTokenizer):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return s, nil
}

// needTokens is newTokens for data sets that cannot do without.
func needTokens(ctx context.Context, job load.Job) (tokens, error) {
	t, err := newTokens(ctx, job)
	if err == nil && t == nil {
		err = fmt.Errorf("a data set of kind %q needs a tokenizer, and %w: "+
			"name the model's tokenizer.json in the data set", job.Workload.Dataset.Kind, errNoTokenizer)
	}
	return t, err
}

type fileTokens struct {
	tokenizer *tokenizer.Tokenizer
	label     string
}

func loadTokens(job load.Job, path string) (tokens, error) {
	f, err := openFile(job, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	t, err := tokenizer.Read(io.TeeReader(f, sum))
	if _, e := io.Copy(sum, f); e != nil { // what the reader did not want
		err = errors.Join(err, e)
	}
	is := hex.EncodeToString(sum.Sum(nil))
	// A file that is not the one meant need not be complained about otherwise.
	if err = cmp.Or(sameSum(job.Workload.Dataset.TokenizerSHA256, is), err); err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", filepath.Base(path), err)
	}
	return fileTokens{t, filepath.Base(path) + " sha256:" + is}, nil
}

func (t fileTokens) name() string { return t.label }

func (t fileTokens) encode(_ context.Context, text string) ([]int32, error) {
	return t.tokenizer.Encode(text), nil
}

func (t fileTokens) decode(ids []int32) (string, bool) {
	return t.tokenizer.Decode(ids), true
}

const tokenizeTimeout = 2 * time.Minute // bounds one question to the server

// serverTokens asks the server: vLLM's and SGLang's /tokenize.
type serverTokens struct {
	job    load.Job
	client *http.Client
}

func (serverTokens) name() string { return "server" }

func (serverTokens) decode([]int32) (string, bool) { return "", false }

func (s serverTokens) encode(ctx context.Context, text string) (_ []int32, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("have the server tokenize text: %w", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, tokenizeTimeout)
	defer cancel()
	question := map[string]any{"prompt": text, "add_special_tokens": false}
	if s.job.Target.Model != "" {
		question["model"] = s.job.Target.Model
	}
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		strings.TrimSuffix(cmp.Or(s.job.Target.TokenizeURL, s.job.Target.BaseURL), "/")+"/tokenize", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for _, set := range []map[string]string{s.job.Target.Headers, s.job.Secrets} {
		for name, value := range set {
			req.Header.Set(name, value)
		}
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxEntry))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed ||
		resp.StatusCode == http.StatusNotImplemented:
		return nil, errNoTokenizer
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, fmt.Errorf("status %s: it redirects to %s, which is not followed", resp.Status,
			plain.Line(resp.Header.Get("Location")))
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %s: %s", resp.Status, wire.Shorten(bytes.TrimSpace(answer)))
	}
	var list struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	return list.Tokens, nil
}

func appendIDs(b []byte, ids []int32) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}

// formOf prompts that are text, also where they could be token ids, or are not.
func formOf(text bool) load.Form {
	if text {
		return load.Words
	}
	return load.IDs
}

// quoted is text as a JSON string. Invalid UTF-8 is replaced.
func quoted(text string) []byte {
	b, _ := json.Marshal(text) // a string always marshals
	return b
}
