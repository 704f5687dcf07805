package hcl

import (
	"time"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/provision"
)

// blockType is what may stand in a block, as data: it is what Load checks
// against, and docs/language.md is checked against it.
type blockType struct {
	name     string
	kind     string   // of a data set: each kind has arguments of its own
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

// attributeNames are the arguments whose values other blocks can refer to.
func (t *blockType) attributeNames() []string {
	var names []string
	for _, a := range t.args {
		if a.kind.convert != nil {
			names = append(names, a.name)
		}
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

var forEach = argument{name: "for_each", kind: instances, fallback: "one instance", doc: "Makes one instance for each entry of a map, or each text or number of a list. In the block, `each.key` and `each.value` are the entry."}

var description = argument{name: "description", kind: text, doc: "What it is, for people."}

// The blocks of the language.
var (
	labBlock = &blockType{
		name: "lab", labels: []string{"name"},
		doc: "What holds for everything in the lab. At most one; without it the lab has the name of its directory.",
		args: []argument{
			{name: "lease", kind: lasting(2*time.Second, 24*time.Hour), fallback: `"15m"`, doc: "Hosts clean themselves this long after losing contact with `hcl`."},
			{name: "max_duration", kind: duration, fallback: "no limit", doc: "Nothing of the lab lives longer than this, whatever happens."},
			description,
		},
		blocks: []nested{{typ: noticeBlock, many: true}},
	}

	noticeBlock = &blockType{
		name: "notice",
		doc:  "Somebody who is told what becomes of a run, by a command or a web address.",
		args: []argument{
			{name: "on", kind: wordList(NoticeEnd, NoticeFailure, NoticeIdle), fallback: "all three", doc: "What is told: the end of a run that went well; its end with an error, or that a host or an engine failed; a host with a price that has had nothing to do for `idle` while the run goes on."},
			{name: "command", kind: words, fallback: "none", doc: "Run on the machine of `hcl apply`, with the notice as JSON on its standard input."},
			{name: "url", kind: secretText, fallback: "none", doc: "Gets the notice as JSON by POST; its member `text` is what chat services show. May be sensitive."},
			{name: "idle", kind: duration, fallback: `"10m"`, doc: "How long a host may have nothing to do."},
		},
	}

	variableBlock = &blockType{
		name: "variable", labels: []string{"name"},
		doc: "A value that is given from outside.",
		args: []argument{
			{name: "type", kind: typeExpression, fallback: "any type", doc: "What values it takes: `string`, `number`, `bool`, `list(…)`, `set(…)`, `map(…)`, `object({…})`, `tuple([…])`, `any`."},
			{name: "default", kind: anything, fallback: "the variable must be set", doc: "The value where none is given. It refers to no other, but may call functions: `env(\"HOME\")`."},
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
			forEach,
			{name: "address", kind: text, required: true, doc: "Where it is reached: `\"host\"`, `\"host:port\"` or a name of your SSH configuration; `\"local\"` is the machine that `hcl` runs on, without SSH."},
			{name: "user", kind: text, fallback: "your SSH configuration, else your own user name", doc: "Who to log in as."},
			{name: "identity_file", kind: text, fallback: "your SSH configuration, else the SSH agent and the usual files in `~/.ssh`", doc: "A private key; `~` is your home directory."},
			{name: "host_key", kind: text, fallback: "`known_hosts` decides", doc: "The host's public key, pinned: `\"ssh-ed25519 AAAA…\"`."},
			{name: "jump", kind: jumpHost, fallback: "your SSH configuration, else a direct connection", doc: "Connect through this host: `host.NAME`, or `\"user@host:port\"`."},
			{name: "gpus", kind: gpus, fallback: "none are asked for", doc: "What must be there, count and model: `\"8xH200\"`, `\"8xMI300X\"`."},
			{name: "runtime", kind: word(string(provision.Docker), string(provision.Process)), fallback: `"docker"`, doc: "How engines run: each in a container, or, for machines that are themselves containers, as processes."},
			{name: "docker", kind: text, fallback: "looked for", doc: "Path of the Docker socket on the host, or an address such as `\"tcp://127.0.0.1:2375\"`. It is looked for where `$DOCKER_HOST` says, at `/var/run/docker.sock`, and at the login's own `$XDG_RUNTIME_DIR/docker.sock`."},
			{name: "image_from", kind: word(string(provision.FromRegistry), string(provision.FromCaller)), fallback: `"registry"`, doc: "Who fetches images: the host from their registries, or, for a host without a way out, the machine of `hcl apply`, which hands on the layers that the host lacks."},
			{name: "price_per_hour", kind: number(0, 1e6), fallback: "not said", doc: "USD, for the cost in plans and reports."},
			description,
		},
		blocks: []nested{{typ: requireBlock}, {typ: prepareBlock}},
	}

	requireBlock = &blockType{
		name: "require",
		doc:  "What the host must be besides `gpus`, checked before anything starts.",
		args: []argument{
			{name: "driver", kind: versions, fallback: "any", doc: "Version of the GPU driver: `\">= 550.144\"`, `\">= 550, < 580\"`."},
			{name: "rocm", kind: versions, fallback: "any", doc: "Version of ROCm."},
			{name: "gpu_memory", kind: size, fallback: "any", doc: "On each GPU, at least."},
			{name: "memory", kind: size, fallback: "any", doc: "Of the host's own, at least."},
			{name: "disk_free", kind: size, fallback: "any", doc: "Where images and model caches are kept, at least."},
			{name: "idle_gpus", kind: truth, fallback: "`false`", doc: "Nobody else uses the GPUs."},
			{name: "numa_balancing", kind: truth, fallback: "either", doc: "Whether the kernel's automatic NUMA balancing is on."},
		},
	}

	prepareBlock = &blockType{
		name: "prepare",
		doc:  "What is set on the host while engines run there, and put back afterwards. It takes root, or `sudo` without a password.",
		args: []argument{
			{name: "persistence_mode", kind: truth, fallback: "as it is", doc: "NVIDIA's driver keeps its settings while no GPU is in use."},
			{name: "power_cap", kind: number(1, 10000), fallback: "as it is", doc: "Power that each GPU may draw, in watts."},
			{name: "lock_clocks", kind: whole(1, 10000), fallback: "as they are", doc: "Clock of each GPU's cores, in MHz: on NVIDIA it is held there, on AMD it goes no higher (performance determinism)."},
			{name: "numa_balancing", kind: truth, fallback: "as it is", doc: "The kernel's automatic NUMA balancing."},
			{name: "ecc", kind: truth, fallback: "either", doc: "Whether the GPUs' memory has ECC. It is only checked: to set it takes a reset."},
		},
	}

	modelBlock = &blockType{
		name: "model", labels: []string{"name"},
		doc: "A model that engines serve.",
		args: []argument{
			{name: "repo", kind: text, required: true, doc: "Its Hugging Face repository, `\"deepseek-ai/DeepSeek-R1\"`, or a directory of the host, which is mounted into engines at the same path and looked through before they start."},
			{name: "revision", kind: text, fallback: "the repository's default branch", doc: "A commit, branch or tag. Only a commit stays the same."},
			{name: "cache", kind: text, fallback: "none is mounted", doc: "Hugging Face cache directory on the host; mounted into every engine."},
			{name: "download", kind: truth, fallback: "`false`: engines fetch what is missing", doc: "Bring the model into `cache` before an engine starts: resumed, checked against the hub's checksums, with the token in `HF_TOKEN` of `hcl apply`, which no container sees. Engines then run with `HF_HUB_OFFLINE=1`."},
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

	buildBlock = &blockType{
		name: "build",
		doc:  "Makes, before the first start, what the server serves instead of the model's `repo`. The output is kept on the host and used again until the image, the commands, the inputs, the environment or the model change.",
		args: []argument{
			{name: "commands", kind: texts, fallback: "**required**", doc: "Shell commands, run one after the other in a container of their own, with the engine's GPUs, mounts and environment."},
			{name: "output", kind: text, fallback: "**required**", doc: "Directory in the container where they leave it; the server finds it at the same path."},
			{name: "image", kind: text, fallback: "the engine's", doc: "Image of that container."},
			{name: "inputs", kind: texts, fallback: "none", doc: "Other things that the output depends on, such as `file(\"patch.diff\")`."},
		},
	}

	readyBlock = &blockType{
		name: "ready",
		doc:  "When waiting for the engine is given up.",
		args: []argument{
			{name: "stall", kind: duration, fallback: `"15m"`, doc: "Nothing new was logged or answered for this long. A log line of a form that was there before is nothing new once the server listens, unless it counts on."},
			{name: "timeout", kind: duration, fallback: "no limit", doc: "In all."},
		},
	}

	engineBlock = &blockType{
		name: "engine", labels: []string{"kind", "name"},
		doc: "An inference engine: what is started, where, and how.",
		args: []argument{
			forEach,
			{name: "inherits", kind: reference("engine"), fallback: "nothing", doc: "Another engine of the same kind. Whatever this block does not say comes from there; `env`, `flags` and `config` merge key by key, and `null` removes."},
			{name: "host", kind: reference("host"), fallback: "required, except for `external`", doc: "Where it runs: `host.NAME`."},
			{name: "model", kind: reference("model"), fallback: "required for `sglang`, `vllm`, `trtllm`", doc: "What it serves: `model.NAME`."},
			{name: "image", kind: text, fallback: "required for what runs in a container", doc: "Container image, with a version or a digest."},
			{name: "env", kind: environment, fallback: "none", doc: "Environment variables. Values may be sensitive."},
			{name: "flags", kind: flags, fallback: "none", doc: "The engine's own command-line flags, without the leading dashes. Values may be sensitive."},
			{name: "config", kind: document, fallback: "none", doc: "What a configuration file of the engine's own says: an object, which vLLM and SGLang find by `--config` and TensorRT-LLM by `--extra_llm_api_options`; a `command` of the lab's finds it in `/hcl/config.yaml`, a process in `config.yaml`. Values may be sensitive."},
			{name: "version", kind: engineVersion, fallback: "as the image's tag tells", doc: "The engine's own, where the tag does not tell it, or `setup` puts another in place: `\"0.7.3\"`. It decides how an [offline benchmark](#mode) is started."},
			{name: "offline_command", kind: texts, fallback: "as the kind and the version have it", doc: "How the engine's [offline benchmark](#mode) is started, before the arguments that hcl gives it: `[\"python3\", \"/work/benchmark_throughput.py\"]`."},
			{name: "setup", kind: texts, fallback: "none", doc: "Shell commands run in the container before the server; part of what the engine is."},
			{name: "command", kind: words, fallback: "the kind's; required for `openai`", doc: "Replaces the whole server command: a list of words. They may be sensitive."},
			{name: "compile_cache", kind: text, fallback: "lost with the container", doc: "Directory on the host that keeps, for each image apart, the kernels that an engine compiles. Results say whether a start found it cold or warm."},
			{name: "port", kind: whole(1, 65535), fallback: "the kind's; required for `openai`", doc: "Where the server listens."},
			{name: "url", kind: text, fallback: "this or `urls` is required for `external`", doc: "Of a server that someone else runs: `\"http://203.0.113.7:8000\"`."},
			{name: "urls", kind: texts, fallback: "one server, `url`", doc: "Of several servers of the same model that someone else runs: requests go to each in turn."},
			{name: "api_key", kind: secretText, fallback: "none", doc: "What requests carry as `Authorization: Bearer …`, also those that find out whether the server is ready. Always treated as sensitive. It does not start an engine with a key: for `vllm`, write `env = { VLLM_API_KEY = var.key }` as well."},
			description,
		},
		blocks: []nested{{typ: containerBlock}, {typ: readyBlock}, {typ: buildBlock}},
	}

	// datasetBlock stands for the data sets of all kinds; see datasetKinds.
	datasetBlock = &blockType{
		name: "dataset", labels: []string{"kind", "name"},
		doc:  "What prompts are made of. Each kind has arguments of its own.",
		args: everyArgument(datasetKinds),
	}

	matrixBlock = &blockType{
		name:   "matrix",
		doc:    "Each argument is an axis: a list of values. The benchmark is measured at every combination, in the order written, the last axis turning fastest. Several matrix blocks add up. An axis may refer to those above it.",
		free:   &argument{kind: axis},
		blocks: []nested{{typ: zipBlock, many: true}},
	}

	zipBlock = &blockType{
		name: "zip",
		doc:  "Axes that advance together: the first values of all, then the second, and so on. In a matrix block it is one more factor of that block; beside matrix blocks it is a factor of each of them.",
		free: &argument{kind: axis},
	}

	includeBlock = &blockType{
		name: "include",
		doc:  "One more cell: each argument is the value of an axis. `exclude` does not leave it out.",
		free: &argument{kind: axisPoint},
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
		doc:  "How requests are sent. Say `concurrency`, `rate`, or both, or `stages`; offline, and with a trace, neither.",
		args: []argument{
			{name: "concurrency", kind: whole(1, 1_000_000), fallback: "no limit; required without `rate` or `stages`", doc: "At most this many requests in flight. Without `rate`, the next is sent when one is done."},
			{name: "rate", kind: rate, fallback: "as fast as `concurrency` allows", doc: "Requests per second, whatever the server does; `\"inf\"` sends all at once."},
			{name: "burstiness", kind: rate, fallback: "`1`", doc: "Gamma shape of the times between arrivals: 1 is Poisson, less is burstier, `\"inf\"` is constant."},
			{name: "ramp", kind: duration, fallback: "full pace from the start", doc: "The rate, or the concurrency, grows evenly to its full value over this long."},
			{name: "stages", kind: stages, fallback: "one pace", doc: "Parts with a pace of their own, one after the other: `[{ duration = \"1m\", rate = 2 }, { duration = \"1m\", rate = 4 }]`, each with a `rate` or a `concurrency`. Instead of `requests` and `duration`."},
			{name: "output_tokens", kind: whole(1, 1<<24), fallback: "required, unless the data set has answers of its own", doc: "Tokens asked for, per request."},
			{name: "ignore_eos", kind: truth, fallback: "`true`", doc: "Generate to the full length even where the model would end."},
			{name: "temperature", kind: number(0, 100), fallback: "`0`", doc: "Sampling temperature; 0 is greedy."},
			{name: "extra_body", kind: object, fallback: "nothing", doc: "Merged into the body of every request."},
			{name: "headers", kind: headers, fallback: "none", doc: "Sent with every request: `{ X-Tenant = \"bench\" }`. Values may be sensitive; the others are stored with the results."},
			{name: "endpoint", kind: word(load.Completions, load.Chat, load.Generate), fallback: "`\"completions\"`", doc: "`/v1/completions`, `/v1/chat/completions`, or SGLang's `/generate`."},
			{name: "stream", kind: truth, fallback: "`true`", doc: "Ask for responses token by token. Without it there is no time to first token."},
			{name: "warmup_requests", kind: whole(0, 1_000_000), fallback: "`0`", doc: "Sent and waited for before the measurement."},
			{name: "warmup", kind: duration, fallback: "nothing is cut", doc: "This much of the run's beginning does not count."},
			{name: "cooldown", kind: duration, fallback: "nothing is cut", doc: "This much of the run's end does not count."},
			{name: "timeout", kind: duration, fallback: "`\"6h\"`", doc: "For one request in all."},
			{name: "stall", kind: duration, fallback: "`\"5m\"`", doc: "A request that brings no token for this long has failed."},
			{name: "from", kind: reference("host"), fallback: "the engine's own host", doc: "Send from this host instead: `host.NAME`. See [load from another host](#load-from-another-host)."},
		},
	}

	sloBlock = &blockType{
		name:     "slo",
		doc:      "What counts as good: upper bounds. An argument is a metric, `ttft`, `tpot`, `itl`, `e2el` or `normalized_latency`, alone (each request) or with a percentile: `ttft_p99 = \"5s\"`, `e2el_p99_9 = \"60s\"`.",
		free:     &argument{kind: bound},
		freeName: isObjective,
		freeHint: "A bound is named for a metric (ttft, tpot, itl, e2el or normalized_latency), alone or with a percentile: ttft_p99",
	}

	referenceBlock = &blockType{
		name: "reference", labels: []string{"name"},
		doc: "Published numbers, printed and drawn beside what is measured. Its name is any text.",
		args: []argument{
			{name: "source", kind: text, fallback: "not said", doc: "Where they are published, usually a URL."},
			{name: "rows", kind: rows, required: true, doc: "A list of objects, such as `csvdecode(file(\"published.csv\"))`. The columns named like axes say which cell a row belongs to."},
		},
	}

	benchmarkBlock = &blockType{
		name: "benchmark", labels: []string{"name"},
		doc: "What is measured: a matrix of cells, each one engine under one load.",
		args: []argument{
			{name: "engine", kind: reference("engine"), required: true, doc: "What is measured: `engine.KIND.NAME` or `matrix.engine`."},
			{name: "dataset", kind: reference("dataset"), required: true, doc: "What is sent: `dataset.KIND.NAME`."},
			{name: "requests", kind: whole(1, 1<<30), fallback: "this or `duration` is required, except with `stages` or a trace", doc: "How many requests each cell measures."},
			{name: "duration", kind: lasting(100*time.Millisecond, 0), fallback: "as for `requests`", doc: "For how long each cell sends requests."},
			{name: "mode", kind: word("online", offline), fallback: `"online"`, doc: "`\"online\"` sends requests to the server; `\"offline\"` runs the engine's own offline benchmark in a container of its own."},
			{name: "repeat", kind: whole(1, 1000), fallback: "`1`", doc: "How often each cell is measured."},
			{name: "percentiles", kind: percentiles, fallback: "`[50, 90, 95, 99]`", doc: "Shown beside mean and median."},
			description,
		},
		blocks: []nested{
			{typ: matrixBlock, many: true},
			{typ: zipBlock, many: true},
			{typ: includeBlock, many: true},
			{typ: excludeBlock, many: true},
			{typ: loadBlock, required: true},
			{typ: sloBlock},
			{typ: referenceBlock, many: true},
		},
	}
)

// The parts of the report block.
var (
	reportBlock = &blockType{
		name: "report",
		doc:  "What the lab wants in its report: `hcl report` in all of its forms, and the page that `hcl apply` writes. At most one; without it the report follows from what was measured. No part of any result's identity.",
		args: []argument{
			{name: "title", kind: text, fallback: "the lab's name", doc: "The page's."},
			{name: "description", kind: text, fallback: "the lab's", doc: "What was measured and why, below the title."},
			{name: "notes", kind: texts, fallback: "none", doc: "Paragraphs before the figures: what came out, what to keep in mind."},
			{name: "output", kind: htmlFile, fallback: "no page is written", doc: "Where `hcl apply` writes the page when it ends, relative to the lab's directory: `\"report.html\"`."},
			{name: "series", kind: names, fallback: "the GPUs, the engine, and what the lab varies of engines", doc: "What makes a series of the charts, with a colour of its own: " + inWords(ticked(seriesColumns()), "or") + " or an axis. Cells that are then alike are shown as repetitions are."},
			{name: "columns", kind: names, fallback: "those that matter most", doc: "Metrics of the tables, in order."},
			{name: "automatic", kind: wordList(AutomaticBenchmarks, AutomaticPrefixCache, AutomaticDistributions, AutomaticTimeLines), fallback: "all four", doc: "Which charts follow from what was measured, besides the `chart` blocks: along what each benchmark turns, shared prefixes against none, latency distributions, busiest cells over time. `[]` is none."},
			{name: "references", kind: truth, fallback: "`true`", doc: "Show published figures beside the measured ones."},
			{name: "prices", kind: truth, fallback: "`true`", doc: "Show what hosts with a `price_per_hour` and their tokens cost."},
		},
		blocks: []nested{{typ: chartBlock, many: true}},
	}

	chartBlock = &blockType{
		name: "chart", labels: []string{"title"},
		doc: "A chart before the automatic ones. Its title is any text. Where more of the load differs than `x`, there is one for each combination.",
		args: []argument{
			{name: "x", kind: text, required: true, doc: "Along the axis: " + inWords(ticked(loadColumns()), "or") + "; a metric; or any other axis or column, which makes bars."},
			{name: "y", kind: oneOrMore, required: true, doc: "A metric, or a list of metrics with a panel for each."},
			{name: "where", kind: text, fallback: "all cells", doc: "Only cells that meet a condition, as with `hcl report --where`: `\"benchmark = 'online' and output_tokens = 800\"`."},
			{name: "label", kind: word(loadColumns()...), fallback: "the one with most points", doc: "Where `x` is a metric: what stands beside the points."},
			{name: "note", kind: text, fallback: "none", doc: "A sentence below it."},
		},
	}
)

// blockTypes are the top-level blocks, in the order in which the reference
// describes them.
func blockTypes() []*blockType {
	return []*blockType{labBlock, variableBlock, localsBlock, hostBlock, modelBlock, engineBlock, datasetBlock, benchmarkBlock, reportBlock}
}

// knownKinds are the first labels that engine and dataset blocks take.
func knownKinds(block string) []string {
	switch block {
	case "engine":
		return engines.Kinds()
	case "dataset":
		return load.DatasetKinds()
	}
	return nil
}

var (
	seedArgument = argument{name: "seed", kind: whole(0, 1<<53), fallback: "`0`", doc: "Another seed makes, or picks, other prompts."}
	checksum     = argument{name: "sha256", kind: hexDigest, fallback: "whatever is there", doc: "Of the file, which must have it."}
	dataPath     = argument{name: "path", kind: text, required: true, doc: "The file, relative to the lab's directory."}
	counter      = argument{name: "tokenizer", kind: text, fallback: "the server's own, where it has `/tokenize`", doc: "The model's `tokenizer.json`, relative to the lab's directory: it counts and cuts."}
)

// datasetKinds are the data sets, each with the arguments of its kind.
var datasetKinds = []*blockType{
	datasetOf(load.Random, "Random tokens of an exact length.",
		argument{name: "input_tokens", kind: whole(1, 1<<24), required: true, doc: "Length of a prompt, in tokens."},
		argument{name: "range_ratio", kind: number(0, 1), fallback: "every prompt is exactly `input_tokens` long", doc: "How far lengths vary, of prompts and of answers; `convention` says what the number means."},
		argument{name: "convention", kind: word(load.ConventionSGLang, load.ConventionVLLM), fallback: `"sglang"`, doc: "With `\"sglang\"`, lengths are drawn from L·r to L (1 is fixed); with `\"vllm\"`, from L·(1−r) to L·(1+r) (0 is fixed)."},
	),
	datasetOf(load.SharedPrefix, "Groups of prompts that begin alike, for prefix caches: SGLang's generated-shared-prefix.",
		argument{name: "groups", kind: whole(1, 1<<20), required: true, doc: "How many beginnings there are."},
		argument{name: "prompts_per_group", kind: whole(1, 1<<20), required: true, doc: "How many prompts begin with each."},
		argument{name: "prefix_tokens", kind: whole(1, 1<<24), required: true, doc: "Length of a beginning, in tokens."},
		argument{name: "question_tokens", kind: whole(1, 1<<24), required: true, doc: "Length of what follows it, different in every prompt."},
		argument{name: "range_ratio", kind: number(0, 1), fallback: "all lengths are exact", doc: "Lengths are drawn from L·r to L."},
	),
	datasetOf(load.ShareGPT, "The first question and answer of recorded conversations, a JSON file as ShareGPT's.",
		dataPath, checksum, counter,
		argument{name: "filter", kind: word(load.ConventionSGLang, load.ConventionVLLM), fallback: `"sglang"`, doc: "Which conversations are left out as too short or too long: as in SGLang's benchmark, or as in vLLM's."},
		argument{name: "input_tokens", kind: whole(1, 1<<24), fallback: "as recorded", doc: "Every prompt is cut to exactly this length; shorter ones are left out."},
		argument{name: "output_tokens", kind: whole(1, 1<<24), fallback: "as recorded", doc: "Every answer is asked to be exactly this long."},
	),
	datasetOf(load.Text, "Pieces of a text, such as a book, of an exact length.",
		argument{name: "path", kind: text, required: true, doc: "A file, or a folder of files, relative to the lab's directory."},
		argument{name: "input_tokens", kind: whole(1, 1<<24), required: true, doc: "Length of a prompt, in tokens."},
		counter,
	),
	datasetOf(load.JSONL, "Prompts of your own, one JSON object to a line: `prompt`, and `output_tokens` where they differ.", dataPath, checksum, counter),
	datasetOf(load.Conversation, "Conversations of several turns, each sent when the answer before it is there.", dataPath, checksum, counter),
	datasetOf(load.Trace, "Recorded requests, sent at the times of the recording (Mooncake's JSONL).", dataPath, checksum,
		argument{name: "slowdown", kind: number(0.001, 1e6), fallback: "`1`", doc: "Times between requests are multiplied by this: 2 is half as fast."},
	),
}

func datasetOf(kind, doc string, args ...argument) *blockType {
	return &blockType{
		name: "dataset", kind: kind, labels: []string{"kind", "name"}, doc: doc,
		args: append(args, seedArgument, description),
	}
}

// everyArgument is all arguments of several types, each once.
func everyArgument(types []*blockType) []argument {
	var all []argument
	seen := map[string]bool{}
	for _, t := range types {
		for _, a := range t.args {
			if !seen[a.name] {
				seen[a.name] = true
				a.required = false
				all = append(all, a)
			}
		}
	}
	return all
}

// bodyType is what may stand in a block of type t with this first label.
func bodyType(t *blockType, labels ...string) *blockType {
	if t == datasetBlock && len(labels) > 0 {
		for _, k := range datasetKinds {
			if k.kind == labels[0] {
				return k
			}
		}
	}
	return t
}
