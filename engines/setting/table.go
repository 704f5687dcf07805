// Package setting is the one table of the engines' settings: which there are, by which names,
// in which versions, of which form ([Lookup]), and what they mean ([Means], [Named]).
//
// Its rows are data: a file for each kind, read out of the packages that the engines' makers
// published, one line an option. Two are written by hand: byhand.tsv has what the packages do not
// tell, and meanings.tsv what hcl understands of options.
package setting

import (
	"embed"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
)

//go:embed *.tsv
var files embed.FS

// Version is a version's numbers: 0.5.3.post1 is {0, 5, 3, 1}. Zero is one that nothing
// tells, and is taken for the newest that the table has.
type Version [4]int

var versionForm = regexp.MustCompile(`^(\d+)\.(\d+)(?:\.(\d+))?(?:\.(?:post)?(\d+))?`)

// ParseVersion reads "0.11.0" and "0.5.3.post1"; of anything else it is zero.
func ParseVersion(s string) (v Version) {
	if m := versionForm.FindStringSubmatch(s); m != nil {
		for i := range v {
			v[i], _ = strconv.Atoi(m[i+1])
		}
	}
	return v
}

// Known reports whether it is a version.
func (v Version) Known() bool { return v != Version{} }

// Before reports whether a version is known, and earlier than another.
func (v Version) Before(other Version) bool { return v.Known() && slices.Compare(v[:], other[:]) < 0 }

func (v Version) String() string {
	s := strconv.Itoa(v[0]) + "." + strconv.Itoa(v[1]) + "." + strconv.Itoa(v[2])
	if v[3] > 0 {
		s += ".post" + strconv.Itoa(v[3])
	}
	return s
}

// Row is one option of an engine.
type Row struct {
	Name string // without its dashes
	// Choices are the words that the newest version read takes; nil: any, or those of plugins.
	Choices []string

	form, standard, note string
	runs                 []span
	deprecated           Version // since when; zero: it is not
	replacedBy           string  // what its makers name in its place, with its dashes
}

// span is from which version to which one; from zero: always; to zero: to the newest.
type span struct{ from, to Version }

func (s span) holds(v Version) bool { return !v.Before(s.from) && (!s.to.Known() || !s.to.Before(v)) }

// The forms of options, as the files have them; others take words.
const (
	Switch   = "switch"    // takes no word
	SwitchNo = "switch/no" // likewise, and --no-NAME turns it off
)

// Form is how a version takes the option: [Switch] and so on, or the type of its words.
func (r *Row) Form(v Version) string { return r.at(v, r.form, "") }

// Default is what a version does without it, as the files have it: "-" is what the engine decides.
func (r *Row) Default(v Version) string { return r.at(v, r.standard, ofDefault) }

// Since is the first version that has it; zero: from the oldest known on.
func (r *Row) Since() Version { return r.runs[0].from }

// IsSwitch reports whether the option takes no word in a version; of one that is not known, in no version.
func (r *Row) IsSwitch(v Version) bool {
	isSwitch := strings.HasPrefix(r.Form(v), Switch)
	for _, c := range r.changes("") {
		isSwitch = isSwitch && (v.Known() || strings.HasPrefix(c.was, Switch))
	}
	return isSwitch
}

// NeedsWord reports whether the option takes a word at least, likewise.
func (r *Row) NeedsWord(v Version) bool {
	needs := func(form string) bool {
		return !strings.HasPrefix(form, Switch) && !strings.HasSuffix(form, "?") && !strings.HasSuffix(form, "*")
	}
	all := needs(r.Form(v))
	for _, c := range r.changes("") {
		all = all && (v.Known() || needs(c.was))
	}
	return all
}

// change is what something was before a version.
type change struct {
	was    string
	before Version
}

const ofDefault = "default " // how a change of a default begins

var changeForm = regexp.MustCompile(`^(\S+) to \S+ in ([\w.]+)$`)

