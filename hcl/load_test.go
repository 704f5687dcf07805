package hcl

import (
	"strings"
	"testing"
)

// loadText loads one file of text.
func loadText(t *testing.T, s string, vars Vars) (*Config, *Problems) {
	t.Helper()
	return Load(&Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(s)}}, vars)
}

func printed(t *testing.T, p *Problems) string {
	t.Helper()
	var b strings.Builder
	if err := p.Write(&b, 80, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestQuickstart(t *testing.T) {
	src, err := Read("../examples/quickstart")
	if err != nil {
		t.Fatal(err)
	}
	c, p := Load(src, Vars{})
	if len(p.List()) > 0 {
		t.Fatal(printed(t, p))
	}
	for _, b := range c.Benchmarks {
		for _, x := range b.Cells {
			t.Log(x.Axes, x.Engine, x.Workload)
		}
	}
}
