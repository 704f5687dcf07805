package testhost

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Readable fails the test for each rule of axe-core that a page breaks, of any impact,
// in what a CSS selector names: what keeps people from reading it who see or press in
// another way. what says which page it is.
func (tab *Tab) Readable(t testing.TB, what, selector string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	axe, err := os.ReadFile(filepath.Join(cache, "hclbench-test", "axe.min.js"))
	if err != nil {
		t.Fatalf("read axe-core (scripts/prepare fetches it): %v", err)
	}
	tab.Eval(t, "window.axe ? 0 : "+string(axe), nil)
	of, err := json.Marshal(selector)
	if err != nil {
		t.Fatal(err)
	}
	var broken []string
	tab.Eval(t, `axe.run(`+string(of)+`, { resultTypes: ["violations"] }).then(found => found.violations.map(v =>
		v.id + " (" + v.impact + "), " + v.nodes.length + " times: " + v.help + v.nodes.slice(0, 5).map(n => "\n\t" +
			n.target.join(" ") + ": " + n.any.concat(n.all, n.none).map(c => c.message).join("; ")).join("")))`, &broken)
	for _, b := range broken {
		t.Errorf("%s: %s", what, b)
	}
}
