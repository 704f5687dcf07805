package engines

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/provision"
)

var simulated = kind{
	program: func(e *Engine) []string {
		if e.Router {
			return append([]string{provision.Self, "sim"}, e.Words...)
		}
		return []string{provision.Self, "sim", "--model", simModel(e)}
	},
	port:     8000,
	modelID:  simModel,
	health:   "/health",
	reset:    reset{posts: func(*Engine) ([]string, string) { return []string{"/reset_prefix_cache"}, "" }},
	generate: true,
	bench:    simBench,

	rank: func(e *Engine, s *spot) (answers bool) {
		if e.speaksAs() == SGLang {
			return sglangRank(e, s)
		}
		return vllmRank(e, s)
	},
	transfers: []string{"nixl", mooncake, "mori", "p2p_nccl"},
	disaggregate: func(e *Engine, s *spot) {
		if e.speaksAs() == SGLang {
			sglangSplit(e, s)
		} else {
			vllmSplit(e, s)
		}
	},
	routes: func(e *Engine, r routing) {
		if r.as == SGLang {
			sglangRoutes(e, r)
			e.Words = append(slices.Clone(sglangRouterProgram), e.Words...)
		} else {
			vllmRoutes(e, r)
			e.Words = append([]string{vllmRouterProgram}, e.Words...)
		}
	},
}

func simModel(e *Engine) string {
	if e.Router {
		return ""
	}
	if e.Model != nil {
		return e.Model.Repo
	}
	return "sim"
}

// speaksAs is the kind as which an engine answers.
func (e *Engine) speaksAs() string {
	if e.Kind != Sim {
		return e.Kind
	}
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

// adapterName is the name of a LoRA adapter as engines are told of it: NAME=PATH, of SGLang PATH alone, or
// an object.
func adapterName(told string) string {
	var object struct {
		Name     string `json:"name"`
		LoraName string `json:"lora_name"`
	}
	if json.Unmarshal([]byte(told), &object) == nil {
		return cmp.Or(object.Name, object.LoraName)
	}
	name, _, _ := strings.Cut(told, "=")
	return name
}

// gpusUsed are the GPUs that an engine uses of its host, where it is not all of them: those that the lab
// gives it, or the first, as many as its flags ask for.
func gpusUsed(e *Engine) (ids []string) {
	if len(e.GPUIDs()) > 0 || e.Host() == nil || GPUsUsed(e) == e.Host().GPUs.Count {
		return e.GPUIDs()
	}
	for i := range GPUsUsed(e) {
		ids = append(ids, strconv.Itoa(i))
	}
	return ids
}

// Simulated is the engine's stand-in for a rehearsal: the simulated engine on this machine,
// in the places of its hosts, listening on port or, of several members, on ports from there
// on, serving the same model under the same name and speaking like the kind it stands for, at
// speed times its usual pace.
func Simulated(e *Engine, place func(*provision.Host) *provision.Host, port int, speed float64) *Engine {
	if e.Host() == nil { // others run it
		e = e.at(Instance{Hosts: []*provision.Host{nil}})
	}
	s := e.standIn(speed)
	s.FirstPort = port
	for _, r := range e.roles() {
		var recipe *Engine
		if e.Kind == GroupKind {
			recipe = r.engine.standIn(speed)
		}
		for _, in := range r.instances {
			stand := Instance{Role: in.Role, Engine: recipe, GPUIDs: gpusUsed(r.engine.at(in))}
			for _, h := range in.Hosts {
				stand.Hosts = append(stand.Hosts, place(h))
			}
			switch {
			case r.name == Route:
				stand.Port = port - 1
			case recipe == nil:
				stand.Port = port
			}
			s.Placement = append(s.Placement, stand)
		}
	}
	return s
}

// standIn is the recipe of the simulated engine that stands for another.
func (e *Engine) standIn(speed float64) *Engine {
	s := &Engine{
		Kind: Sim, Declared: cmp.Or(e.Declared, e.Kind), Name: e.Name, Instance: e.Instance, Description: e.Description,
		Model: e.Model, Ready: e.Ready, Pos: e.Pos, Router: e.Router, Without: e.Without,
	}
	if e.Kind == GroupKind {
		s.Kind, s.Transfer = GroupKind, e.Transfer
		return s
	}
	if e.Router {
		return s
	}
	add := func(name, value string) {
		text := provision.Plain(value)
		s.Flags = append(s.Flags, Flag{Name: name, Value: &text})
	}
	switch {
	case e.Kind == Sim:
		s.Flags = slices.Clone(e.Flags)
	default:
		s.Model = &Model{Repo: cmp.Or(ServedModel(e), "rehearsal")}
		if kinds[e.Kind].needsModel {
			add("as", e.Kind)
		}
		var adapters []string
		d := e.dialect()
		for _, f := range e.Flags {
			switch m := d.means(f.Name); {
			case strings.HasPrefix(d.key(f.Name), "data-parallel"): // they say which ranks there are
				s.Flags = append(s.Flags, f)
			case m != nil && m.Name == setting.Adapters && f.Value != nil:
				adapters = append(adapters, adapterName(f.Value.Reveal()))
			}
		}
		if adapters != nil {
			add("adapters", strings.Join(adapters, ","))
		}
	}
	if speed != 1 {
		add("speed", strconv.FormatFloat(speed, 'g', -1, 64))
	}
	return s
}