// changes are those that the row's note has of its form, or of its default, oldest first.
func (r *Row) changes(of string) (all []change) {
	for _, part := range strings.Split(r.note, "; ") {
		rest, is := strings.CutPrefix(part, of)
		is = is && (of != "" || !strings.HasPrefix(part, ofDefault))
		for _, one := range strings.Split(rest, ", ") {
			if m := changeForm.FindStringSubmatch(one); is && m != nil && m[1] != "announced" { // to go
				all = append(all, change{m[1], ParseVersion(m[2])})
			}
		}
	}
	return all
}

func (r *Row) at(v Version, now, of string) string {
	for _, c := range r.changes(of) {
		if v.Before(c.before) {
			return c.was
		}
	}
	return now
}

// Lacks reports whether a version of a kind has not got the option for sure, as of [Judge].
func (r *Row) Lacks(kind string, v Version) bool {
	t := tables()[kind]
	if v = t.versionFor(v); !v.Known() {
		return false
	}
	return !slices.ContainsFunc(t.around(v), func(v Version) bool {
		return slices.ContainsFunc(r.runs, func(s span) bool { return s.holds(v) })
	})
}

// spelling is a name of an option, and when it was one.
type spelling struct {
	name string
	row  *Row
	runs []span
	how  How // Exact, Alias, or of what says the opposite Negation or Pair
}

func (s spelling) in(v Version) bool {
	return slices.ContainsFunc(s.runs, func(r span) bool { return r.holds(v) })
}

// table is one kind's.
type table struct {
	versions []Version // read, oldest first; nil: those of its rows are not known
	by       map[string][]spelling
	names    []string // of by, sorted
	dashes   bool     // it takes underscores for dashes, and members of objects after a dot
	exact    bool     // it takes no beginnings
}

// pairsSince is the version of vLLM that takes --disable-x for --no-enable-x and the other way round.
var pairsSince = Version{0, 33, 0}

// versionFor is a version to ask the table for.
func (t *table) versionFor(v Version) Version {
	if len(t.versions) == 0 {
		return Version{}
	}
	if !v.Known() {
		return t.versions[len(t.versions)-1]
	}
	return v
}

// tables are read once: nothing changes them.
var tables = sync.OnceValue(func() map[string]*table {
	all := map[string]*table{}
	for _, kind := range append(Kinds(), Variables("vllm"), Variables("sglang")) {
		all[kind] = readTable(kind)
		all[kind].dashes = kind == "vllm"
		all[kind].exact = strings.HasPrefix(kind, "trtllm") || strings.HasSuffix(kind, Variables(""))
	}
	return all
})

// Kinds are the kinds of engines and routers whose options the table has.
func Kinds() []string {
	return []string{"vllm", "sglang", "trtllm", "vllm_router", "sglang_router", "trtllm_router"}
}

// lines are those of a file that is in the binary, each by the names of its columns.
func lines(name string) (comments []string, list []map[string]string) {
	text, err := files.ReadFile(name)
	if err != nil {
		panic("no table " + name + ". This is a bug in hcl.")
	}
	var head []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch cells := strings.Split(line, "\t"); {
		case strings.HasPrefix(line, "#"):
			comments = append(comments, line)
		case head == nil:
			head = cells
		default:
			row := map[string]string{}
			for i, cell := range cells {
				row[head[i]] = cell
			}
			list = append(list, row)
		}
	}
	return comments, list
}

var (
	gaps = regexp.MustCompile(`(?:^|; )in ((?:[\w.]+\.\.[\w.]+(?:, )?)+)`)
	own  = regexp.MustCompile(`itself ([\w.,]+)`)
)

