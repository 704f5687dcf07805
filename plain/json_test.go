package plain

import "testing"

func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"b","n":1.50,"u":"ü \"q\" \n"}`:     `{"a":"b","n":1.50,"u":"ü \"q\" \n"}`,
		`{"\u001b[2Ja" : ["\u001b[31mred", 1e3]}`: `{"a" : ["red", 1e3]}`,
		"[\"\xff\"]": `["` + "\ufffd" + `"]`,
		`["\u202eturned", "kept \u003c", "\\u001b[m"]`: `["` + "\ufffd" + `turned", "kept \u003c", "\\u001b[m"]`,
		`"not ended`: `"not ended`,
		`null`:       `null`,
	} {
		if got := string(JSON([]byte(in))); got != want {
			t.Errorf("JSON(%q) = %q, want %q", in, got, want)
		}
	}
}
