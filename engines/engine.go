// Package engines knows what each inference engine needs: its command line, its
// container on each GPU vendor, how to tell that it really serves, which log
// lines mean that it never will, and how its prefix cache is dropped.
//
// Everything here is a pure function from an [Engine] to data. The package
// contacts nothing, and knows nothing of labs, plans or measurements.
package engines

import (
	"cmp"
	"time"

	"hclbench/provision"
)

// The engine kinds, as users write them: engine "vllm" "NAME".
const (
	SGLang   = "sglang"
	VLLM     = "vllm"
	TRTLLM   = "trtllm"
	OpenAI   = "openai"    // any server that speaks the OpenAI API
	External = "external"  // a server that someone else runs
	Operated = "manifests" // what operators of a cluster make of objects
	Sim      = "sim"       // the simulated engine in the hcl binary
)

// Model is a model as a model block describes it.
type Model struct {
	Name     string
	Repo     string // "deepseek-ai/DeepSeek-R1", or a directory of the host
	Revision string // commit or branch; empty: the repository's default
	Cache    string // Hugging Face cache directory on the host; mounted into every engine
	Size     int64  // bytes; 0: not said
	Download bool   // brought into Cache before an engine starts; else the engine fetches what is missing
	Pos      string
}

// Flag is one command-line flag of an engine. Names are as the engine spells
// them, without the leading dashes.
type Flag struct {
	Name  string
	Value *provision.Text // nil: a bare flag, "--trust-remote-code"
	Off   bool            // the lab says false: what that comes to, [Settle] decides
}

// ContainerSettings override what an engine kind would ask of its container.
// Zero values leave the kind's choice alone.
type ContainerSettings struct {
	Entrypoint  []string
	ShmSize     int64 // bytes
	IPC         string
	Network     string
	Privileged  *bool
	User        string
	CapAdd      []string
	SecurityOpt []string
	Devices     []string
	Mounts      []provision.Mount
	StopGrace   time.Duration
	Ulimits     []Ulimit
}

// Ulimit sets a resource limit of the container, soft and hard, or leaves it to
// the daemon. A daemon that is not fully root, a rootless one say, can raise none.
type Ulimit struct {
	Name  string
	Value *int64 // -1 is unlimited; nil: the daemon's own
}

// Ready says when waiting for an engine is given up.
type Ready struct {
	Stall   time.Duration // nothing has moved for this long; 0 means [DefaultStall]
	Timeout time.Duration // in all; 0: no limit but the lab's
}

// DefaultStall is long because a first start compiles kernels in silence.
const DefaultStall = 15 * time.Minute

// Build is a step before the first start of an engine, such as a compilation for
// TensorRT-LLM. Its output is kept on the host, and used again until something
// that goes into it changes; it is what the server then serves.
type Build struct {
	Commands []string // shell commands, one after the other, in a container of their own
	Output   string   // absolute path in the container: what the commands leave there is kept
	Image    string   // of that container; empty: the engine's
	Inputs   []string // other things that the output depends on: when one changes it is built again
}

// Engine is a recipe and where it runs, as an engine or a group block describes them, inheritance and matrix
// values already applied.
type Engine struct {
	Kind        string
	Declared    string // in a rehearsal: the kind of the engine that this one stands for; empty: Kind
	Name        string // "h200"; of an instance of for_each "all-a", unique among its kind
	Instance    string // how the lab refers to an instance of for_each: `all["a"]`; empty: by its name
	Description string
	Placement   Placement // where it runs; of one that others run, where load on it is sent from
	FirstPort   int       // of its members, where there are several; 0: 20000
	Model       *Model    // nil where the kind does not need one
	Image       string
	Env         []provision.EnvVar // sorted by name
	Flags       []Flag             // sorted by name
	Config      provision.Text     // JSON object: members of a configuration file of the engine's own; empty: none
	Version     string             // of the engine itself: "0.7.3"; empty: the image's tag may tell
	Setup       []string           // shell commands run in the container before the server
	Command     []provision.Text   // replaces the whole server command
	// OfflineCommand begins the command of the engine's offline benchmark, before its
	// arguments; empty: as the kind and the version have it.
	OfflineCommand []string
	// CompileCache is a directory on the host that keeps the kernels which the engine
	// compiles from one start to the next; empty: they are lost with the container.
	CompileCache string
	URL          string         // external only
	URLs         []string       // external only: more servers of the same model, which requests go to in turn
	Manifests    *Manifests     // of kind manifests only
	APIKey       provision.Text // what requests carry; empty: nothing. Always treated as a secret
	Container    ContainerSettings
	Ready        Ready
	Build        *Build // nil: the model is served as it is
	Pos          string

	// Without is the setting that forces acceptance, where the lab's engine has it and this one is a start of it for questions alone,
	// see [Unforced]; empty: it is as the lab says.
	Without string

	Transfer string   // of a group: how the KV cache goes from prefill to decode; empty: in the engine's usual way
	Router   bool     // it gives requests to others, and needs no GPU
	Words    []string // of a member that is a router: what its command has before flags
}

// Address is how the engine is referred to: "engine.vllm.h200", or
// `engine.vllm.all["a"]`.
func (e *Engine) Address() string {
	if e.Kind == GroupKind {
		return e.Label()
	}
	return "engine." + e.Label()
}

// Label is the address as tables, labels and axes have it: "vllm.h200".
func (e *Engine) Label() string {
	return cmp.Or(e.Declared, e.Kind) + "." + cmp.Or(e.Instance, e.Name)
}

// String names the engine in messages: "engine.vllm.h200 (lab.hcl:40)".
func (e *Engine) String() string {
	if e.Pos == "" {
		return e.Address()
	}
	return e.Address() + " (" + e.Pos + ")"
}

// text is the flag's value; of a bare one it is empty.
func (f Flag) text() provision.Text {
	if f.Value == nil {
		return provision.Text{}
	}
	return *f.Value
}

// FieldError is a mistake in an engine block that the engine's kind knows about.
// The lab language points it at the argument.
type FieldError struct {
	Field  string // the argument: "image", "flags", "model", "url", "port", "host", "command"
	Key    string // of an argument that is an object: which one; empty: all of it
	Role   string // of a group: which role, or the engine that takes it, has the argument; empty: neither
	Detail string // full sentences: what is wrong, why, what to write instead
	Lacks  bool   // the argument is not there
	Alone  bool   // it is wrong of one engine, whatever there is beside it
}