func readTable(kind string) *table {
	t := &table{by: map[string][]spelling{}}
	comments, rows := lines(strings.ReplaceAll(kind, "_", "-") + ".tsv")
	for _, c := range comments {
		if read, ok := strings.CutPrefix(c, "# versions read: "); ok {
			for _, v := range strings.Fields(read) {
				t.versions = append(t.versions, ParseVersion(v))
			}
		}
	}
	add := func(name string, row *Row, runs []span) {
		how := Exact
		if name != row.Name {
			how = Alias
		}
		t.by[name] = append(t.by[name], spelling{name, row, runs, how})
	}
	for _, r := range rows {
		row := &Row{Name: r["name"], form: r["type"], standard: r["default"], note: r["note"],
			deprecated: ParseVersion(r["deprecated"]), replacedBy: r["instead"]}
		if c := r["choices"]; len(c) > 1 {
			row.Choices = strings.Split(c, "|")
		}
		row.runs = t.spans(r["first"] + ".." + r["last"])
		if strings.HasPrefix(r["first"], "<=") {
			row.runs[0].from = Version{}
		}
		if m := gaps.FindStringSubmatch(r["note"]); m != nil {
			row.runs = t.spans(m[1])
		}
		runs := row.runs
		if m := own.FindStringSubmatch(r["note"]); m != nil {
			runs = t.spans(m[1])
		}
		add(row.Name, row, runs)
		for _, a := range strings.Fields(r["aliases"]) {
			alias, when, limited := strings.Cut(strings.TrimSuffix(a, "]"), "[")
			runs := row.runs
			if limited {
				runs = t.spans(when)
			}
			add(alias, row, runs)
		}
	}
	_, rows = lines("byhand.tsv")
	for _, r := range rows {
		switch of := t.by[r["name"]]; {
		case r["kind"] != kind:
		case r["type"] != "":
			row := &Row{Name: r["name"], form: r["type"], standard: "-", runs: []span{{}}}
			if r["choices"] != "" {
				row.Choices = strings.Split(r["choices"], "|")
			}
			add(row.Name, row, row.runs)
		case len(of) != 1 || of[0].row.replacedBy != "":
			panic("byhand.tsv: " + kind + " has no one " + r["name"] + " without a replacement. This is a bug in hcl.")
		default:
			of[0].row.replacedBy = r["instead"]
		}
	}
	for _, spelt := range maps.Collect(maps.All(t.by)) {
		for _, s := range spelt {
			t.addOpposites(s, kind)
		}
	}
	for name := range t.by {
		if !strings.HasPrefix(name, "-") { // a short name, which hcl reads and does not write
			t.names = append(t.names, name)
		}
	}
	slices.Sort(t.names)
	return t
}

// addOpposites adds the names by which versions take the opposite of a switch, where they have no option of such a name.
func (t *table) addOpposites(s spelling, kind string) {
	add := func(name string, how How, since Version) {
		versions := t.versions
		if versions == nil {
			versions = []Version{{}}
		}
		var runs []span
		for i, v := range versions {
			taken := slices.ContainsFunc(t.by[name], func(other spelling) bool { return !other.how.Opposite() && other.in(v) })
			has := s.in(v) && s.row.Form(v) == SwitchNo && !v.Before(since) && !taken
			switch open := len(runs) > 0 && !runs[len(runs)-1].to.Known(); {
			case has && !open && i == 0:
				runs = append(runs, span{})
			case has && !open:
				runs = append(runs, span{from: v})
			case !has && open:
				runs[len(runs)-1].to = versions[i-1]
			}
		}
		if runs != nil {
			t.by[name] = append(t.by[name], spelling{name, s.row, runs, how})
		}
	}
	if strings.HasPrefix(s.name, "-") || s.row.form != SwitchNo && !strings.Contains(s.row.note, SwitchNo) {
		return
	}
	add("no-"+s.name, Negation, Version{})
	if rest, enables := strings.CutPrefix(s.name, "enable-"); enables && kind == "vllm" {
		add("disable-"+rest, Pair, pairsSince)
	}
	if rest, disables := strings.CutPrefix(s.name, "disable-"); disables && kind == "vllm" {
		add("enable-"+rest, Pair, pairsSince)
	}
}

// spans reads "A..B, C..D". Where the rows' versions are not known only that something has ended is.
func (t *table) spans(text string) (runs []span) {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		from, to, _ := strings.Cut(part, "..")
		s := span{ParseVersion(from), ParseVersion(to)}
		switch {
		case t.versions == nil && to == "":
			s = span{}
		case t.versions == nil:
			s = span{to: Version{0, 0, 0, 1}}
		case s.to == t.versions[len(t.versions)-1]: // a newer one may have it as well
			s.to = Version{}
		}
		runs = append(runs, s)
	}
	return runs
}

// How a name leads to a row.
type How int

