package engines

import (
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/provision"
)

// kind is what sets one engine kind apart: a row of a table, not a plugin.
type kind struct {
	port        int  // 0: the lab must say
	needsModel  bool // a model block is required
	stopSignal  string
	server      func(e *Engine, port int) []provision.Text // nil: the lab gives the command, or there is none
	health      string                                     // path that answers 200 once the server is up; empty: none
	healthEvery time.Duration                              // never ask more often than this
	reset       reset
	modelID     func(e *Engine) string // the name under which the server lists the model
}

// reset is how a prefix cache is dropped. method and path empty: it cannot be.
type reset struct {
	method, path string
	needsEnv     string // "NAME=value" without which the server does not offer it
}

// kinds holds the facts of research: default ports, commands, health endpoints
// and cache resets as documented by vLLM (docs/deployment/docker.md,
// entrypoints/serve), SGLang (docs/get_started/install.md, http_server.py) and
// TensorRT-LLM (quick-start guide, serve/openai_server.py).
var kinds = map[string]kind{
	SGLang: {
		port:       30000,
		needsModel: true,
		stopSignal: "SIGTERM",
		server: func(e *Engine, port int) []provision.Text {
			return e.launch(port, "config", []string{"python3", "-m", "sglang.launch_server", "--model-path", e.serves()})
		},
		// SGLang's /health generates a token and takes a second; asked more often
		// it disturbs the server.
		health:      "/health",
		healthEvery: 2 * time.Second,
		reset:       reset{method: "POST", path: "/flush_cache"},
		modelID:     servedName,
	},
	VLLM: {
		port:       8000,
		needsModel: true,
		stopSignal: "SIGTERM",
		server: func(e *Engine, port int) []provision.Text {
			return e.launch(port, "config", []string{"vllm", "serve", e.serves()})
		},
		health:  "/health",
		reset:   reset{method: "POST", path: "/reset_prefix_cache", needsEnv: vllmDevMode},
		modelID: servedName,
	},
	TRTLLM: {
		port:       8000,
		needsModel: true,
		stopSignal: "SIGTERM",
		server: func(e *Engine, port int) []provision.Text {
			// Newer versions have --config as another name of it.
			return e.launch(port, "extra_llm_api_options", []string{"trtllm-serve", e.serves()})
		},
		health: "/health",
		// trtllm-serve lists a model given as a path under the path's last element.
		modelID: func(e *Engine) string {
			if strings.HasPrefix(e.serves(), "/") {
				return path.Base(e.serves())
			}
			return e.serves()
		},
	},
	OpenAI: {
		stopSignal: "SIGTERM",
		modelID:    servedName,
	},
	External: {
		modelID: servedName,
	},
	Sim: {
		port:       8000,
		stopSignal: "SIGTERM",
		server: func(e *Engine, port int) []provision.Text {
			return e.launch(port, "", []string{provision.Self, "sim", "--model", simModel(e)})
		},
		health:  "/health",
		reset:   reset{method: "POST", path: "/reset_prefix_cache"},
		modelID: simModel,
	},
}

// vllmDevMode opens vLLM's requests that are not for users: the cache reset and
// the configuration it serves with, but also others that change the server.
const vllmDevMode = "VLLM_SERVER_DEV_MODE=1"

func simModel(e *Engine) string {
	if e.Model != nil {
		return e.Model.Repo
	}
	return "sim"
}

