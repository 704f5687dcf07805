package setting

import (
	"slices"
	"strings"
	"sync"
)

// Meaning is what hcl understands of options, of several kinds where they mean the same.
type Meaning struct {
	Name string // "tensor parallel"

	is         []string
	multiplies []string            // kinds in which it multiplies the GPUs
	hint       map[string]string   // by kind: the first option's name
	told       map[string][]string // by kind: where the server tells it
	bench      string              // its name at trtllm-bench; empty: it has none there
}

// The meanings that are asked for by name.
const (
	TensorParallel = "tensor parallel"
	DataParallel   = "data parallel"
	RanksAsServers = "ranks as servers"
	DPAttention    = "attention in data parallel"
	AttentionRanks = "attention ranks"
	Draft          = "draft model"
	DraftRevision  = "revision of the draft model"
	EveryHost      = "balancing on every host"
	Discovery      = "discovery"
	Model          = "model"
	Revision       = "revision"
	Tokenizer      = "tokenizer"
	ServedName     = "name of the model"
	Host           = "host"
	Port           = "port"
	CountersHost   = "counters' host"
	CountersPort   = "counters' port"
	ConfigFile     = "configuration file"
	Key            = "key"
	Adapters       = "adapters"
	AdaptersOn     = "adapters on"
	ContextLength  = "context length"
	BlockSize      = "size of a block"
	Backend        = "backend"
	Counters       = "counters"
	NoCounters     = "no counters"
)

// What meanings are, see meanings.tsv.
const (
	Count     = "count"
	Share     = "share"
	Hint      = "hint"
	Agreed    = "agreed"
	Ours      = "ours"
	Listening = "listening"
	Secret    = "secret"
	Launcher  = "launcher"
	Drafts    = "drafts"
	Served    = "served"
)

// Is reports whether the meaning is one of [Count] and so on; of nothing that is understood nothing.
func (m *Meaning) Is(what string) bool { return m != nil && slices.Contains(m.is, what) }

// Multiplies reports whether it multiplies the GPUs that an engine of a kind takes.
func (m *Meaning) Multiplies(kind string) bool { return slices.Contains(m.multiplies, kind) }

// Told are the members by which the server of a kind tells it, with dots between their names.
func (m *Meaning) Told(kind string) []string {
	if m == nil {
		return nil
	}
	return m.told[kind]
}

// HintOf is what a kind calls it, where the kinds' options are the same ([Hint]); empty: it has no name there.
func (m *Meaning) HintOf(kind string) string {
	if !m.Is(Hint) {
		return ""
	}
	return m.hint[kind]
}

// Bench is its name at trtllm-bench; empty: it has none.
func (m *Meaning) Bench() string {
	if m == nil {
		return ""
	}
	return m.bench
}

type understood struct {
	all []*Meaning
	of  map[*Row]*Meaning
}

var meanings = sync.OnceValue(func() understood {
	u := understood{of: map[*Row]*Meaning{}}
	_, rows := lines("meanings.tsv")
	for _, r := range rows {
		m := &Meaning{Name: r["meaning"], is: strings.Fields(r["is"]), multiplies: strings.Fields(r["multiplies"]),
			hint: map[string]string{}, told: map[string][]string{}, bench: r["trtllm_bench"]}
		u.all = append(u.all, m)
		for kind, t := range tables() {
			m.told[kind] = strings.Fields(r["told_"+kind])
			for i, name := range strings.Fields(r[kind]) {
				if i == 0 {
					m.hint[kind] = name
				}
				for _, row := range t.meant(kind, name) {
					if u.of[row] == nil { // the first line that has it
						u.of[row] = m
					}
				}
			}
		}
	}
	return u
})

// meant are the options that a line of meanings.tsv names.
func (t *table) meant(kind, name string) (rows []*Row) {
	if begins, all := strings.CutSuffix(name, "*"); all {
		for _, s := range t.begun(begins, func(s spelling) bool { return true }) {
			rows = append(rows, s.row)
		}
		return rows
	}
	for _, s := range t.by[name] {
		rows = append(rows, s.row)
	}
	if rows == nil {
		panic("meanings.tsv: " + kind + " has no " + name + ". This is a bug in hcl.")
	}
	return rows
}

// Means is what hcl understands of an option; nil: nothing.
func Means(row *Row) *Meaning { return meanings().of[row] }

// All are the meanings, in the order of their file.
func All() []*Meaning { return meanings().all }
