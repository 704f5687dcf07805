package hcl

import (
	"hclbench/engines"
	"hclbench/load"
	"hclbench/provision"
)

// blockType is what may stand in a block, as data: it is what Load checks
// against, and docs/language.md is checked against it.
type blockType struct {
	name     string
	labels   []string // what each label is, for messages
	doc      string
	args     []argument
	blocks   []nested
	free     *argument // any argument with a name of the user's own is of this kind
	freeName func(name string) bool
	freeHint string // what such names look like
}

// argument is one argument of a block.
type argument struct {
	name     string
	kind     kind
	required bool
	fallback string // what holds when it is not said, in words
	doc      string
}

// nested is a block inside a block.
type nested struct {
	typ      *blockType
	many     bool
	required bool
}

func (t *blockType) argument(name string) (argument, bool) {
	for _, a := range t.args {
		if a.name == name {
			return a, true
		}
	}
	if t.free != nil && (t.freeName == nil || t.freeName(name)) {
		a := *t.free
		a.name = name
		return a, true
	}
	return argument{}, false
}

func (t *blockType) nested(name string) (nested, bool) {
	for _, n := range t.blocks {
		if n.typ.name == name {
			return n, true
		}
	}
	return nested{}, false
}

func (t *blockType) argumentNames() []string {
	var names []string
	for _, a := range t.args {
		names = append(names, a.name)
	}
	return names
}

func (t *blockType) blockNames() []string {
	var names []string
	for _, n := range t.blocks {
		names = append(names, n.typ.name)
	}
	return names
}

// notYet are the arguments and blocks that the design of the language names and
// this version does not understand, by block; "" is the top level.
var notYet = map[string][]string{
	"":          {"report"},
	"host":      {"for_each", "require"},
	"engine":    {"for_each", "build"},
	"benchmark": {"mode", "zip", "include", "reference"},
	"load":      {"ramp", "stages", "stream", "warmup", "cooldown", "from"},
	"function":  {"yamldecode"},
	"dataset":   {"shared-prefix", "sharegpt", "text", "jsonl", "conversation", "trace"},
	"reference": {"each"},
}

var description = argument{name: "description", kind: text, doc: "What it is, for people."}

