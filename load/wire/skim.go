package wire

import (
	"bytes"
	"strconv"

	"hclbench/load"
)

// skim reads the answer of an endpoint that generates nothing as it comes, and keeps nothing of it: an
// embedding has thousands of numbers, and one answer many of them. What it looks for, by where it is:
//
//	data[].embedding           numbers, or base64 (OpenAI, vLLM, SGLang)
//	results[].relevance_score  of documents (vLLM, Jina, Cohere)
//	[].score                   the same of SGLang
//	usage.{prompt_tokens,total_tokens}
//	error, object = "error"
//
// Its zero value is ready.
type skim struct {
	stack  [maxDepth]place // of the containers that are open
	depth  int
	key    [20]byte // of the value that comes next, as far as it fits
	keyLen int
	word   [24]byte // the text or number that is being read, as far as it fits
	length int      // of all of it
	state  byte
	over   bool   // the outermost value has ended
	bytes  int    // so far
	head   []byte // the beginning of the answer, to show

	items, filled int // vectors or scores, and those with something in them
	filling       bool
	prompt, total int // tokens by the usage; 0: it does not say
	failed        bool
}

// place is what a container is.
type place struct {
	role  byte
	array bool
	keyed bool // an object whose next value has its key
}

// The roles.
const (
	elsewhere byte = iota
	root
	list // of items
	item
	vector
	usages
)

// The states between two bytes.
const (
	between byte = iota
	inText
	escaped
	inWord // a number, true, false or null
)

const perText = 1 << 20 // bytes of an answer for each text; a vector of 8,192 numbers takes a quarter

// feed reads the next part; false when it is not JSON.
func (k *skim) feed(b []byte) bool {
	k.bytes += len(b)
	k.head = append(k.head, b[:min(len(b), maxErrorText-len(k.head))]...)
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch k.state {
		case inText:
			if n := endOfText(b[i:]); n > 0 { // what is plain
				k.take(b[i : i+n])
				i += n - 1
				continue
			}
			switch c {
			case '\\':
				k.state = escaped
			case '"':
				k.state = between
				k.text()
			}
			continue
		case escaped:
			k.state = inText
			k.take(b[i : i+1])
			continue
		case inWord:
			n := i
			for n < len(b) && (numeric(b[n]) || b[n] >= 'a' && b[n] <= 'z') {
				n++
			}
			if k.take(b[i:n]); n == len(b) {
				return true
			}
			i, c = n, b[n]
			k.state = between
			k.scalar()
		}
		if !k.token(c) {
			return false
		}
	}
	return true
}

func endOfText(b []byte) int {
	n := bytes.IndexByte(b, '"')
	if n < 0 {
		n = len(b)
	}
	if back := bytes.IndexByte(b[:n], '\\'); back >= 0 {
		n = back
	}
	return n
}

// token takes a byte that stands between texts and words.
func (k *skim) token(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ',':
		return true
	}
	if k.over {
		return false
	}
	switch c {
	case ':':
		return k.depth > 0 && k.stack[k.depth-1].keyed
	case '"':
		k.state, k.length = inText, 0
		return k.depth > 0
	case '{', '[':
		return k.open(c == '[')
	case '}', ']':
		return k.close(c == ']')
	}
	if k.state = inWord; !numeric(c) && (c < 'a' || c > 'z') || k.depth == 0 {
		return false
	}
	k.word[0], k.length = c, 1
	return true
}

func (k *skim) take(b []byte) {
	if k.length < len(k.word) {
		copy(k.word[k.length:], b)
	}
	k.length += len(b)
}

// literal is the text or word that was read, as far as it fits.
func (k *skim) literal() []byte { return k.word[:min(k.length, len(k.word))] }

// open begins a container, whose role is that of its place.
func (k *skim) open(array bool) bool {
	if k.depth == maxDepth {
		return false
	}
	role := elsewhere
	if k.depth == 0 {
		if role = root; array {
			role = list
		}
	} else {
		role = k.within(array)
		k.stack[k.depth-1].keyed = false
	}
	if role == item {
		k.items++
		k.filling = false
	}
	k.stack[k.depth] = place{role: role, array: array}
	k.depth++
	return true
}