const (
	None      How = iota
	Exact         // it is the row's name
	Alias         // it is another name of the row
	Negation      // no-NAME: it says the opposite
	Pair          // disable-x for enable-x, or the other way round: likewise
	Beginning     // of this option alone
	Ambiguous     // of several, in this version: the row is that of which it once was the beginning; nil: of none
)

// Opposite reports whether the name turns off what the row's turns on.
func (h How) Opposite() bool { return h == Negation || h == Pair }

// Lookup is the option that a kind's server understands by a name without its two dashes, a short
// one with its one: in a version, or, if that has none, in another one. A kind that the table does not have has none.
func Lookup(kind, name string, v Version) (*Row, How) {
	t := tables()[kind]
	if t == nil {
		return nil, None
	}
	name, _ = t.apart(name)
	v = t.versionFor(v)
	begins := func(s spelling) How {
		if s.how.Opposite() {
			return s.how
		}
		return Beginning
	}
	if i := slices.IndexFunc(t.by[name], func(s spelling) bool { return s.in(v) }); i >= 0 {
		return t.by[name][i].row, t.by[name][i].how
	}
	could := t.begun(name, func(s spelling) bool { return s.in(v) })
	switch {
	case len(could) == 1 && !t.exact:
		return could[0].row, begins(could[0])
	case len(t.by[name]) > 0:
		return t.by[name][0].row, t.by[name][0].how
	case t.exact:
		return nil, None
	}
	for _, old := range slices.Backward(t.versions) {
		switch once := t.begun(name, func(s spelling) bool { return s.in(old) }); {
		case len(once) == 1 && len(could) > 1:
			return once[0].row, Ambiguous
		case len(once) == 1:
			return once[0].row, begins(once[0])
		}
	}
	if len(could) > 1 {
		return nil, Ambiguous
	}
	return nil, None
}

// apart is a name as the table has it, and the rest: a member of an object, with its dot.
func (t *table) apart(name string) (option, member string) {
	if t == nil || !t.dashes {
		return name, ""
	}
	option, member, dotted := strings.Cut(name, ".")
	if dotted {
		member = "." + member
	}
	return strings.ReplaceAll(option, "_", "-"), member
}

// OneName is the one name for all by which a kind's server understands the same: an option, or a
// member of one; nil: one that the table does not have.
func OneName(kind, name string, row *Row) string {
	option, member := tables()[kind].apart(name)
	if row != nil {
		option = row.Name
	}
	return option + member
}

// begun are the options of which a name is the beginning, each by one of its names.
func (t *table) begun(name string, when func(spelling) bool) (could []spelling) {
	if name == "" {
		return nil
	}
	for i := sort.SearchStrings(t.names, name); i < len(t.names) && strings.HasPrefix(t.names[i], name); i++ {
		for _, s := range t.by[t.names[i]] {
			if when(s) && !slices.ContainsFunc(could, func(other spelling) bool { return other.row == s.row }) {
				could = append(could, s)
			}
		}
	}
	return could
}

// Respelled is a name as the kind's server takes it, where it is one but for underscores and
// dashes; empty: it is right, or none.
func Respelled(kind, name string, v Version) string {
	if _, how := Lookup(kind, name, v); how != None {
		return ""
	}
	for _, other := range []string{strings.ReplaceAll(name, "_", "-"), strings.ReplaceAll(name, "-", "_")} {
		if row, _ := Lookup(kind, other, v); row != nil {
			return other
		}
	}
	return ""
}

// IsNewest reports whether a version is the newest that was read of a kind, or not known. Of a kind without
// versions none is.
func IsNewest(kind string, v Version) bool {
	t := tables()[kind]
	return t != nil && t.versions != nil && t.versionFor(v) == t.versionFor(Version{})
}

// IsRead reports whether a version is one of those read of a kind, or lies between them.
func IsRead(kind string, v Version) bool {
	t := tables()[kind]
	return v.Known() && t != nil && t.versions != nil && !v.Before(t.versions[0]) && !t.versionFor(Version{}).Before(v)
}

// Has reports whether the table has a kind.
func Has(kind string) bool { return tables()[kind] != nil }
