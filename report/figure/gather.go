package figure

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"hclbench/results"
)

// Those are the rows that are to be kept.
func Those(rows []results.Row, keep func(r *results.Row) bool) (kept []*results.Row) {
	for i := range rows {
		if keep(&rows[i]) {
			kept = append(kept, &rows[i])
		}
	}
	return kept
}

// Grouped puts together what has the same key, in the order of the first of each.
func Grouped[T any, K comparable](all []T, key func(T) K) (groups [][]T) {
	at := map[K]int{}
	for _, x := range all {
		k := key(x)
		i, known := at[k]
		if !known {
			i = len(groups)
			at[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], x)
	}
	return groups
}

// Once appends what is not among all yet.
func Once[T comparable](all []T, more ...T) []T {
	for _, x := range more {
		if !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}

// ListedWith are the texts that are not empty.
func ListedWith(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), separator)
}

// Unique gives out names, each once.
type Unique map[string]bool

// Name is the name, with a number where it is taken.
func (u Unique) Name(name string) string {
	free := name
	for n := 2; u[free]; n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	u[free] = true
	return free
}

// Slug is a name as a part of a file's name.
func Slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s),
		func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') })
	name := cmp.Or(strings.Join(words, "-"), "x") // of a name in another script
	if len(name) > maxSlug {
		name = fmt.Sprintf("%s-%08x", name[:maxSlug], crc32.ChecksumIEEE([]byte(s)))
	}
	return name
}

// maxSlug leaves room in a file's name for several of them.
const maxSlug = 60
