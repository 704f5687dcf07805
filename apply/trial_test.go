package apply

import (
	"testing"

	"hclbench/engines"
	"hclbench/provision"
)

func TestGPUsUsed(t *testing.T) {
	host := &provision.Host{GPUs: provision.GPUs{Count: 8}}
	tp := provision.Plain("4")
	for _, c := range []struct {
		name   string
		engine engines.Engine
		want   int
	}{
		{"of a host without any", engines.Engine{Kind: engines.VLLM, Host: &provision.Host{}}, 0},
		{"one is what vLLM takes", engines.Engine{Kind: engines.VLLM, Host: host}, 1},
		{"by its flags", engines.Engine{Kind: engines.VLLM, Host: host, Flags: []engines.Flag{{Name: "tensor-parallel-size", Value: &tp}}}, 4},
		{"named", engines.Engine{Kind: engines.VLLM, Host: host, Container: engines.ContainerSettings{GPUIDs: []string{"0", "3"}}}, 2},
		{"who knows", engines.Engine{Kind: engines.OpenAI, Host: host}, 8},
	} {
		if got := gpusUsed(&c.engine); got != c.want {
			t.Errorf("%s: %d GPUs, want %d", c.name, got, c.want)
		}
	}
}
