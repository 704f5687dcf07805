package apply

import (
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
)

func TestExcerpt(t *testing.T) {
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, "line %02d\n", i)
	}
	text := lines.String() // 800 bytes
	for _, test := range []struct {
		begin, end int
		want       string
	}{
		{1000, 10, text},
		{800, 10, text},
		{100, 700, text},
		{20, 20, "line 00\nline 01\n… 768 bytes are left out …\nline 98\nline 99\n"},
		{3, 9, "… 792 bytes are left out …\nline 99\n"},
	} {
		got, err := excerpt(iotest.OneByteReader(strings.NewReader(text)), test.begin, test.end)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, string(got)); diff != "" {
			t.Errorf("excerpt(%d, %d) (-want +got):\n%s", test.begin, test.end, diff)
		}
	}
}

func TestWithoutSecrets(t *testing.T) {
	ct := provision.Container{
		Env:     []provision.EnvVar{{Name: "HF_TOKEN", Value: provision.Secret("hf_abc")}, {Name: "RANK", Value: provision.Secret("1")}, {Name: "OPEN", Value: provision.Plain("shown")}},
		Command: []provision.Text{provision.Plain("--api-key"), provision.Secret("sk-123")},
	}
	got := withoutSecrets([]byte("1 hf_abc shown sk-123 hub-77"), "hub-77", ct)
	if want := "1 (sensitive) shown (sensitive) (sensitive)"; string(got) != want {
		t.Errorf("withoutSecrets = %q, want %q", got, want)
	}
}
