package setting

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// published are the names that each version of a kind takes, by the option that they are of, read out of the kind's
// file in a way of its own: column by column, by the places of versions in the list of those read, and by no number.
func published(t *testing.T, kind string) (versions []string, names []map[string]string) {
	text, err := os.ReadFile(strings.ReplaceAll(kind, "_", "-") + ".tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	versions = strings.Fields(strings.TrimPrefix(lines[0], "# versions read: "))
	for range versions {
		names = append(names, map[string]string{})
	}
	at := func(v string) int { return slices.Index(versions, strings.TrimPrefix(v, "<=")) }
	gap := regexp.MustCompile(`(?:^|; )in ([^;]+\.\.[^;]+)`)
	itself := regexp.MustCompile(`itself (\S+)`)
	form := regexp.MustCompile(`(?:^|; )(\S+) to (switch\S*|\S+) in ([\d.a-z]+)(?:;|$)`)
	head := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "name\t") })
	columns := strings.Split(lines[head], "\t")
	for _, line := range lines[head+1:] {
		cells := strings.Split(line, "\t")
		c := make([]string, 10)
		for i, column := range strings.Fields("name aliases type choices default first last deprecated instead note") {
			if j := slices.Index(columns, column); j >= 0 && j < len(cells) {
				c[i] = cells[j]
			}
		}
		last := c[6]
		if last == "" {
			last = versions[len(versions)-1]
		}
		whole := c[5] + ".." + last
		if m := gap.FindStringSubmatch(c[9]); m != nil {
			whole = strings.ReplaceAll(m[1], ", ", ",")
		}
		forms := make([]string, len(versions)) // back from the newest
		now, changes := c[2], form.FindAllStringSubmatch(c[9], -1)
		for i := len(versions) - 1; i >= 0; i-- {
			forms[i] = now
			for _, m := range changes {
				if at(m[3]) == i && m[1] != "announced" {
					now = m[1]
				}
			}
		}
		spelt := func(name, spans string) {
			for _, span := range strings.Split(spans, ",") {
				from, to, _ := strings.Cut(strings.TrimSpace(span), "..")
				for i := at(from); i <= at(to); i++ {
					names[i][name] = c[0]
					if forms[i] != "switch/no" {
						continue
					}
					names[i]["no-"+name] = c[0]
					if kind == "vllm" && i >= at("0.33.0") {
						if rest, is := strings.CutPrefix(name, "enable-"); is {
							names[i]["disable-"+rest] = c[0]
						}
						if rest, is := strings.CutPrefix(name, "disable-"); is {
							names[i]["enable-"+rest] = c[0]
						}
					}
				}
			}
		}
		own := whole
		if m := itself.FindStringSubmatch(c[9]); m != nil {
			own = strings.Trim(m[1], ";,")
		}
		spelt(c[0], own)
		for _, alias := range strings.Fields(c[1]) {
			name, when, limited := strings.Cut(strings.TrimSuffix(alias, "]"), "[")
			if !limited {
				when = whole
			}
			spelt(name, when)
		}
	}
	return versions, names
}

// TestJudge: of 4,000 names in versions at random, at least half of them gone or not there yet, each is judged right, and
// what is named instead is there.
func TestJudge(t *testing.T) {
	r := rand.New(rand.NewPCG(26, 2))
	told := map[Fault]int{}
	type table struct {
		versions []string
		names    []map[string]string
		all      []string
	}
	tables := map[string]table{}
	for range 4000 {
		kind := []string{"vllm", "sglang", "vllm", "sglang", "vllm_router", "sglang_router", "vllm_env"}[r.IntN(7)]
		if _, read := tables[kind]; !read {
			read := table{}
			read.versions, read.names = published(t, kind)
			for _, in := range read.names {
				for name := range in {
					if !strings.HasPrefix(name, "-") {
						read.all = append(read.all, name)
					}
				}
			}
			slices.Sort(read.all)
			read.all = slices.Compact(read.all)
			tables[kind] = read
		}
		versions, names, list := tables[kind].versions, tables[kind].names, tables[kind].all
		at, name := r.IntN(len(versions)), list[r.IntN(len(list))]
		for try := 0; try < 20 && r.IntN(3) > 0 && names[at][name] != ""; try++ { // more of those that are not there
			at, name = r.IntN(len(versions)), list[r.IntN(len(list))]
		}
		want, when := Right, -1
		begins := map[string]bool{}
		for other, option := range names[at] {
			if strings.HasPrefix(other, name) && !strings.HasPrefix(other, "no-") && kind != "vllm_env" {
				begins[option] = true
			}
		}
		if names[at][name] == "" && len(begins) != 1 {
			want = Unknown
			for i := range versions {
				if names[i][name] != "" && (i < at || want == Unknown) {
					want, when = NotYet, i
					if i < at {
						want = Gone
					}
				}
			}
			if len(begins) > 1 && want == NotYet {
				want, when = Several, -1
			}
		}
		got := Judge(kind, name, ParseVersion(versions[at]))
		told[got.Fault]++
		if got.Fault == Deprecated {
			got.Fault = Right
		}
		if got.Fault != want || when >= 0 && got.Version != ParseVersion(versions[when]) {
			t.Errorf("%s %s --%s: %v %s, want %v %d", kind, versions[at], name, got.Fault, got.Version, want, when)
		}
		instead := regexp.MustCompile(`^[\w-]*`).FindString(got.Instead)
		there := func(name string) bool { return instead == "" || strings.HasPrefix(name, instead) }
		if named := names[at]; got.Instead != "" && !slices.ContainsFunc(list, func(s string) bool { return named[s] != "" && there(s) }) {
			t.Errorf("%s %s --%s: write %s, which is not there", kind, versions[at], name, got.Instead)
		}
	}
	if told[Gone] < 200 || told[NotYet] < 2000 || told[Right] < 400 || told[Deprecated] < 10 {
		t.Errorf("judged were %v", told)
	}
}
