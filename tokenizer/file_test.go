package tokenizer

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestRefused holds that each part of a file that is not understood is named.
func TestRefused(t *testing.T) {
	const split = `{"type": "Split", "pattern": {"Regex": %}, "behavior": "Isolated", "invert": false}`
	const byteLevel = `{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}`
	regex := func(pattern string) string {
		quoted, err := json.Marshal(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return `{"type": "Sequence", "pretokenizers": [` + strings.ReplaceAll(split, "%", string(quoted)) + `, ` + byteLevel + `]}`
	}
	tests := []struct {
		name, part, value, want string
	}{
		{"unknown part", "sampler", `{}`, `read tokenizer: json: unknown field "sampler"`},
		{"version", "version", `"2.0"`, `read tokenizer: version: "2.0" is not 1.0`},
		{"truncation", "truncation", `{"max_length": 512}`, `read tokenizer: version: truncation is not supported`},
		{"normalizer", "normalizer", `{"type": "Lowercase"}`, `read tokenizer: normalizer: type "Lowercase" is not supported here`},
		{"normalizer field", "normalizer", `{"type": "NFC", "form": 1}`, `read tokenizer: normalizer: json: unknown field "form"`},
		{"splitter", "pre_tokenizer", `{"type": "Metaspace"}`, `read tokenizer: pre_tokenizer: type "Metaspace" is not supported here`},
		{"splitter in a sequence", "pre_tokenizer", `{"type": "Sequence", "pretokenizers": [{"type": "Punctuation", "behavior": "Isolated"}, ` + byteLevel + `]}`, `read tokenizer: pre_tokenizer: 0: type "Punctuation" is not supported here`},
		{"no splitter", "pre_tokenizer", `null`, `read tokenizer: pre_tokenizer: only what ends with ByteLevel is supported`},
		{"behavior", "pre_tokenizer", strings.ReplaceAll(regex("a"), "Isolated", "Sometimes"), `read tokenizer: pre_tokenizer: behavior "Sometimes" is not supported`},
		{"expression", "pre_tokenizer", regex(`a|\bb`), `read tokenizer: pre_tokenizer: read expression "a|\\bb": \b is not supported`},
		{"post-processor", "post_processor", `{"type": "BertProcessing"}`, `read tokenizer: post_processor: type "BertProcessing" is not supported here`},
		{"decoder", "decoder", `{"type": "WordPiece"}`, `read tokenizer: decoder: type "WordPiece" is not supported here`},
		{"added token", "added_tokens", `[{"id": 5, "content": "<x>"}]`, `read tokenizer: added_tokens: "<x>" has id 5, and another token has, too`},
		{"added token twice", "added_tokens", `[{"id": 40000, "content": "<x>"}, {"id": 40001, "content": "<x>"}]`, `read tokenizer: added_tokens: "<x>" is there twice`},
		{"added token of the vocabulary", "added_tokens", `[{"id": 40000, "content": "0"}]`, `read tokenizer: added_tokens: "0" has id 40000, but 15 in the vocabulary`},
		{"model", "model", `{"type": "Unigram"}`, `read tokenizer: model: type "Unigram" is not supported`},
		{"suffix", "model", `{"type": "BPE", "end_of_word_suffix": "</w>"}`, `read tokenizer: model: end_of_word_suffix is not supported`},
		{"dropout", "model", `{"type": "BPE", "dropout": 0.1}`, `read tokenizer: model: dropout is not supported`},
		{"words", "model", `{"type": "BPE", "vocab": {"a": 0}}`, `read tokenizer: model: there is no token for byte 0x00: only byte-level vocabularies are supported`},
		{"merge", "model", `{"type": "BPE", "merges": ["a b c"]}`, `read tokenizer: merge "a b c" is not a pair`},
		{"not JSON", "model", `{"type": 3}`, `read tokenizer: json: cannot unmarshal number into Go struct field model.model.type of type string`},
	}
	base, _ := variants(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := read(t, base, map[string]json.RawMessage{tt.part: json.RawMessage(tt.value)})
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestTranslate reads regular expressions.
func TestTranslate(t *testing.T) {
	tests := []struct {
		pattern, want, err string
	}{
		{pattern: `a|b c_`, want: `a|b c_`},
		{pattern: `(?i:'s)`, want: `(?:[\'][sſS])`},
		{pattern: `'(?i:[sk]|ll)x`, want: `\'(?:[sſSkKK]|[lL][lL])x`},
		{pattern: `(a)(?!\S)\.{2,3}`, want: `(?:a)(?!\S)\.{2,3}`},
		{pattern: `a++|[^\s,]?+`, want: `(?>a+)|(?>[^\s\,-\,]?)`},
		{pattern: `a+?\p{Z}[\-_\]a-]`, want: `a+?[\p{Z}][\--\-_-_\]-\]a-a\--\-]`},
		{pattern: `\p{Lt}\P{Lt}`, want: `[\p{Lt}][^\p{Lt}]`},
		{pattern: `\p{Pi}`, err: `property "Pi" is not supported`},
		{pattern: `[\P{L}]`, err: `\P{L} in a set is not supported`},
		{pattern: `\p{^L}`, err: `property "^L" is not supported`},
		{pattern: `(?i:\p{L})`, err: `property "L" in (?i:) is not supported`},
		{pattern: `(?i:é)`, err: `'é' in (?i:) is not supported`},
		{pattern: `(?i:loss)`, err: `"ss" in (?i:) is not supported: it is the upper case of one character, too`},
		{pattern: `(?i)a`, err: `group (?i) is not supported`},
		{pattern: `(?<x>a)`, err: `group (?<x is not supported`},
		{pattern: `(a`, err: `a group does not end`},
		{pattern: `a)`, err: `a group ends that does not begin`},
		{pattern: `[a`, err: `a set does not end`},
		{pattern: `[]a]`, err: `an empty set is not supported`},
		{pattern: `[a-`, err: `a range does not end`},
		{pattern: `[z-a]`, err: `range z-a is empty`},
		{pattern: `[[:alpha:]]`, err: `a set in a set is not supported`},
		{pattern: `[a-z&&b]`, err: `a set in a set is not supported`},
		{pattern: `[\w]`, err: `\w is not supported`},
		{pattern: `[a-\s]`, err: `\s as the end of a range is not supported`},
		{pattern: `\w+`, err: `\w is not supported`},
		{pattern: `\1`, err: `\1 is not supported`},
		{pattern: `^a`, err: `"^" is not supported here`},
		{pattern: `\s+$`, err: `"$" is not supported here`},
		{pattern: `a{2}+`, err: `"+" after a quantifier is not supported`},
		{pattern: `a{2}?`, err: `"?" after a quantifier is not supported`},
		{pattern: `a{,2}`, err: `{ is not supported without bounds`},
		{pattern: `+a`, err: `"+" is not supported here`},
		{pattern: `a\`, err: `\ at the end`},
		{pattern: `[\`, err: `\ at the end`},
	}
	for _, tt := range tests {
		t.Run(tt.pattern, func(t *testing.T) {
			got, err := translate(tt.pattern)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("got  %q, %v\nwant %q, %s", got, err, tt.want, tt.err)
			}
		})
	}
}