// servedName is the rule of vLLM and SGLang: the first served-model-name, else
// the model as given. Without either it is "", any model that the server lists.
func servedName(e *Engine) string {
	if name, ok := e.Flag("served-model-name", "served_model_name"); ok {
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

// launch appends what every server command ends with: the model's revision,
// where to listen, by which flag it finds its configuration file, then the lab's own
// flags in their fixed order.
func (e *Engine) launch(port int, configFlag string, argv []string) []provision.Text {
	var out []provision.Text
	for _, a := range argv {
		out = append(out, provision.Plain(a))
	}
	add := func(flag, value string) {
		if _, set := e.Flag(flag); !set {
			out = append(out, provision.Plain("--"+flag), provision.Plain(value))
		}
	}
	if e.Model != nil && e.Model.Revision != "" && e.Build == nil && e.Kind != Sim && e.Kind != TRTLLM {
		add("revision", e.Model.Revision)
	}
	// Unless the lab says otherwise the load runs on the same host, so nothing need
	// listen to the network of a rented box: flags = { host = "0.0.0.0" } opens it.
	add("host", listens(e))
	add("port", strconv.Itoa(port))
	if e.Config.Reveal() != "" {
		add(configFlag, ConfigFile(e))
	}
	return append(out, e.flagWords()...)
}

// flagWords are the lab's flags as a command line has them.
func (e *Engine) flagWords() []provision.Text {
	var out []provision.Text
	for i, f := range e.Flags {
		// A flag with several values stands once before all of them: Python's
		// argparse keeps only the last of a repeated one. TensorRT-LLM's click wants
		// it repeated.
		if i == 0 || e.Flags[i-1].Name != f.Name || e.Kind == TRTLLM {
			out = append(out, provision.Plain("--"+f.Name))
		}
		if f.Value != nil {
			out = append(out, *f.Value)
		}
	}
	return out
}

// Port is where the engine listens on its host; 0 for an external one.
func Port(e *Engine) int {
	if e.Port != 0 {
		return e.Port
	}
	return kinds[e.Kind].port
}

const loopback = "127.0.0.1"

// listens is the address that the engine listens on: what its flags say, and else
// the loopback address, of its host's network; in a network of its own, where Docker
// forwards the port to it, all. A command of the lab's own tells nothing.
func listens(e *Engine) string {
	if host, said := e.Flag("host"); said && e.Command == nil {
		return host
	}
	if e.Container.Network == "bridge" && Runtime(e) == provision.Docker {
		return "0.0.0.0"
	}
	return loopback
}

// open reports whether an address means all of a host's.
func open(address string) bool { ip := net.ParseIP(address); return ip != nil && ip.IsUnspecified() }

// BaseURL is where the engine is reached from its own host, without a path.
func BaseURL(e *Engine) string {
	if e.Kind == External {
		return base(e.URL)
	}
	at := listens(e)
	if open(at) {
		at = loopback
	}
	return "http://" + net.JoinHostPort(at, strconv.Itoa(Port(e)))
}

// RemoteURL is where the engine is reached from another host of the lab, without a
// path: the one address that its flag host says, or, when that means all, or the
// lab has a command of its own, the address of its host block. The error says why
// there is no way to it.
func RemoteURL(e *Engine) (string, error) {
	if e.Kind == External {
		return base(e.URL), nil
	}
	at := listens(e)
	if network := e.Container.Network; network == "bridge" || network == "none" {
		return "", fmt.Errorf("with network = %q its port is open to its own host only", network)
	}
	if e.Command != nil || open(at) {
		at = e.Host.Address
		if host, _, err := net.SplitHostPort(at); err == nil {
			at = host
		}
		if e.Host.Local() {
			return "", errors.New("its host is this machine, which has no address for others")
		}
	} else if ip := net.ParseIP(at); at == "localhost" || ip != nil && ip.IsLoopback() {
		return "", fmt.Errorf("it listens on %s only, so that nothing of a rented box is open to the network", at)
	}
	return "http://" + net.JoinHostPort(at, strconv.Itoa(Port(e))), nil
}

// MoreURLs are the other servers of an external engine, as [BaseURL] is the first.
func MoreURLs(e *Engine) []string {
	var list []string
	for _, u := range e.URLs {
		list = append(list, base(u))
	}
	return list
}

func base(url string) string { return strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1") }

// ServedModel is the name that requests must carry; "" when only the server
// knows it.
func ServedModel(e *Engine) string { return kinds[e.Kind].modelID(e) }

// Runtime says how the engine is run: as a container or as a process of the
// agent; "" for an engine that someone else runs.
func Runtime(e *Engine) provision.Runtime {
	switch {
	case e.Kind == External:
		return ""
	case e.Kind == Sim || e.Host != nil && e.Host.Runtime == provision.Process:
		return provision.Process
	default:
		return provision.Docker
	}
}

// GPUs is how many GPUs the engine's flags ask for, as far as they tell: tensor
// × pipeline × data parallel. SGLang's data parallel attention divides the
// tensor-parallel GPUs and multiplies nothing.
func GPUs(e *Engine) int {
	tp := e.intFlag(1, "tensor-parallel-size", "tensor_parallel_size", "tp", "tp-size", "tp_size")
	pp := e.intFlag(1, "pipeline-parallel-size", "pipeline_parallel_size", "pp", "pp-size", "pp_size")
	dp := e.intFlag(1, "data-parallel-size", "data_parallel_size", "dp", "dp-size")
	if _, attention := e.Flag("enable-dp-attention"); attention || e.Kind == TRTLLM {
		dp = 1
	}
	return tp * pp * dp
}

// MaxContext is how many tokens a prompt and its answer may have together, as far
// as the engine's flags say, and the flag that says it.
func MaxContext(e *Engine) (tokens int, flag string, ok bool) {
	for _, name := range []string{
		"max-model-len", "max_model_len", // vLLM
		"context-length", "context_length", // SGLang
		"max_seq_len", "max-seq-len", // TensorRT-LLM
	} {
		if n := e.intFlag(0, name); n > 0 {
			return n, name, true
		}
	}
	return 0, "", false
}

// hasEnv reports whether the engine's environment holds "NAME=value".
func (e *Engine) hasEnv(pair string) bool {
	name, value, _ := strings.Cut(pair, "=")
	return slices.ContainsFunc(e.Env, func(v provision.EnvVar) bool {
		return v.Name == name && v.Value.Reveal() == value
	})
}
