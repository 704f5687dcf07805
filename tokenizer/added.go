package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is an entry of added_tokens: text that is one token wherever it
// stands, whatever the splitters and merges would make of it.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only if no word goes on at its ends
	LStrip     bool   `json:"lstrip"`      // takes the white space before it along
	RStrip     bool   `json:"rstrip"`      // and that after it
	Normalized bool   `json:"normalized"`  // looked for in normalized text
	Special    bool   `json:"special"`     // to whoever decodes without them
}

// finder finds added tokens in text. The zero value finds none.
type finder struct {
	root  trie
	first [256]bool // bytes that a token begins with
}

// trie holds the tokens that go on from here, by their next byte.
type trie struct {
	next  map[byte]*trie
	token *addedToken // ends here; nil if none does
}

func (f *finder) add(content string, token *addedToken) {
	f.first[content[0]] = true
	t := &f.root
	for i := range len(content) {
		child := t.next[content[i]]
		if child == nil {
			child = &trie{}
			if t.next == nil {
				t.next = make(map[byte]*trie)
			}
			t.next[content[i]] = child
		}
		t = child
	}
	t.token = token
}

// longest returns the longest token at the start of text, and its length.
func (f *finder) longest(text string) (found *addedToken, length int) {
	t := &f.root
	for i := range len(text) {
		if t = t.next[text[i]]; t == nil {
			break
		}
		if t.token != nil {
			found, length = t.token, i+1
		}
	}
	return found, length
}

// cut calls token for each added token in text and rest for what is between, unless it is empty,
// from left to right. Where several begin, the longest counts; where they overlap, the first.
func (f *finder) cut(text string, token func(id int32), rest func(string)) {
	done := 0
	for i := 0; i < len(text); {
		var found *addedToken
		var n int
		if f.first[text[i]] {
			found, n = f.longest(text[i:])
		}
		if found == nil {
			i++
			continue
		}
		start, stop := i, i+n
		i = stop
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[stop:])
		if found.SingleWord && (isWord(before) || isWord(after)) {
			continue
		}
		if found.LStrip {
			// The white space may have gone to the token before.
			start = max(done, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
		}
		if found.RStrip {
			stop = len(text) - len(strings.TrimLeftFunc(text[stop:], unicode.IsSpace))
		}
		if start > done {
			rest(text[done:start])
		}
		token(found.ID)
		done = stop
	}
	if done < len(text) {
		rest(text[done:])
	}
}

// isWord is \w as Unicode defines it for regular expressions (UTS 18).
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc,
		unicode.Other_Alphabetic, unicode.Join_Control)
}
