package prompts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hclbench/load"
)

const (
	// maxCorpus bounds how much of a text is read: 16 MiB are about four million
	// tokens, and as many places to cut.
	maxCorpus   = 16 << 20
	corpusPiece = 64 << 10 // how much of it is tokenized at a time
)

// pieces makes prompts of a text: cuts of an exact number of tokens, each from a place of its own.
func pieces(ctx context.Context, job load.Job, _ int) (*Set, error) {
	w, d := job.Workload, job.Workload.Dataset
	t, err := needTokens(ctx, job)
	if err != nil {
		return nil, err
	}
	corpus, sum, err := corpusOf(job)
	if err != nil {
		return nil, err
	}
	var ids []int32
	for len(corpus) > 0 {
		n := pieceEnd(corpus)
		some, err := t.encode(ctx, strings.ToValidUTF8(string(corpus[:n]), "\uFFFD"))
		if err != nil {
			return nil, err
		}
		ids = append(ids, some...)
		corpus = corpus[n:]
	}
	if len(ids) < d.InputTokens {
		return nil, fmt.Errorf("the text of data set %s has %d tokens, and a prompt needs %d",
			filepath.Base(d.Path), len(ids), d.InputTokens)
	}
	if w.SendsText() {
		if _, ok := t.decode(ids[:1]); !ok {
			return nil, errNoDecoder
		}
	}
	places := len(ids) - d.InputTokens + 1
	return &Set{
		source: &load.Source{Tokenizer: t.name(), SHA256: sum, Prompts: places},
		form:   formOf(w.SendsText()),
		rows: func(use uint64) maker {
			return cutPrompts{seed: Seed(job), use: use, ids: ids, places: places, input: d.InputTokens,
				output: w.OutputTokens, text: w.SendsText(), tokens: t}
		},
	}, nil
}

// pieceEnd is where the first piece of a text ends: before a space, so that no word is torn.
func pieceEnd(text []byte) int {
	if len(text) <= corpusPiece {
		return len(text)
	}
	if i := bytes.LastIndexAny(text[:corpusPiece], " \n"); i > 0 {
		return i
	}
	return corpusPiece
}

type cutPrompts struct {
	seed, use     uint64
	ids           []int32
	places        int // where a prompt can begin
	input, output int
	text          bool
	tokens        tokens
}

func (c cutPrompts) append(b []byte, i int) ([]byte, ask) {
	at := Random(c.seed, c.use, uint64(i)).IntN(c.places)
	ids := c.ids[at : at+c.input]
	if c.text {
		text, _ := c.tokens.decode(ids)
		return append(b, quoted(text)...), ask{input: c.input, output: c.output}
	}
	return appendIDs(b, ids), ask{input: c.input, output: c.output}
}

// checkCorpus says what makes a text no use.
func checkCorpus(job load.Job) error {
	_, _, err := corpusOf(job)
	return err
}

func corpusOf(j load.Job) (text []byte, sum string, err error) {
	d := j.Workload.Dataset
	if text, sum, err = readCorpus(fileOf(j, d.Path)); err == nil {
		err = sameSum(d.SHA256, sum)
	}
	if err == nil && len(text) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		err = fmt.Errorf("read the text of data set %s: %w", filepath.Base(d.Path), err)
	}
	return text, sum, err
}

// readCorpus reads the beginning of a file, or of the files of a folder in the
// order of their names; those that begin with a dot are left out. sum is the SHA-256
// of the whole file, or of all those files one after the other.
func readCorpus(path string) (text []byte, sum string, err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil { // a link to a folder would be no folder
		return nil, "", err
	}
	var all bytes.Buffer
	h := sha256.New()
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != path && strings.HasPrefix(e.Name(), ".") && e.IsDir():
			return fs.SkipDir
		case name != path && strings.HasPrefix(e.Name(), "."), e.IsDir():
			return nil
		}
		if info, err := os.Stat(name); err != nil {
			return err
		} else if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", name) // a pipe would be waited for
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		src := io.TeeReader(f, h)
		if _, err := io.Copy(&all, io.LimitReader(src, int64(maxCorpus-all.Len()))); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, src)
		return err
	})
	return all.Bytes(), hex.EncodeToString(h.Sum(nil)), err
}

// TextSum is the SHA-256, in hex, of the text at a path: of a file as every tool says
// it, of a folder that of its files one after the other in the order of their names.
func TextSum(path string) (string, error) {
	_, sum, err := readCorpus(path)
	return sum, err
}
