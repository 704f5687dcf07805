package load

import (
	"reflect"
	"strings"
	"testing"
)

// TestArguments: every member of a load and of a data set is in one row, and what is made from the rows has what it
// needs. A member that nobody can say stands here.
func TestArguments(t *testing.T) {
	inOneRow(t, arguments, "Speed")       // the lab's rehearsal says it
	inOneRow(t, datasetArguments, "Kind") // the label of its block
	for _, a := range datasetArguments {
		for _, kind := range append(a.Needed, a.May...) {
			if (Dataset{Kind: kind}).kind().name == "" {
				t.Errorf("%s is of a kind %q, which is none", a.Name, kind)
			}
		}
		if a.Needed == nil && a.May == nil || (a.Needed != nil) != (a.Hint != "") {
			t.Errorf("%s: needed by %q, of %q, with the hint %q", a.Name, a.Needed, a.May, a.Hint)
		}
	}
	for field, want := range map[string]string{"dataset.kind": "--dataset", "dataset.think_time": "--think-time", "stages": "--stage",
		"stream": "--no-stream", "dataset.image_sizes": "--image-size", "rate": "--rate"} {
		if got := FlagOf(field); got != want {
			t.Errorf("the flag of %s is %s, want %s", field, got, want)
		}
	}
}

func inOneRow[N Workload | Dataset](t *testing.T, all []Argument[N], no ...string) {
	var n N
	rows, names := map[any]int{}, map[string]bool{}
	for _, a := range all {
		rows[a.Field(&n)]++
		if names[a.Name] {
			t.Errorf("two rows are named %s", a.Name)
		}
		names[a.Name] = true
	}
	v := reflect.ValueOf(&n).Elem()
	for i := range v.NumField() {
		field, want := v.Type().Field(i), 1
		if strings.Contains(strings.Join(no, " "), field.Name) {
			want = 0
		}
		if got := rows[v.Field(i).Addr().Interface()]; got != want {
			t.Errorf("%s.%s is in %d rows, want %d", v.Type().Name(), field.Name, got, want)
		}
	}
}
