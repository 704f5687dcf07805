package engines

import (
	"path"
	"strings"
	"time"

	"hclbench/engines/setting"
	"hclbench/provision"
)

// kind is what sets one engine kind apart: a row of a table, not a plugin. Its functions
// may look at the engine, and never into the table.
type kind struct {
	// How its server is started.
	program       func(e *Engine) []string // begins the command; nil: the lab gives it, or somebody else starts it
	port          int                      // 0: the lab must say
	needsModel    bool                     // an inference engine: it needs a model, and its Python tells versions
	pkg           string                   // its Python package, as [Versions] calls it
	version       []string                 // paths at which it tells its version, the newest first
	revisionFlag  bool                     // every version takes the model's revision as a flag
	click         bool                     // its flags are read by click and not by argparse: see flagWords
	configFlag    string                   // names its configuration file; empty: it reads none
	configSince   [3]int                   // since which version the file holds the server's own flags; zero: never
	keyFlag       bool                     // the flag api-key closes its server
	keyEnv        string                   // the variable that does the same
	startsDiffer  bool                     // its version decides how its offline benchmark is started
	nvidia        bool                     // it runs on NVIDIA's GPUs alone
	image, forAMD string                   // examples
	inConfig      bool                     // where it listens is said in its configuration file

	// Engines of several members.
	rank         func(e *Engine, s *spot) (answers bool) // adds what a rank has of its own; nil: it cannot span hosts
	transfers    []string                                // ways from prefill to decode, the usual one first
	disaggregate func(e *Engine, s *spot)                // makes it prefill or decode
	shortPrefill bool                                    // its prefill needs room for the prompt alone
	routes       func(e *Engine, r routing)              // of a router: tells it of its workers
	workers      string                                  // of a router: path at which it lists them
	families     []string                                // words in the names of its images

	// What its server answers.
	modelID     func(e *Engine) string // the name under which it lists the model
	health      string                 // path that answers 200 once the server is up; empty: none
	healthEvery time.Duration          // never ask more often than this
	reset       reset
	generate    bool                     // it may have SGLang's /generate
	tells       func(e *Engine) []string // paths at which it says what it runs with, the newest first
	// bench is its offline benchmark: how it is started, and with which flags; nil: it has none.
	bench func(e *Engine, out *Bench) (argv []string, flags []Flag, err error)
}

// reset is how a prefix cache is dropped.
type reset struct {
	needsEnv string // "NAME=value" without which the server does not offer it
	// posts are the requests, and kept what of its caches none of them drops; nil: it has no request for it.
	posts func(e *Engine) (posts []string, kept string)
}

// kinds holds what is documented by vLLM (docs/deployment/docker.md, entrypoints/serve),
// SGLang (docs/get_started/install.md, http_server.py) and TensorRT-LLM (quick-start
// guide, serve/openai_server.py).
var kinds = map[string]kind{
	SGLang: sglang,
	VLLM:   vllm,
	TRTLLM: trtllm,
	Sim:    simulated,

	SGLangRouter: sglangRouter,
	VLLMRouter:   vllmRouter,
	TRTLLMRouter: trtllmRouter,

	External: {modelID: servedName, generate: true},
	Operated: {modelID: servedName, generate: true},
	OpenAI: {
		image:    "registry.example.com/team/server:1.2",
		forAMD:   "one whose name says rocm",
		modelID:  servedName,
		generate: true,
		tells:    models,
		rank:     ownRank,
	},
}

// Kinds lists the engine kinds in the order in which help names them.
func Kinds() []string { return []string{SGLang, VLLM, TRTLLM, OpenAI, External, Operated, Sim} }

// inferenceKinds are those of which hcl knows flags and images.
var inferenceKinds = []string{VLLM, SGLang, TRTLLM}

// Real reports whether hcl starts an engine that takes GPUs, memory and time: it is
// neither simulated nor started by others.
func Real(e *Engine) bool { return e.Kind != Sim && !ByOthers(e) }

// FromHub reports whether an engine loads its model from the model hub.
func FromHub(e *Engine) bool {
	return Real(e) && e.Model != nil && !strings.HasPrefix(e.Model.Repo, "/")
}

// HasGenerate reports whether the server may have SGLang's own endpoint, /generate.
func HasGenerate(e *Engine) bool { return kinds[e.generates().Kind].generate }

// RefusesIDs reports whether the server refuses prompts of token ids on completions, as SGLang's router does (0.3.2, with 422).
func RefusesIDs(e *Engine) bool {
	r := e.recipe(Route)
	return r != nil && r.Kind == SGLangRouter && r.Command == nil
}

// TakesLoraPath reports whether the server takes the name of a LoRA adapter as SGLang does, beside the model's.
func TakesLoraPath(e *Engine) bool { return e.generates().speaksAs() == SGLang }

// HasAdapters reports whether the server may have LoRA adapters, as far as its flags say.
func HasAdapters(e *Engine) bool {
	e = e.generates()
	_, named := e.says(setting.Adapters)
	return named || e.isOn(setting.AdaptersOn) || e.Command != nil || e.Kind != VLLM && e.Kind != SGLang
}

// ServedModel is the name that requests must carry; "" when only the server
// knows it.
func ServedModel(e *Engine) string {
	e = e.generates()
	return kinds[e.Kind].modelID(e)
}

// ServedConfig are the paths at which an engine tells what it runs with, the
// newest spelling first; nil: it does not. The first that answers says all.
func ServedConfig(e *Engine) []string {
	if tells := kinds[e.Kind].tells; tells != nil {
		return tells(e)
	}
	return nil
}

// Runtime says how the engine is run: as a container or as a process of the
// agent; "" for an engine that others start.
func Runtime(e *Engine) provision.Runtime {
	switch {
	case ByOthers(e):
		return ""
	case e.Kind == Sim || e.onProcessHost():
		return provision.Process
	default:
		return provision.Docker
	}
}

// InImage reports whether the engine is what an image has in it: a container, or a process in a pod.
func InImage(e *Engine) bool {
	return Runtime(e) == provision.Docker || Real(e) && e.Host() != nil && e.Host().Cluster != nil
}

func (e *Engine) onProcessHost() bool {
	return e.Host() != nil && e.Host().Runtime == provision.Process
}

// models is the list of models as all that a server tells of itself.
func models(*Engine) []string { return []string{"/v1/models"} }

// servedName is the rule of vLLM and SGLang: the first served-model-name, else
// the model as given. Without either it is "", any model that the server lists.
func servedName(e *Engine) string {
	if name, ok := e.says(setting.ServedName); ok {
		if fields := strings.Fields(name); len(fields) > 0 {
			return fields[0]
		}
	}
	if e.Model != nil {
		return e.serves()
	}
	return ""
}

// serves is what the server is given as its model: the repository, or what was
// built from it.
func (e *Engine) serves() string {
	if e.Build != nil {
		return e.Build.Output
	}
	return e.Model.Repo
}

// lastElement is a model given as a path by the path's last element, as trtllm-serve
// lists it where its flags do not name it.
func lastElement(e *Engine) string {
	if name, said := e.says(setting.ServedName); said {
		return name
	}
	if strings.HasPrefix(e.serves(), "/") {
		return path.Base(e.serves())
	}
	return e.serves()
}