// within is the role of a container in the one that is open.
func (k *skim) within(array bool) byte {
	key := string(k.key[:k.keyLen])
	switch at := k.stack[k.depth-1].role; {
	case at == vector:
		k.filling = true
	case at == list && !array:
		return item
	case at == item && array && fills(key):
		return vector
	case at == root && array && (key == "data" || key == "results"):
		return list
	case at == root && !array && key == "usage":
		return usages
	case at == root && key == "error":
		k.failed = true
	}
	return elsewhere
}

// fills reports whether a member of an item is what was asked for.
func fills(key string) bool { return key == "embedding" || key == "relevance_score" || key == "score" }

func (k *skim) close(array bool) bool {
	if k.depth == 0 || k.stack[k.depth-1].array != array {
		return false
	}
	k.depth--
	if k.stack[k.depth].role == item && k.filling {
		k.filled++
	}
	k.over = k.depth == 0
	return true
}

// text is the end of a text: a key, or a value.
func (k *skim) text() {
	if at := &k.stack[k.depth-1]; !at.array && !at.keyed {
		at.keyed = true
		k.keyLen = copy(k.key[:], k.literal())
		if k.length > len(k.key) {
			k.keyLen = 0 // none that matters is as long
		}
		return
	}
	key := k.value()
	switch string(key) {
	case "object":
		k.failed = k.failed || k.stack[k.depth-1].role == root && string(k.literal()) == "error"
	case "error":
		k.failed = k.failed || k.stack[k.depth-1].role == root && k.length > 0
	}
	k.fill(key, k.length > 0)
}

// scalar is the end of a number, true, false or null.
func (k *skim) scalar() {
	key := k.value()
	switch k.stack[k.depth-1].role {
	case usages:
		k.count(string(key))
	case root:
		word := string(k.literal())
		k.failed = k.failed || string(key) == "error" && word != "null" && word != "false" && word != "0"
	}
	k.fill(key, numeric(k.word[0]))
}

// count takes a number of the usage.
func (k *skim) count(key string) {
	n, err := strconv.Atoi(string(k.literal()))
	switch {
	case err != nil || n < 0:
	case key == "prompt_tokens":
		k.prompt = n
	case key == "total_tokens":
		k.total = n
	}
}

// value ends a value, and returns its key.
func (k *skim) value() []byte {
	at := &k.stack[k.depth-1]
	if at.keyed = false; at.array {
		return nil
	}
	return k.key[:k.keyLen]
}

func (k *skim) fill(key []byte, something bool) {
	if role := k.stack[k.depth-1].role; role == vector || role == item && fills(string(key)) {
		k.filling = k.filling || something
	}
}

// skimmed takes a part of an answer that generates nothing.
func (s *Stream) skimmed(b []byte) error {
	switch asked := s.answer.rec.Texts; {
	case !s.skim.feed(b):
		return fails(load.ClassMalformed, "%v: %s", errJSON, Shorten(s.skim.head))
	case s.skim.bytes > (1+asked)*perText:
		return fails(load.ClassMalformed, "the answer did not end: more than %d bytes came for %d texts", s.skim.bytes, asked)
	}
	return nil
}

// settle writes down a whole answer of which nothing was kept, or says why it is none.
func (k *skim) settle(r *load.Record) error {
	switch {
	case k.bytes == 0:
		return fails(load.ClassEmpty, "the answer has no body")
	case !k.over:
		return fails(load.ClassMalformed, "%v: %s", errJSON, Shorten(k.head))
	case k.failed:
		return fails(load.ClassServer, "%s", Shorten(k.head))
	case k.items != r.Texts:
		return fails(load.ClassMalformed, "the answer is about %d of %d texts: %s", k.items, r.Texts, Shorten(k.head))
	case k.filled != k.items:
		return fails(load.ClassEmpty, "the answer has nothing to say of %d of %d texts: %s", k.items-k.filled, k.items, Shorten(k.head))
	}
	r.InputTokens = k.prompt
	if r.InputTokens == 0 {
		r.InputTokens = k.total
	}
	if r.NoUsage = r.InputTokens == 0; r.NoUsage {
		r.InputTokens = r.AskedInput
	}
	return nil
}