// The blocks of the language.
var (
	labBlock = &blockType{
		name: "lab", labels: []string{"name"},
		doc: "What holds for everything in the lab. At most one; without it the lab has the name of its directory.",
		args: []argument{
			{name: "lease", kind: duration, fallback: `"15m"`, doc: "Hosts clean themselves this long after losing contact with `hcl`."},
			{name: "max_duration", kind: duration, fallback: "no limit", doc: "Nothing of the lab lives longer than this, whatever happens."},
			description,
		},
	}

	variableBlock = &blockType{
		name: "variable", labels: []string{"name"},
		doc: "A value that is given from outside.",
		args: []argument{
			{name: "type", kind: typeExpression, fallback: "any type", doc: "What values it takes: `string`, `number`, `bool`, `list(…)`, `set(…)`, `map(…)`, `object({…})`, `tuple([…])`, `any`."},
			{name: "default", kind: anything, fallback: "the variable must be set", doc: "The value where none is given. A literal: it refers to nothing."},
			{name: "sensitive", kind: truth, fallback: "`false`", doc: "The value is never printed, stored, logged or hashed in clear."},
			description,
		},
		blocks: []nested{{typ: validationBlock, many: true}},
	}

	validationBlock = &blockType{
		name: "validation",
		doc:  "A rule that the variable's value must meet.",
		args: []argument{
			{name: "condition", kind: truth, required: true, doc: "True when the value is good."},
			{name: "error_message", kind: text, required: true, doc: "What to say otherwise: a full sentence."},
		},
	}

	localsBlock = &blockType{
		name: "locals",
		doc:  "Names for values that are used more than once: each argument is one, referred to as `local.NAME`.",
		free: &argument{kind: anything},
	}

	hostBlock = &blockType{
		name: "host", labels: []string{"name"},
		doc: "A machine that engines run on.",
		args: []argument{
			{name: "address", kind: text, required: true, doc: "Where it is reached: `\"host\"` or `\"host:port\"`; `\"local\"` is the machine that `hcl` runs on, without SSH."},
			{name: "user", kind: text, fallback: "your own user name", doc: "Who to log in as."},
			{name: "identity_file", kind: text, fallback: "the SSH agent, then the usual files in `~/.ssh`", doc: "A private key; `~` is your home directory."},
			{name: "host_key", kind: text, fallback: "`known_hosts` decides", doc: "The host's public key, pinned: `\"ssh-ed25519 AAAA…\"`."},
			{name: "jump", kind: jumpHost, fallback: "a direct connection", doc: "Connect through this host: `host.NAME`, or `\"user@host:port\"`."},
			{name: "gpus", kind: gpus, fallback: "none are asked for", doc: "What must be there, count and model: `\"8xH200\"`, `\"8xMI300X\"`."},
			{name: "runtime", kind: word(string(provision.Docker), string(provision.Process)), fallback: `"docker"`, doc: "How engines run: each in a container, or, for machines that are themselves containers, as processes."},
			{name: "docker", kind: text, fallback: "`\"" + provision.DefaultDocker + "\"`", doc: "Path of the Docker socket on the host."},
			{name: "price_per_hour", kind: number(0, 1e6), fallback: "not said", doc: "USD, for the cost in plans and reports."},
			description,
		},
	}

	modelBlock = &blockType{
		name: "model", labels: []string{"name"},
		doc: "A model that engines serve.",
		args: []argument{
			{name: "repo", kind: text, required: true, doc: "Its Hugging Face repository, `\"deepseek-ai/DeepSeek-R1\"`, or a path inside the container."},
			{name: "revision", kind: text, fallback: "the repository's default branch", doc: "A commit, branch or tag. Only a commit stays the same."},
			{name: "cache", kind: text, fallback: "none is mounted", doc: "Hugging Face cache directory on the host; mounted into every engine."},
			{name: "size", kind: size, fallback: "not said", doc: "Of the weights, for the time and disk in plans."},
			description,
		},
	}

	containerBlock = &blockType{
		name: "container",
		doc:  "Overrides what the engine's kind asks of its container on this maker of GPUs.",
		args: []argument{
			{name: "shm_size", kind: size, fallback: "the kind's", doc: "Size of `/dev/shm`."},
			{name: "ipc", kind: text, fallback: "the kind's", doc: "IPC mode: `\"host\"`, `\"private\"`."},
			{name: "network", kind: word("host", "bridge", "none"), fallback: "the kind's", doc: "Network mode; with `\"bridge\"` the port is published on 127.0.0.1."},
			{name: "privileged", kind: truth, fallback: "the kind's", doc: "All of the host's devices and capabilities."},
			{name: "user", kind: text, fallback: "the image's", doc: "`\"uid\"` or `\"uid:gid\"`."},
			{name: "cap_add", kind: texts, fallback: "the kind's", doc: "Capabilities, such as `\"SYS_PTRACE\"`."},
			{name: "security_opt", kind: texts, fallback: "the kind's", doc: "Security options, such as `\"seccomp=unconfined\"`."},
			{name: "devices", kind: texts, fallback: "the kind's", doc: "Device files of the host, such as `\"/dev/infiniband\"`."},
			{name: "mounts", kind: mounts, fallback: "the model's cache", doc: "`\"/on/host:/in/container\"`, with `:ro` for read-only."},
			{name: "gpu_ids", kind: texts, fallback: "all GPUs", doc: "The engine uses these GPUs of its host only: `[\"0\", \"1\"]`."},
			{name: "entrypoint", kind: texts, fallback: "the image's", doc: "Replaces the image's entrypoint."},
			{name: "ulimits", kind: ulimits, fallback: "with GPUs `memlock = -1`, `stack = 67108864`", doc: "Resource limits, soft and hard; -1 is none, `null` leaves one to the daemon, which a rootless daemon needs: it can raise none."},
			{name: "stop_grace", kind: duration, fallback: "the kind's", doc: "Between the stop signal and the kill."},
		},
	}

	readyBlock = &blockType{
		name: "ready",
		doc:  "When waiting for the engine is given up.",
		args: []argument{
			{name: "stall", kind: duration, fallback: `"15m"`, doc: "Nothing has moved (log lines, bytes read, GPU memory) for this long."},
			{name: "timeout", kind: duration, fallback: "no limit", doc: "In all."},
		},
	}

	engineBlock = &blockType{
		name: "engine", labels: []string{"kind", "name"},
		doc: "An inference engine: what is started, where, and how.",
		args: []argument{
			{name: "inherits", kind: reference("engine"), fallback: "nothing", doc: "Another engine of the same kind. Whatever this block does not say comes from there; `env` and `flags` merge key by key, and `null` removes."},
			{name: "host", kind: reference("host"), fallback: "required, except for `external`", doc: "Where it runs: `host.NAME`."},
			{name: "model", kind: reference("model"), fallback: "required for `sglang`, `vllm`, `trtllm`", doc: "What it serves: `model.NAME`."},
			{name: "image", kind: text, fallback: "required for what runs in a container", doc: "Container image, with a version or a digest."},
			{name: "env", kind: environment, fallback: "none", doc: "Environment variables. Values may be sensitive."},
			{name: "flags", kind: flags, fallback: "none", doc: "The engine's own command-line flags, without the leading dashes. Values may be sensitive."},
			{name: "setup", kind: texts, fallback: "none", doc: "Shell commands run in the container before the server; part of what the engine is."},
			{name: "command", kind: words, fallback: "the kind's; required for `openai`", doc: "Replaces the whole server command: a list of words. They may be sensitive."},
			{name: "port", kind: whole(1, 65535), fallback: "the kind's; required for `openai`", doc: "Where the server listens."},
			{name: "url", kind: text, fallback: "required for `external`", doc: "Of a server that someone else runs: `\"http://203.0.113.7:8000\"`."},
			description,
		},
		blocks: []nested{{typ: containerBlock}, {typ: readyBlock}},
	}

	datasetBlock = &blockType{
		name: "dataset", labels: []string{"kind", "name"},
		doc: "What prompts are made of. This version makes the kind `random`: random tokens of an exact length.",
		args: []argument{
			{name: "input_tokens", kind: whole(1, 1<<24), required: true, doc: "Length of a prompt, in tokens."},
			{name: "range_ratio", kind: number(0, 1), fallback: "every prompt is exactly `input_tokens` long", doc: "How far lengths vary; `convention` says what the number means."},
			{name: "convention", kind: word(load.ConventionSGLang, load.ConventionVLLM), fallback: `"sglang"`, doc: "With `\"sglang\"`, lengths are drawn from L·r to L (1 is fixed); with `\"vllm\"`, from L·(1−r) to L·(1+r) (0 is fixed)."},
			{name: "seed", kind: whole(0, 1<<53), fallback: "`0`", doc: "Another seed makes other prompts."},
			description,
		},
	}

	matrixBlock = &blockType{
		name: "matrix",
		doc:  "Each argument is an axis: a list of values. The benchmark is measured at every combination, in the order written, the last axis turning fastest. Several matrix blocks add up. An axis may refer to those above it.",
		free: &argument{kind: axis},
	}

	excludeBlock = &blockType{
		name: "exclude",
		doc:  "Leaves cells out.",
		args: []argument{
			{name: "when", kind: truth, required: true, doc: "True for the cells that are left out, in terms of `matrix.*`."},
		},
	}

	loadBlock = &blockType{
		name: "load",
		doc:  "How requests are sent. Say `concurrency`, `rate`, or both.",
		args: []argument{
			{name: "concurrency", kind: whole(1, 1_000_000), fallback: "no limit; required without `rate`", doc: "At most this many requests in flight. Without `rate`, the next is sent when one is done."},
			{name: "rate", kind: rate, fallback: "as fast as `concurrency` allows", doc: "Requests per second, whatever the server does; `\"inf\"` sends all at once."},
			{name: "burstiness", kind: rate, fallback: "`1`", doc: "Gamma shape of the times between arrivals: 1 is Poisson, less is burstier, `\"inf\"` is constant."},
			{name: "output_tokens", kind: whole(1, 1<<24), required: true, doc: "Tokens asked for, per request."},
			{name: "ignore_eos", kind: truth, fallback: "`true`", doc: "Generate to the full length even where the model would end."},
			{name: "temperature", kind: number(0, 100), fallback: "`0`", doc: "Sampling temperature; 0 is greedy."},
			{name: "extra_body", kind: object, fallback: "nothing", doc: "Merged into the body of every request."},
			{name: "endpoint", kind: word(load.Completions, load.Chat, load.Generate), fallback: "`\"completions\"`", doc: "`/v1/completions`, `/v1/chat/completions`, or SGLang's `/generate`."},
			{name: "warmup_requests", kind: whole(0, 1_000_000), fallback: "`0`", doc: "Sent and waited for before the measurement."},
			{name: "timeout", kind: duration, fallback: "none", doc: "For one request in all."},
			{name: "stall", kind: duration, fallback: "`\"5m\"`", doc: "A response that is silent this long has failed."},
		},
	}

	sloBlock = &blockType{
		name:     "slo",
		doc:      "What counts as good: upper bounds. An argument is a metric, `ttft`, `tpot` or `e2el`, alone (each request) or with a percentile: `ttft_p99 = \"5s\"`, `e2el_p99_9 = \"60s\"`.",
		free:     &argument{kind: duration},
		freeName: isObjective,
		freeHint: "A bound is named for a metric (ttft, tpot or e2el), alone or with a percentile: ttft_p99",
	}

	benchmarkBlock = &blockType{
		name: "benchmark", labels: []string{"name"},
		doc: "What is measured: a matrix of cells, each one engine under one load.",
		args: []argument{
			{name: "engine", kind: reference("engine"), required: true, doc: "What is measured: `engine.KIND.NAME` or `matrix.engine`."},
			{name: "dataset", kind: reference("dataset"), required: true, doc: "What is sent: `dataset.KIND.NAME`."},
			{name: "requests", kind: whole(1, 1<<30), fallback: "this or `duration` is required", doc: "How many requests each cell measures."},
			{name: "duration", kind: duration, fallback: "this or `requests` is required", doc: "For how long each cell sends requests."},
			{name: "repeat", kind: whole(1, 1000), fallback: "`1`", doc: "How often each cell is measured."},
			{name: "percentiles", kind: percentiles, fallback: "`[50, 90, 95, 99]`", doc: "Shown beside mean and median."},
			description,
		},
		blocks: []nested{
			{typ: matrixBlock, many: true},
			{typ: excludeBlock, many: true},
			{typ: loadBlock, required: true},
			{typ: sloBlock},
		},
	}
)

// blockTypes are the top-level blocks, in the order in which the reference
// describes them.
func blockTypes() []*blockType {
	return []*blockType{labBlock, variableBlock, localsBlock, hostBlock, modelBlock, engineBlock, datasetBlock, benchmarkBlock}
}

// knownKinds are the first labels that engine and dataset blocks take.
func knownKinds(block string) []string {
	switch block {
	case "engine":
		return engines.Kinds()
	case "dataset":
		return []string{load.Random}
	}
	return nil
}
