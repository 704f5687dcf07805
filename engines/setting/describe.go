package setting

import (
	"slices"
	"strings"
)

// Description is what the table has of a setting, in a version.
type Description struct {
	Name       string
	Others     []string // its other names, a short one with its dash
	Form       string   // what it takes, as [Row.Form]
	Default    string   // what holds without it, as [Row.Default]
	Choices    []string // the words that it takes; nil: any, or not known
	Since      Version  // the first version read with it; zero: it is in the oldest read
	Until      Version  // the last one; zero: it is in the newest read
	Deprecated Version  // the first that calls it so; zero: none does
	Instead    string   // what to write in its place
	Gaps       bool     // between the two it was not there all the time
	Before     []Before // what it was before, newest first
	Meaning    *Meaning // nil: hcl understands nothing of it
}

// Before is what was before a version: a form, a default, or both; "" is as after it.
type Before struct {
	Version       Version
	Form, Default string
}

// Describe is what the table has of an option of a kind in a version.
func Describe(kind string, row *Row, v Version) Description {
	t := tables()[kind]
	v = t.versionFor(v)
	d := Description{Name: row.Name, Form: row.Form(v), Default: row.Default(v), Since: row.Since(), Until: row.runs[len(row.runs)-1].to,
		Deprecated: row.deprecated, Gaps: len(row.runs) > 1, Meaning: Means(row)}
	for _, c := range row.changes("") {
		d.Before = append(d.Before, Before{Version: c.before, Form: c.was})
	}
	for _, c := range row.changes(ofDefault) {
		i := slices.IndexFunc(d.Before, func(b Before) bool { return b.Version == c.before })
		if i < 0 {
			i, d.Before = len(d.Before), append(d.Before, Before{Version: c.before})
		}
		d.Before[i].Default = c.was
	}
	slices.SortFunc(d.Before, func(a, b Before) int { return slices.Compare(b.Version[:], a.Version[:]) })
	if IsNewest(kind, v) {
		d.Choices = row.Choices
	}
	if d.Until.Known() || d.Deprecated.Known() && !v.Before(d.Deprecated) {
		d.Instead = t.instead(row, v)
	}
	for name, spelt := range t.by {
		if name != row.Name && slices.ContainsFunc(spelt, func(s spelling) bool { return s.row == row && s.in(v) && !s.how.Opposite() }) {
			d.Others = append(d.Others, name)
		}
	}
	slices.Sort(d.Others)
	return d
}

// Rows are the options that a version of a kind has, by name.
func Rows(kind string, v Version) (rows []*Row) {
	t := tables()[kind]
	v = t.versionFor(v)
	for _, name := range t.names {
		for _, s := range t.by[name] {
			if s.in(v) && !slices.Contains(rows, s.row) {
				rows = append(rows, s.row)
			}
		}
	}
	slices.SortFunc(rows, func(a, b *Row) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

// Latest is a version, or, where it is not known, the newest that was read of a kind.
func Latest(kind string, v Version) Version { return tables()[kind].versionFor(v) }

// Read are the versions of a kind that were read, oldest first; nil: the table does not know which.
func Read(kind string) []Version { return slices.Clone(tables()[kind].versions) }
