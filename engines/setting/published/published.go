// Package published reads the tables of settings for tests, in a way of its own: column by column, by the places of
// versions in the list of those read, and by no number.
package published

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Option is an option as a version has it.
type Option struct {
	Name, Form string
	Deprecated bool
}

// Read returns the versions of a kind that were read, oldest first, and of each the names that it takes. The tables are
// in a folder.
func Read(t testing.TB, folder, kind string) (versions []string, taken []map[string]Option) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, strings.ReplaceAll(kind, "_", "-")+".tsv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	versions = strings.Fields(strings.TrimPrefix(lines[0], "# versions read: "))
	for range versions {
		taken = append(taken, map[string]Option{})
	}
	at := func(v string) int { return slices.Index(versions, strings.TrimPrefix(v, "<=")) }
	gap := regexp.MustCompile(`(?:^|; )in ([^;]+\.\.[^;]+)`)
	itself := regexp.MustCompile(`itself (\S+)`)
	form := regexp.MustCompile(`(?m)^(\S+) to (\S+) in ([\d.a-z]+)$`)
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
		now, changes := c[2], form.FindAllStringSubmatch(strings.ReplaceAll(c[9], "; ", "\n"), -1)
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
					option := Option{c[0], forms[i], c[7] != "" && i >= at(c[7])}
					taken[i][name] = option
					if forms[i] != "switch/no" || strings.HasPrefix(name, "-") {
						continue
					}
					taken[i]["no-"+name] = option
					if kind == "vllm" && i >= at("0.33.0") {
						if rest, is := strings.CutPrefix(name, "enable-"); is {
							taken[i]["disable-"+rest] = option
						}
						if rest, is := strings.CutPrefix(name, "disable-"); is {
							taken[i]["enable-"+rest] = option
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
	return versions, taken
}
