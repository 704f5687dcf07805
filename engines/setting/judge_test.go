package setting

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hclbench/engines/setting/published"
)

// TestJudge: of 4,000 names in versions at random, at least half of them gone or not there yet, each is judged right, and
// what is named instead is there.
func TestJudge(t *testing.T) {
	r := rand.New(rand.NewPCG(26, 2))
	told := map[Fault]int{}
	type table struct {
		versions []string
		names    []map[string]published.Option
		all      []string
	}
	has := func(taken map[string]published.Option, name string) bool { _, is := taken[name]; return is }
	tables := map[string]table{}
	for range 4000 {
		kind := []string{"vllm", "sglang", "vllm", "sglang", "vllm_router", "sglang_router", "vllm_env"}[r.IntN(7)]
		if _, read := tables[kind]; !read {
			read := table{}
			read.versions, read.names = published.Read(t, ".", kind)
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
		for try := 0; try < 20 && r.IntN(3) > 0 && has(names[at], name); try++ { // more of those that are not there
			at, name = r.IntN(len(versions)), list[r.IntN(len(list))]
		}
		want, when := Right, -1
		begins := map[string]bool{}
		for other, option := range names[at] {
			if strings.HasPrefix(other, name) && kind != "vllm_env" {
				begins[option.Name] = true
			}
		}
		was := func(in map[string]published.Option) bool { return has(in, name) }
		if !has(names[at], name) && (len(begins) != 1 || slices.ContainsFunc(names[:at], was)) {
			want = Unknown
			for i := range versions {
				if has(names[i], name) && (i < at || want == Unknown) {
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
		if named := names[at]; got.Instead != "" && !slices.ContainsFunc(list, func(s string) bool { return has(named, s) && there(s) }) {
			t.Errorf("%s %s --%s: write %s, which is not there", kind, versions[at], name, got.Instead)
		}
	}
	if told[Gone] < 200 || told[NotYet] < 2000 || told[Right] < 400 || told[Deprecated] < 5 {
		t.Errorf("judged were %v", told)
	}
}
