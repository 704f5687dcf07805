package engines

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var sglang = kind{
	program: func(e *Engine) []string {
		return []string{"python3", "-m", "sglang.launch_server", "--model-path", e.serves()}
	},
	port:         30000,
	needsModel:   true,
	pkg:          "sglang",
	version:      sglangInfo,
	revisionFlag: true,
	configFlag:   "config",
	configSince:  [3]int{0, 5, 3}, // sgl-project/sglang#10534
	keyFlag:      true,
	startsDiffer: true,
	image:        "lmsysorg/sglang:v0.5.23",
	forAMD:       "lmsysorg/sglang-rocm:v0.5.20-rocm10-mi30x-20260920",
	families:     []string{"sglang", "sgl-"},

	modelID: servedName,
	// It generates a token and takes a second; asked more often it disturbs the server.
	health:      "/health",
	healthEvery: 2 * time.Second,
	reset:       reset{posts: sglangResets},
	generate:    true,
	tells:       func(*Engine) []string { return sglangInfo },
	bench:       sglangBench,

	rank:         sglangRank,
	transfers:    []string{mooncake, "nixl", "mori"},
	disaggregate: sglangSplit,
}

var sglangInfo = []string{"/server_info", "/get_server_info"}

// sglangResets drop what HiCache keeps in storage, too: that on the host goes with the tree that knows it.
func sglangResets(e *Engine) (posts []string, kept string) {
	posts = []string{"/flush_cache"}
	if said, on := e.Flag("enable-lmcache"); on && said != "false" {
		return posts, "LMCache keeps its own, which SGLang does not drop"
	}
	_, stores := e.Flag("hicache-storage-backend")
	switch {
	case !stores:
	case e.before(0, 5, 2):
		return posts, "HiCache keeps what it has stored, which SGLang drops from 0.5.2 on"
	case e.before(0, 5, 9): // read out of the packages' http_server.py, as is what is before 0.5.2
		posts = append(posts, "/clear_hicache_storage_backend")
	default:
		posts = append(posts, "/hicache/storage-backend/clear")
	}
	return posts, ""
}

// What its benchmark writes in its log. It ends its engine before it leaves its figures,
// which takes seconds.
var (
	sglangBegins = regexp.MustCompile(`^Benchmark\.\.\.`)
	sglangServed = regexp.MustCompile(`^(?:\[.*?\] )?server_args=(?:ServerArgs\((.*)\)|\{(.*)\})$`) // the second from 0.5.19 on
)

// sglangBench is sglang/benchmark/offline_throughput.py, before 0.5.21 bench_offline_throughput.py, which takes all of
// the server's own arguments.
func sglangBench(e *Engine, out *Bench) (argv []string, flags []Flag, err error) {
	out.Tool, out.Begins, out.served = "sglang.benchmark.offline_throughput", sglangBegins, sglangServed
	if e.before(0, 5, 21) {
		out.Tool = "sglang.bench_offline_throughput"
	}
	data, err := sglangData(e, out)
	argv = append(e.started("python3", "-m", out.Tool), "--model-path", e.benchModel())
	argv = append(append(argv, data...), "--seed", out.Batch.seed(), "--result-filename", out.Result)
	return argv, e.Flags, err
}

// sglangPrompts writes prompts as ShareGPT's conversations, of which its benchmark makes random prompts: it takes as many
// tokens of each as the prompt is to have. Token ids are told as words made of syllables, each id one.
func sglangPrompts(w io.Writer) (write func(i int, prompt []byte, output int) error, end func() error) {
	write = func(i int, prompt []byte, _ int) error {
		var text string
		var ids []int
		if json.Unmarshal(prompt, &text) != nil {
			if err := json.Unmarshal(prompt, &ids); err != nil {
				return err
			}
			words := make([]string, len(ids))
			for i, id := range ids {
				words[i] = wordOf(id)
			}
			text = strings.Join(words, " ")
		}
		line, err := json.Marshal(map[string]any{"conversations": []map[string]string{{"value": text}, {"value": "-"}}})
		if err != nil {
			return err
		}
		begin := ",\n"
		if i == 0 {
			begin = "[\n"
		}
		_, err = w.Write(append([]byte(begin), line...))
		return err
	}
	end = func() error {
		_, err := io.WriteString(w, "\n]\n")
		return err
	}
	return write, end
}

// wordOf is a word for a number, another for each.
func wordOf(n int) (word string) {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	for each := len(consonants) * len(vowels); ; n /= each {
		word += consonants[n%each/len(vowels):][:1] + vowels[n%len(vowels):][:1]
		if n < each {
			return word
		}
	}
}

// sglangData are the arguments that say what it makes prompts of.
func sglangData(e *Engine, out *Bench) ([]string, error) {
	b := out.Batch
	if err := b.fits("SGLang", SGLang); err != nil {
		return nil, err
	}
	if b.Kind == SharedPrefix && e.before(0, 4, 4) {
		return nil, errors.New("hcl knows the shared prefixes of SGLang's benchmark from 0.4.4 on, when its arguments got other names")
	}
	outputs := strconv.Itoa(b.OutputTokens)
	data := func(name string, more ...string) []string {
		return append([]string{"--dataset-name", name, "--num-prompts", strconv.Itoa(b.Requests)}, more...)
	}
	switch {
	case b.Kind == SharedPrefix:
		return data("generated-shared-prefix",
			"--gsp-num-groups", strconv.Itoa(b.Groups),
			"--gsp-prompts-per-group", strconv.Itoa(b.PromptsPerGroup),
			"--gsp-system-prompt-len", strconv.Itoa(b.PrefixTokens),
			"--gsp-question-len", strconv.Itoa(b.QuestionTokens),
			"--gsp-output-len", outputs), nil
	case b.Kind == Random:
		share := "1"
		if b.RangeOf != "" {
			share = b.ratio()
		}
		out.Prompts, out.prompts = promptsPath, sglangPrompts // it takes the beginnings of what it finds there
		return data("random", "--dataset-path", promptsPath, "--random-input-len", strconv.Itoa(b.InputTokens), "--random-output-len", outputs,
			"--random-range-ratio", share), nil
	}
	out.Dataset = datasetPath
	if b.OutputTokens == 0 {
		return data("sharegpt", "--dataset-path", datasetPath), nil
	}
	return data("sharegpt", "--dataset-path", datasetPath, "--sharegpt-output-len", outputs), nil
}
