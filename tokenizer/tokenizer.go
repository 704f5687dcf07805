// Package tokenizer turns text into a model's tokens and back, as Hugging
// Face's tokenizers library does with the same tokenizer.json.
//
// It reads the byte-level BPE family: DeepSeek-V3 and R1, Llama 3, Qwen 2 and
// 3, and what is built like them. It refuses a file of which it does not
// understand every part, since a tokenizer that is almost right makes prompts
// of wrong lengths that nobody notices. What a file adds to a text of its own (its
// post-processor) is left out. It knows nothing of prompts, of chat templates or of servers.
package tokenizer

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Tokenizer is what a tokenizer.json describes. It does not change once it is
// read, and any number of goroutines may use it at once.
type Tokenizer struct {
	normalize func(string) string // of what is between added tokens
	raw       finder              // added tokens that are looked for in the text as it is
	cooked    finder              // added tokens that are looked for in normalized text
	splitters []splitter
	merges    merges
	bytes     [256]int32       // ids of the single bytes
	whole     map[string]int32 // pieces that are a token without merging; nil if all are merged
	tokens    map[int32]string // bytes of each id
	cache     *cache
	encoders  sync.Pool // of *encoder
}

// Encode returns the tokens of a text. Nothing is added to them, but an added
// token that is spelled out in the text, special or not, becomes its id: this
// is what Hugging Face's encode does with add_special_tokens false.
//
// Bytes that are not UTF-8 are encoded as they are.
func (t *Tokenizer) Encode(text string) []int32 {
	e := t.encoder()
	defer t.release(e)
	t.raw.cut(text, e.added, e.between)
	return e.dst
}

// Decode returns the text of ids, special tokens included, as Hugging Face's
// decode does with skip_special_tokens false: what is not UTF-8 becomes
// U+FFFD, and an id that there is no token for becomes nothing.
func (t *Tokenizer) Decode(ids []int32) string {
	return toValid(string(t.AppendDecode(nil, ids)))
}

// AppendDecode appends the bytes of ids to dst. A token can end in the middle
// of a character, so that only the bytes of all tokens together are text; they
// are the same whether ids are decoded at once or one by one.
func (t *Tokenizer) AppendDecode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		dst = append(dst, t.tokens[id]...)
	}
	return dst
}

// toValid puts one U+FFFD for each longest start of a character that is not continued, as Unicode
// recommends and Rust does. strings.ToValidUTF8 puts one for a whole run of them.
func toValid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			n = cutShort(s)
		}
		b.WriteRune(r)
		s = s[n:]
	}
	return b.String()
}

// cutShort returns how many bytes at the start of s would start a character,
// were they continued otherwise; at least 1.
func cutShort(s string) int {
	for n := min(len(s), utf8.UTFMax-1); n > 1; n-- {
		if !utf8.FullRuneInString(s[:n]) {
			return n // more bytes could make it whole
		}
	}
	return 1
}

// encoder is the memory of one encoding at a time.
type encoder struct {
	t      *Tokenizer
	dst    []int32
	pieces func(string) // takes normalized text through all splitters into word
	merger merger
}

// maxKept is how long the arrays of an encoder may be, in elements, for it to
// be used again: one huge text must not take memory for good.
const maxKept = 1 << 16

func (t *Tokenizer) encoder() *encoder {
	if e, ok := t.encoders.Get().(*encoder); ok {
		return e
	}
	e := &encoder{t: t}
	e.pieces = e.word
	for _, s := range slices.Backward(t.splitters) {
		next := e.pieces
		e.pieces = func(text string) { s(text, next) }
	}
	return e
}

func (t *Tokenizer) release(e *encoder) {
	e.dst = nil
	if cap(e.merger.symbols) > maxKept {
		e.merger = merger{}
	}
	t.encoders.Put(e)
}

func (e *encoder) between(text string) {
	e.t.cooked.cut(e.t.normalize(text), e.added, e.pieces)
}

func (e *encoder) added(id int32) { e.dst = append(e.dst, id) }

// word appends the tokens of one piece: no token reaches over its ends.
func (e *encoder) word(piece string) {
	t := e.t
	if len(piece) == 1 {
		e.dst = append(e.dst, t.bytes[piece[0]])
		return
	}
	ids, at := t.cache.get(piece)
	if ids != nil {
		e.dst = append(e.dst, ids...)
		return
	}
	start := len(e.dst)
	if id, ok := t.whole[piece]; ok {
		e.dst = append(e.dst, id)
	} else {
		e.dst = e.merger.appendMerged(e.dst, piece, t)
	}
	t.cache.put(at, piece, e.dst[start:])
}
