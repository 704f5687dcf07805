package setting

import (
	"slices"
	"strings"
	"unicode"
)

// Fault is what a version has against a name.
type Fault int

const (
	Right      Fault = iota
	Gone             // it had been there before
	NotYet           // it came later
	Deprecated       // it is there, and is to go
	Several          // it is the beginning of several
	Unknown          // no version that was read has it
)

// Judgement is what a version of a kind makes of a name.
type Judgement struct {
	Fault   Fault
	Version Version  // the last version with it, the first, or that from which on it is deprecated
	Instead string   // a name that the version has, with a value or more words where its makers name one; "": none is known
	Could   []string // what it is the beginning of: of Several all, of Gone the one option for which the version takes it
}

// Judge says whether a version of a kind has an option by a name, without its two dashes. One that is
// not known is taken for the newest read. A kind that the table does not have takes every name. Not every version
// was read: what differs on the two sides of one that was not counts as right.
func Judge(kind, name string, v Version) (j Judgement) {
	t := tables()[kind]
	if t == nil {
		return Judgement{}
	}
	name, _ = t.apart(name)
	around := t.around(v)
	v = t.versionFor(v)
	has := func(v Version) bool { return t.has(name, v) }
	whole := func(v Version) bool {
		return slices.ContainsFunc(t.by[name], func(s spelling) bool { return s.in(v) })
	}
	ended := slices.ContainsFunc(t.by[name], func(s spelling) bool { return s.hadEnded(v) })
	could := t.begun(name, func(s spelling) bool { return s.in(v) })
	switch {
	case slices.ContainsFunc(around, whole), !ended && slices.ContainsFunc(around, has):
		row, how := Lookup(kind, name, v)
		if row != nil && how != Ambiguous && row.deprecated.Known() && !v.Before(row.deprecated) {
			return Judgement{Fault: Deprecated, Version: row.deprecated, Instead: t.instead(row, v)}
		}
		return Judgement{}
	case len(could) > 1 && !t.exact && !ended:
		j.Fault = Several
		for _, s := range could {
			j.Could = append(j.Could, s.known())
		}
		return j
	}
	j.Fault = Unknown
	for _, has := range []func(Version) bool{whole, has} {
		if j.Fault != Unknown {
			break
		}
		for _, read := range t.versions { // the last before it counts, else the first after it
			if has(read) && (read.Before(v) || j.Fault == Unknown) {
				j.Fault, j.Version = NotYet, read
				if read.Before(v) {
					j.Fault = Gone
				}
			}
		}
	}
	switch row, _ := Lookup(kind, name, v); {
	case j.Fault == Gone && ended:
		if j.Instead = t.instead(t.by[name][0].row, v); len(could) == 1 && !t.exact {
			j.Could = []string{could[0].known()}
		}
	case j.Fault == Gone && row != nil:
		j.Instead = t.instead(row, v)
	case j.Fault == Unknown:
		j.Instead = t.meantBy(name, v)
	}
	return j
}

// has reports whether a version has an option by this name, its opposite, or its beginning.
func (t *table) has(name string, v Version) bool {
	here := func(s spelling) bool { return s.in(v) }
	return slices.ContainsFunc(t.by[name], here) || !t.exact && len(t.begun(name, here)) == 1
}

// known is what to write for a spelling: of an option its name, of what says the opposite that.
func (s spelling) known() string {
	if s.how.Opposite() {
		return s.name
	}
	return s.row.Name
}

// hadEnded reports whether a name was one before a version.
func (s spelling) hadEnded(v Version) bool {
	return slices.ContainsFunc(s.runs, func(r span) bool { return r.to.Before(v) })
}

// around is a version, or, where it was not read, those read before and after it.
func (t *table) around(v Version) (read []Version) {
	if v = t.versionFor(v); t.versions == nil {
		return []Version{v}
	}
	i, found := slices.BinarySearchFunc(t.versions, v, func(a, b Version) int { return slices.Compare(a[:], b[:]) })
	if found {
		return t.versions[i : i+1]
	}
	return t.versions[max(i-1, 0):min(i+1, len(t.versions))]
}

// instead is what stands in the place of an option's name in a version: another name that it has there, or what its
// makers name, as far as the version has that.
func (t *table) instead(row *Row, v Version) string {
	here := func(s spelling) bool { return s.in(v) }
	if !row.deprecated.Known() || !slices.ContainsFunc(row.runs, func(s span) bool { return s.holds(v) }) {
		for _, name := range t.names {
			if slices.ContainsFunc(t.by[name], func(s spelling) bool { return s.row == row && s.in(v) && !s.how.Opposite() }) {
				return name
			}
		}
	}
	for range 4 { // what they name may be gone as well, and name another
		text := strings.TrimPrefix(row.replacedBy, "--")
		end := strings.IndexFunc(text+" ", func(r rune) bool { return !unicode.IsLetter(r) && r != '-' && r != '_' })
		name := text[:end]
		if name == "" {
			return ""
		}
		if t.has(name, v) || strings.HasPrefix(text[end:], "{") && len(t.begun(name, here)) > 0 {
			return text
		}
		if len(t.by[name]) == 0 {
			return ""
		}
		row = t.by[name][0].row
	}
	return ""
}

// meantBy is what a name that no version has was meant to be: the option with that short name, or the one
// option that a version has and that differs by a slip of the hand; "": nobody knows.
func (t *table) meantBy(name string, v Version) (found string) {
	for _, s := range t.by["-"+name] { // hcl writes two dashes
		if s.in(v) {
			return s.row.Name
		}
	}
	for _, other := range t.names {
		for _, s := range t.by[other] {
			switch {
			case !s.in(v) || !slip(name, other):
			case found != "" && found != s.known():
				return ""
			default:
				found = s.known()
			}
		}
	}
	return found
}

// slip reports whether a name is another with one letter or separator too few, too many, another or swapped with its
// neighbour. Names of numbers and of short words, as dp and cp, differ so without being slips.
func slip(name, other string) bool {
	from := 0
	for from < len(name) && from < len(other) && name[from] == other[from] {
		from++
	}
	a, b := name[from:], other[from:]
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	swapped := len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
	if !swapped && max(len(a), len(b)) != 1 || strings.ContainsAny(a+b, "0123456789") {
		return false
	}
	const separators = "-_"
	if strings.ContainsAny(a+b, separators) {
		return true
	}
	begin := strings.LastIndexAny(other[:from], separators) + 1
	word := other[begin:]
	if end := strings.IndexAny(other[from:], separators); end >= 0 {
		word = other[begin : from+end]
	}
	return len(word) >= 4
}

// Variables is the kind under which the table has the environment variables of a kind.
func Variables(kind string) string { return kind + "_env" }
