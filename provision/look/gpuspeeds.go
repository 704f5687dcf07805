package look

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hclbench/plain"
	"hclbench/provision"
)

// GPUSpeeds is a program for the Python of an engine, which has PyTorch: it measures the GPUs that it sees. Its words are
// PyTorch's name of their kind, and how many bytes of a GPU's memory are copied at once.
//
//go:embed gpuspeeds.py
var GPUSpeeds string

// mostGPUs is more than any host has, also in parts.
const mostGPUs = 1 << 10

// ReadGPUSpeeds reads what [GPUSpeeds] has said.
func ReadGPUSpeeds(said string) (gpus []provision.GPUSpeed, err error) {
	var answer struct {
		GPUs []provision.GPUSpeed `json:"gpus"`
	}
	err = errors.New("it has ended without a result")
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, `{"gpus":`) {
			from := json.NewDecoder(strings.NewReader(line))
			from.DisallowUnknownFields()
			err = from.Decode(&answer)
		}
	}
	if err != nil {
		return nil, err
	}
	if n := len(answer.GPUs); n == 0 || n > mostGPUs {
		return nil, fmt.Errorf("it tells of %d GPUs", n)
	}
	for i := range answer.GPUs {
		g := &answer.GPUs[i]
		g.Name, g.At = plain.Cut(plain.Line(g.Name), 100), plain.Cut(plain.Line(g.At), 100)
		if g.Memory <= 0 || g.To <= 0 || g.From <= 0 || len(g.Peers) != len(answer.GPUs) {
			return nil, fmt.Errorf("it does not tell all of gpu%d", i)
		}
		for j, peer := range g.Peers {
			if peer < 0 || (peer > 0) == (i == j) {
				return nil, fmt.Errorf("it does not tell what gpu%d copies to gpu%d", i, j)
			}
		}
	}
	return answer.GPUs, nil
}
