package hcl

import (
	"encoding/json"
	"os"
	"testing"
)

func TestScratch(t *testing.T) {
	src, err := Read(os.Getenv("LAB"))
	if err != nil {
		t.Fatal(err)
	}
	c, p := Load(src, Vars{Values: []string{"h200_address=1.2.3.4", "hf_token=hunter2"}})
	t.Log("\n" + printed(t, p))
	if c != nil {
		b, _ := json.MarshalIndent(c.Engines, "", " ")
		t.Log(string(b))
		for _, b := range c.Benchmarks {
			for _, x := range b.Cells {
				t.Log(x.Axes, x.Engine)
			}
		}
	}
}
