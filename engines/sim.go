package engines

import (
	"cmp"
	"slices"
	"strconv"

	"hclbench/provision"
	"hclbench/telemetry"
)

var simulated = kind{
	program:  func(e *Engine) []string { return []string{provision.Self, "sim", "--model", simModel(e)} },
	port:     8000,
	modelID:  simModel,
	health:   "/health",
	reset:    reset{path: "/reset_prefix_cache"},
	generate: true,
	exports: func(e *Engine) *telemetry.Exports {
		switch e.speaksAs() {
		case VLLM:
			return vllmExports()
		case SGLang:
			return sglangExports()
		}
		return nil // as TensorRT-LLM it tells no iterations
	},
	bench: simBench,
}

func simModel(e *Engine) string {
	if e.Model != nil {
		return e.Model.Repo
	}
	return "sim"
}

// speaksAs is the kind as which the simulated engine answers.
func (e *Engine) speaksAs() string {
	if as, ok := e.Flag("as"); ok {
		return as
	}
	return VLLM
}

// simBench is the benchmark of the kind as which it speaks.
func simBench(e *Engine, out *Bench) (argv []string, flags []Flag, err error) {
	bench := vllmBench
	switch e.speaksAs() {
	case SGLang:
		bench = sglangBench
	case TRTLLM:
		bench = trtllmBench
	}
	argv, _, err = bench(e, out)
	return append([]string{provision.Self, "sim"}, argv...), e.Flags, err
}

// Simulated is the engine's stand-in for a rehearsal: the simulated engine on
// this machine, listening on port, serving the same model under the same name
// and speaking like the kind it stands for, at speed times its usual pace.
func Simulated(e *Engine, host *provision.Host, port int, speed float64) *Engine {
	s := &Engine{
		Kind: Sim, Declared: cmp.Or(e.Declared, e.Kind), Name: e.Name, Instance: e.Instance, Description: e.Description,
		Host: host, Model: e.Model, Port: port, Ready: e.Ready, Pos: e.Pos,
	}
	add := func(name, value string) {
		text := provision.Plain(value)
		s.Flags = append(s.Flags, Flag{Name: name, Value: &text})
	}
	if e.Kind == Sim {
		s.Flags = slices.Clone(e.Flags)
	} else {
		s.Model = &Model{Repo: cmp.Or(ServedModel(e), "rehearsal")}
		if kinds[e.Kind].needsModel {
			add("as", e.Kind)
		}
	}
	if speed != 1 {
		add("speed", strconv.FormatFloat(speed, 'g', -1, 64))
	}
	return s
}
