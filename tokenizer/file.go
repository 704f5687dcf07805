package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Read reads a tokenizer.json. Its error names the part of the file that is
// broken, or that is not understood.
func Read(r io.Reader) (*Tokenizer, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read tokenizer: %w", err)
	}
	var f file
	if err := strictly(text, &f); err != nil {
		return nil, fmt.Errorf("read tokenizer: %w", err)
	}
	t := &Tokenizer{tokens: make(map[int32]string), cache: newCache()}
	for _, part := range []struct {
		name string
		read func() error
	}{
		{"version", f.readVersion},
		{"model", func() error { return f.Model.read(t) }},
		{"normalizer", func() error { return t.readNormalizer(f.Normalizer) }},
		{"added_tokens", func() error { return f.readAdded(t) }},
		{"pre_tokenizer", func() error { return t.readSplitters(f.PreTokenizer) }},
		{"post_processor", func() error { return readFrame(f.PostProcessor) }},
		{"decoder", func() error { return readDecoder(f.Decoder) }},
	} {
		if err := part.read(); err != nil {
			return nil, fmt.Errorf("read tokenizer: %s: %w", part.name, err)
		}
	}
	return t, nil
}

// strictly decodes JSON into a value and takes nothing that has no place in it.
func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is something after its end")
	}
	return nil
}

// file is a tokenizer.json.
type file struct {
	Version       string          `json:"version"`
	Truncation    any             `json:"truncation"`
	Padding       any             `json:"padding"`
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         model           `json:"model"`
}

func (f *file) readVersion() error {
	switch {
	case f.Version != "1.0":
		return fmt.Errorf("%q is not 1.0", f.Version)
	case f.Truncation != nil:
		return errors.New("truncation is not supported")
	case f.Padding != nil:
		return errors.New("padding is not supported")
	}
	return nil
}

// model is the vocabulary and how bytes become its tokens.
type model struct {
	Type                    string           `json:"type"`
	Dropout                 float64          `json:"dropout"`
	UnkToken                *string          `json:"unk_token"` // unused: every byte is a token
	ContinuingSubwordPrefix string           `json:"continuing_subword_prefix"`
	EndOfWordSuffix         string           `json:"end_of_word_suffix"`
	FuseUnk                 bool             `json:"fuse_unk"`      // as unk_token
	ByteFallback            bool             `json:"byte_fallback"` // as unk_token
	IgnoreMerges            bool             `json:"ignore_merges"`
	Vocab                   map[string]int32 `json:"vocab"`
	Merges                  []pair           `json:"merges"`
}

type pair [2]string // a merge: ["a", "b"], or "a b" in older files

func (p *pair) UnmarshalJSON(text []byte) error {
	var two []string
	var one string
	if json.Unmarshal(text, &one) == nil {
		two = strings.Split(one, " ")
	} else if err := json.Unmarshal(text, &two); err != nil {
		return fmt.Errorf("merge %s is not a pair", text)
	}
	if len(two) != 2 {
		return fmt.Errorf("merge %s is not a pair", text)
	}
	*p = pair(two)
	return nil
}

