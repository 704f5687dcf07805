package hcl

import (
	"errors"
	"strings"
	"testing"

	"hclbench/hcl/lang"
)

func TestNameOf(t *testing.T) {
	tests := []struct {
		name  string
		files map[string][]byte
		want  string
		err   string
	}{
		{"label", map[string][]byte{"lab.hcl": []byte(`lab "mine" { lease = var.lease }`)}, "mine", ""},
		{"variable without a value", map[string][]byte{"a.hcl": []byte("variable \"x\" { type = string }\nhost \"h\" { address = var.x }"), "b.hcl": []byte(`lab "mine" {}`)}, "mine", ""},
		{"directory", map[string][]byte{"lab.hcl": []byte(`host "h" { address = "local" }`)}, "team-a", ""},
		{"mistake in the text", map[string][]byte{"lab.hcl": []byte("lab \"mine\" {}\nhost \"h\" { adress = 5 }")}, "mine", ""},
		{"file that does not parse", map[string][]byte{"lab.hcl": []byte("lab \"mi")}, "", "lab.hcl does not parse"},
		{"named by another file", map[string][]byte{"a.hcl": []byte("host {{{"), "b.hcl": []byte(`lab "mine" {}`)}, "mine", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := NameOf(&lang.Source{Dir: "/srv/team a", Files: tt.files})
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("NameOf = %q, %v, want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
	if _, err := lang.Read(t.TempDir()); !errors.Is(err, lang.ErrNoLab) {
		t.Errorf("Read of an empty folder: %v, want ErrNoLab", err)
	}
}
