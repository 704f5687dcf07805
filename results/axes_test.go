package results

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAxesRoundTrip(t *testing.T) {
	for name, c := range map[string]struct {
		axes Axes
		text string
	}{
		"none":    {Axes{}, `{}`},
		"order":   {Axes{{"z", int64(1)}, {"a", int64(2)}, {"m", int64(3)}}, `{"z":1,"a":2,"m":3}`},
		"types":   {Axes{{"i", int64(4)}, {"f", 4.0}, {"g", 0.1}, {"b", false}, {"s", "4"}}, `{"i":4,"f":4.0,"g":0.1,"b":false,"s":"4"}`},
		"extreme": {Axes{{"i", int64(math.MaxInt64)}, {"f", 1e21}, {"g", math.SmallestNonzeroFloat64}, {"n", math.Copysign(0, -1)}}, `{"i":9223372036854775807,"f":1e+21,"g":5e-324,"n":-0.0}`},
		"text":    {Axes{{"a \"b\"", "ü\n"}, {"", ""}}, `{"a \"b\"":"ü\n","":""}`},
		"null":    {Axes{{"x", nil}}, `{"x":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := json.Marshal(c.axes)
			check(t, err)
			if diff := cmp.Diff(c.text, string(b)); diff != "" {
				t.Errorf("Marshal (-want +got):\n%s", diff)
			}
			var got Axes
			check(t, json.Unmarshal(b, &got))
			if diff := cmp.Diff(c.axes, got); diff != "" {
				t.Errorf("Unmarshal (-want +got):\n%s", diff)
			}
		})
	}
	for _, bad := range []string{`[1]`, `{"a":[1]}`, `{"a":{}}`, `{"a":9223372036854775808}`, `"x"`} {
		if err := json.Unmarshal([]byte(bad), new(Axes)); err == nil {
			t.Errorf("Unmarshal(%s): no error", bad)
		}
	}
}

func FuzzAxes(f *testing.F) {
	f.Add(`{"engine":"vllm.h200","concurrency":64,"rate":1.0}`)
	f.Add(`{"a":1e400}`)
	f.Add(`{"a":1,"a":2}`)
	f.Fuzz(func(t *testing.T, text string) {
		var a, b Axes
		if json.Unmarshal([]byte(text), &a) != nil {
			return
		}
		again, err := json.Marshal(a)
		check(t, err)
		check(t, json.Unmarshal(again, &b))
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s (-first +second):\n%s", text, diff)
		}
	})
}