func (m *model) read(t *Tokenizer) error {
	switch {
	case m.Type != "BPE":
		return fmt.Errorf("type %q is not supported", m.Type)
	case m.Dropout != 0:
		return errors.New("dropout is not supported")
	case m.ContinuingSubwordPrefix != "":
		return errors.New("continuing_subword_prefix is not supported")
	case m.EndOfWordSuffix != "":
		return errors.New("end_of_word_suffix is not supported")
	}
	spelled := newAlphabet()
	if m.IgnoreMerges {
		t.whole = make(map[string]int32, len(m.Vocab))
	}
	for token, id := range m.Vocab {
		if id < 0 {
			return fmt.Errorf("id %d of %q is out of range", id, token)
		}
		if other, taken := t.tokens[id]; taken {
			return fmt.Errorf("%q and another token (%q) have id %d", token, other, id)
		}
		text, ok := spelled.bytes(token)
		if ok && t.whole != nil {
			t.whole[text] = id
		}
		t.tokens[id] = text
	}
	for b, r := range spelled.runes {
		id, ok := m.Vocab[string(r)]
		if !ok {
			return fmt.Errorf("there is no token for byte 0x%02X: only byte-level vocabularies are supported", b)
		}
		t.bytes[b] = id
	}
	list := make([]merge, len(m.Merges))
	for rank, p := range m.Merges {
		var ids [3]int32
		for i, token := range []string{p[0], p[1], p[0] + p[1]} {
			id, ok := m.Vocab[token]
			if !ok {
				return fmt.Errorf("merge %d (%q, %q): there is no token %q", rank, p[0], p[1], token)
			}
			ids[i] = id
		}
		list[rank] = merge{left: ids[0], right: ids[1], rank: int32(rank), id: ids[2]}
	}
	t.merges = newMerges(list)
	return nil
}

// alphabet spells bytes as characters that can be seen, as byte-level vocabularies do since GPT-2:
// printable Latin-1 as itself, the other bytes from U+0100 on.
type alphabet struct {
	runes [256]rune
	of    map[rune]byte
}

func newAlphabet() *alphabet {
	a := &alphabet{of: make(map[rune]byte, 256)}
	other := rune(0x100)
	for b := range rune(256) {
		r := b
		if visible := b > ' ' && b <= '~' || b > 0xa0 && b != 0xad; !visible {
			r = other
			other++
		}
		a.runes[b] = r
		a.of[r] = byte(b)
	}
	return a
}

// bytes returns what a token spells; false, and the token itself, if it spells no bytes.
func (a *alphabet) bytes(token string) (string, bool) {
	out := make([]byte, 0, len(token))
	for _, r := range token {
		b, ok := a.of[r]
		if !ok {
			return token, false
		}
		out = append(out, b)
	}
	return string(out), true
}

func (f *file) readAdded(t *Tokenizer) error {
	seen := make(map[string]bool, len(f.AddedTokens))
	spelled := newAlphabet()
	for i := range f.AddedTokens {
		a := &f.AddedTokens[i]
		if a.Content == "" || a.ID < 0 {
			return fmt.Errorf("token %q with id %d is not supported", a.Content, a.ID)
		}
		id, inVocab := f.Model.Vocab[a.Content]
		_, taken := t.tokens[a.ID]
		switch {
		case seen[a.Content]:
			return fmt.Errorf("%q is there twice", a.Content)
		case inVocab && id != a.ID:
			return fmt.Errorf("%q has id %d, but %d in the vocabulary", a.Content, a.ID, id)
		case !inVocab && taken:
			return fmt.Errorf("%q has id %d, and another token has, too", a.Content, a.ID)
		}
		seen[a.Content] = true
		// The decoder takes an added token for a spelling, too, if it can be one,
		// so that an accent is lost: nobody gives such tokens.
		t.tokens[a.ID], _ = spelled.bytes(a.Content)
		if !a.Normalized {
			t.raw.add(a.Content, a)
		} else if content := t.normalize(a.Content); content != "" {
			t.cooked.add(content, a)
		}
	}
	return nil
}

// step is one of a file's normalizers, pre-tokenizers, post-processors or
// decoders, with the fields of all that we know.
type step struct {
	Type string `json:"type"`

	// of a Sequence, by what it is a sequence of
	Normalizers   []json.RawMessage `json:"normalizers"`
	Pretokenizers []json.RawMessage `json:"pretokenizers"`
	Processors    []json.RawMessage `json:"processors"`
	Decoders      []json.RawMessage `json:"decoders"`

	// of Split
	Pattern struct {
		Regex  *string
		String *string
	} `json:"pattern"`
	Behavior string `json:"behavior"`
	Invert   bool   `json:"invert"`

	// of Digits
	IndividualDigits bool `json:"individual_digits"`

	// of ByteLevel; where they are missing they count as true
	AddPrefixSpace *bool `json:"add_prefix_space"`
	TrimOffsets    *bool `json:"trim_offsets"`
	UseRegex       *bool `json:"use_regex"`

	// of TemplateProcessing
	Single        any `json:"single"`
	Pair          any `json:"pair"`
	SpecialTokens any `json:"special_tokens"`
}

