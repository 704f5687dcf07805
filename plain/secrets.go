package plain

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Hidden stands where a secret stood, wherever something is shown, stored or hashed.
const Hidden = "(sensitive)"

// shortest is how long what is taken for a secret has to be: to remove every "1"
// would say more than it hides.
const shortest = 4

// Secrets are words that must not be seen. The zero value has none.
type Secrets struct {
	forms []string // of the secrets, longest first, so that none leaves the rest of a longer one
	whole []string // the secrets as they are: what may be cut off in the middle
}

// NewSecrets returns the secrets with the forms in which programs repeat them: each
// line of one with several lines, and as JSON, Python's repr, a URL or base64 write
// it. Those of fewer than four bytes are left out.
func NewSecrets(words ...string) Secrets {
	var s Secrets
	for _, w := range words {
		s.add(w)
		if lines := strings.Split(w, "\n"); len(lines) > 1 {
			for _, line := range lines {
				s.add(strings.TrimSpace(line))
			}
		}
	}
	longestFirst := func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }
	for _, list := range []*[]string{&s.forms, &s.whole} {
		slices.SortFunc(*list, longestFirst)
		*list = slices.Compact(*list)
	}
	return s
}

func (s *Secrets) add(word string) {
	if len(strings.TrimSpace(word)) < shortest {
		return
	}
	s.whole = append(s.whole, word)
	escaped, _ := json.Marshal(word) // of a string
	for _, text := range [][]byte{escaped, quoted(word)} {
		s.forms = append(s.forms, string(text[1:len(text)-1]))
	}
	repr := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	s.forms = append(s.forms, word, strings.TrimSpace(word),
		repr.Replace(word), strings.ReplaceAll(repr.Replace(word), `'`, `\'`),
		url.QueryEscape(word), url.PathEscape(word),
		base64.StdEncoding.EncodeToString([]byte(word)), base64.URLEncoding.EncodeToString([]byte(word)))
}

// Hide returns the text with [Hidden] in the place of every secret, also of one that
// was cut off by an "…".
func (s Secrets) Hide(text string) string {
	for _, form := range s.forms {
		text = strings.ReplaceAll(text, form, Hidden)
	}
	if strings.Contains(text, "…") {
		for _, word := range s.whole {
			for n := len(word) - 1; n >= shortest; n-- {
				text = strings.ReplaceAll(text, word[:n]+"…", Hidden+"…")
			}
		}
	}
	return text
}

// Text is [Text] without the secrets: what may be shown and kept of the words of
// somebody who was given them. They are looked for before and after, since a control
// sequence can stand in the middle of one, and be one.
func (s Secrets) Text(text string) string { return s.Hide(Text(s.Hide(text))) }

// Line is [Line] without the secrets, as [Secrets.Text].
func (s Secrets) Line(text string) string { return s.Hide(Line(s.Hide(text))) }
