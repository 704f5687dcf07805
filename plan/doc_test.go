package plan

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"hclbench/provision"
)

// TestDocumented: docs/plan.md names every member of the plan's JSON form, and
// every mark of its text.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/plan.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"+", "~", "=", string(Measure), string(Stale), string(Done), FormatVersion, string(ByHost), string(ByEngine), string(ByBenchmark)}
	for _, v := range []any{jsonPlan{}, jsonDeployment{}, jsonCell{}, Counts{}, provision.Container{}, provision.EnvVar{}, provision.Mount{}, provision.Ulimit{}} {
		for field := range reflect.TypeOf(v).Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "-" && name != "" {
				want = append(want, name)
			}
		}
	}
	for _, name := range append(want, "stop_grace") {
		if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "`\""+name+"\"`") {
			t.Errorf("docs/plan.md does not mention `%s`", name)
		}
	}
}