// steps returns the steps of a part, Sequences resolved; none for null. No other types
// are understood there.
func steps(part json.RawMessage, types ...string) ([]step, error) {
	if len(part) == 0 || string(part) == "null" {
		return nil, nil
	}
	var s step
	if err := strictly(part, &s); err != nil {
		return nil, err
	}
	switch {
	case slices.Contains(types, s.Type):
		return []step{s}, nil
	case s.Type != "Sequence":
		return nil, fmt.Errorf("type %q is not supported here", s.Type)
	}
	var all []step
	for i, sub := range slices.Concat(s.Normalizers, s.Pretokenizers, s.Processors, s.Decoders) {
		inner, err := steps(sub, types...)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i, err)
		}
		all = append(all, inner...)
	}
	return all, nil
}

func (t *Tokenizer) readNormalizer(part json.RawMessage) error {
	all, err := steps(part, "NFC")
	t.normalize = nfc
	if len(all) == 0 {
		t.normalize = func(s string) string { return s }
	}
	return err
}

// readSplitters takes steps of which the last, and no other, is ByteLevel.
func (t *Tokenizer) readSplitters(part json.RawMessage) error {
	all, err := steps(part, "Split", "Digits", "ByteLevel")
	if err != nil {
		return err
	}
	if n := len(all); n == 0 || all[n-1].Type != "ByteLevel" {
		return errors.New("only what ends with ByteLevel is supported")
	}
	classes := newClasses()
	for i, s := range all {
		switch {
		case s.Type == "Split":
			next, err := splitterFor(s, classes)
			if err != nil {
				return err
			}
			t.splitters = append(t.splitters, next)
		case s.Type == "Digits":
			pattern := `\p{N}+`
			if s.IndividualDigits {
				pattern = `\p{N}`
			}
			t.splitters = append(t.splitters, classes.splitter(scannerFor(pattern)))
		case s.Type == "ByteLevel" && i == len(all)-1:
			if s.AddPrefixSpace == nil || *s.AddPrefixSpace {
				t.splitters = append(t.splitters, prefixed)
			}
			if s.UseRegex == nil || *s.UseRegex {
				t.splitters = append(t.splitters, classes.splitter(scannerFor(gpt2Pattern)))
			}
		default:
			return errors.New("ByteLevel before the end is not supported")
		}
	}
	return nil
}

// splitterFor returns the splitter of a Split: a scanner where there is one
// that makes the same pieces.
func splitterFor(s step, classes *classes) (splitter, error) {
	switch {
	case s.Pattern.Regex != nil && s.Pattern.String == nil:
		if scan := scannerFor(*s.Pattern.Regex); scan != nil && s.Behavior == "Isolated" {
			return classes.splitter(scan), nil
		}
		return newMatcher(*s.Pattern.Regex, s.Behavior, s.Invert)
	case s.Pattern.Regex == nil && s.Pattern.String != nil && *s.Pattern.String != "":
		var quote strings.Builder
		for _, r := range *s.Pattern.String {
			quote.WriteString(quoted(r))
		}
		return newMatcher(quote.String(), s.Behavior, s.Invert)
	}
	return nil, errors.New("the pattern of Split is neither a regular expression nor a string")
}

// readFrame takes what would be added to a text of its own, and what trims offsets:
// nobody here asks for either.
func readFrame(part json.RawMessage) error {
	_, err := steps(part, "ByteLevel", "TemplateProcessing")
	return err
}

func readDecoder(part json.RawMessage) error {
	all, err := steps(part, "ByteLevel")
	if err == nil && len(all) != 1 {
		err = errors.New("only ByteLevel is supported")
	}
	return err
}
