package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hclbench/hcl"
	"hclbench/load"
	"hclbench/provision"
)

type benchFlags struct {
	load.Job
	rate, burstiness      string
	rangeRatio            float64
	imagesRatio           float64
	stages, slo, adapters []string
	imageSizes            []string
	headers               []string
	headerFile            string
	apiKeyFile, apiKeyEnv string
	stopAtEOS             bool
	repeat                int
	from                  []string

	said    func(flag string) bool // on the command line
	exposed []string               // headers whose value on the command line looks like a key
}

func (b *benchFlags) add(c *cobra.Command) {
	f, w := c.Flags(), &b.Workload
	lasts := func(at *load.Duration, name, usage string) {
		f.DurationVar((*time.Duration)(at), name, 0, usage)
	}
	f.StringVar(&b.Target.Model, "model", "", "the model's name at the server; without it the server is asked")
	f.StringVar(&w.Endpoint, "endpoint", load.Completions, "where requests go: "+strings.Join(load.Endpoints(), ", ")+" (generate is SGLang's own); conversations take chat or responses")
	f.StringArrayVar(&b.headers, "header", nil, "a header of every request, `NAME:VALUE`; may be repeated; no place for a key")
	f.StringVar(&b.headerFile, "header-file", "", "a `file` with a header on each line, NAME: VALUE; they are in no output")
	f.StringVar(&b.apiKeyFile, "api-key-file", "", "a `file` with the key that requests carry as Authorization: Bearer")
	f.StringVar(&b.apiKeyEnv, "api-key-env", "", "the environment `variable` with that key")

	f.StringSliceVar(&b.from, "from", nil,
		"send the load from these `hosts` over SSH, each its share: [USER@]HOST[:PORT] or a name of your SSH configuration")

	b.addDataset(f)
	f.IntVar(&w.Requests, "requests", 500, "how many requests are measured")
	lasts(&w.Duration, "duration", "send for this long instead of a number of requests")
	f.IntVar(&w.Concurrency, "concurrency", 0, "requests in flight: exactly this many, or with --rate at most; 0 is no cap")
	f.StringVar(&b.rate, "rate", "0", "requests per second, or inf; 0 keeps --concurrency in flight")
	f.StringVar(&b.burstiness, "burstiness", "1", "gamma shape of the gaps with --rate: 1 is Poisson, inf is constant")
	f.BoolVar(&w.StopWhenOverloaded, "stop-when-overloaded", false, "send no more once the requests of --rate pile up")
	lasts(&w.Ramp, "ramp", "the pace grows evenly from nothing over this long")
	f.StringArrayVar(&b.stages, "stage", nil, "a part of the run, `DURATION,rate=N` or DURATION,concurrency=N; may be repeated")
	f.IntVar(&w.Warmup, "warmup-requests", 0, "sent and waited for before the measurement")
	lasts(&w.CutBeginning, "warmup", "this much of the run's beginning does not count")
	lasts(&w.CutEnd, "cooldown", "this much of its end does not count")
	f.IntVar(&b.repeat, "repeat", 1, "measure so many times, each with prompts of its own")
	f.StringSliceVar(&b.slo, "slo", nil,
		"bounds of good requests, `METRIC=DURATION`, and with a percentile of all, as in ttft_p99=5s: "+
			strings.Join(load.ObjectiveMetrics(), ", "))

	f.StringSliceVar(&b.adapters, "adapter", nil,
		"a LoRA adapter, `NAME=SHARE`, that a share of the requests goes to as a model (SGLang: MODEL:NAME=SHARE); may be repeated")
	f.BoolVar(&b.stopAtEOS, "stop-at-eos", false, "let the model end its answers early")
	f.IntVar(&w.BatchSize, "batch-size", 0, "embeddings: how many prompts a request has; 0 is 1")
	f.BoolVar(&w.NoStream, "no-stream", false, "have answers sent whole; there is no time to first token then")
	f.Float64Var(&w.Temperature, "temperature", 0, "sampling temperature")
	f.StringVar(&w.ExtraBody, "extra-body", "", "JSON object merged into every request")
	lasts(&w.Timeout, "timeout", "for one request in all; 0 is 6h")
	lasts(&w.Stall, "stall", "a request that brings no token for this long has failed; 0 is 5m")
	f.Uint64Var(&b.Seed, "seed", 0, "of prompts and arrivals")
	f.Float64SliceVar(&b.Percentiles, "percentiles", nil, "percentiles to print")
	f.Lookup("percentiles").DefValue = "50,90,95,99" // of a nil list
}

// addDataset adds what says of what prompts are made.
func (b *benchFlags) addDataset(f *pflag.FlagSet) {
	w, d := &b.Workload, &b.Workload.Dataset
	f.StringVar(&d.Kind, "dataset", load.Random, "what prompts are made of: "+strings.Join(load.DatasetKinds(), ", "))
	f.StringVar(&d.Path, "path", "", "the data set's `file`, or for text a folder")
	f.StringVar(&d.SHA256, "sha256", "", "checksum that the file must have")
	f.StringVar(&d.Tokenizer, "tokenizer", "",
		"the model's tokenizer.json, which counts and cuts; without it the server's /tokenize does")
	f.StringVar(&d.ImageDir, "image-dir", "", "jsonl: the `folder` of the image files that its lines name")
	f.DurationVar((*time.Duration)(&d.ThinkTime), "think-time", 0, "conversations and random-agents: how long a user takes on average to ask again")
	f.DurationVar((*time.Duration)(&d.ToolDelay), "tool-delay", 0, "random-agents: how long a tool takes on average")
	f.DurationVar((*time.Duration)(&d.MaxDelay), "max-delay", 0,
		"conversations and agents: no wait between their requests is longer, recorded or drawn; 0 leaves them as they are")
	f.StringVar(&d.Arrivals, "arrivals", "", "conversation: recorded begins each at the timestamp in the file")
	f.StringVar(&d.History, "history", "",
		"conversation: the answers that later turns are told of, answered (by the server) or recorded")
	f.IntVar(&d.Turns, "turns", 0, "random-conversation and random-agents: how many turns a conversation has")
	f.IntVar(&d.ToolCalls, "tool-calls", 0, "random-agents: how many tools each agent calls in a turn, with a request behind each")
	f.IntVar(&d.SubAgents, "sub-agents", 0, "random-agents: how many sub-agents begin in each turn, and are waited for")
	f.IntVar(&d.ResultTokens, "result-tokens", 0, "random-agents: length of what a tool brings")
	f.IntVar(&d.Documents, "documents", 0, "random-rerank: how many documents a request has")
	f.IntVar(&d.QueryTokens, "query-tokens", 0, "random-rerank: length of a query")
	f.IntVar(&d.DocumentTokens, "document-tokens", 0, "random-rerank: length of each document")
	f.BoolVar(&d.Salt, "salt", false,
		"begin each prompt that is read from a file with random tokens, so that it is in no cache")
	f.StringVar(&d.Filter, "filter", load.ConventionSGLang,
		"which conversations of sharegpt count: as in sglang's benchmark, or in vllm's")
	f.IntVar(&d.InputTokens, "input-tokens", 1024, "length of each prompt; of sharegpt as recorded, if not given")
	f.IntVar(&w.OutputTokens, "output-tokens", 128,
		"tokens asked for per request; as the data set says, if it does and this is not given")
	f.Float64Var(&b.rangeRatio, "range-ratio", 1, "vary the lengths, in the sense of --convention")
	f.StringVar(&d.Convention, "convention", load.ConventionSGLang,
		"what --range-ratio means: sglang ([L·r, L]) or vllm ([L·(1-r), L·(1+r)])")
	f.IntVar(&d.Groups, "groups", 0, "shared-prefix: how many beginnings there are")
	f.IntVar(&d.PromptsPerGroup, "prompts-per-group", 0, "shared-prefix: how many prompts begin with each")
	f.IntVar(&d.PrefixTokens, "prefix-tokens", 0, "shared-prefix: length of a beginning; random-conversation and random-agents: of the one that all have")
	f.IntVar(&d.QuestionTokens, "question-tokens", 0, "length of what follows it, of a conversation in each turn")
	f.Float64Var(&d.Slowdown, "slowdown", 0, "trace, and --arrivals recorded: times between requests are multiplied by this; 0 is 1")
	f.IntVar(&d.Images, "images", 1, "random-images: how many images a request has, with --input-tokens of text")
	f.StringSliceVar(&b.imageSizes, "image-size", []string{"256x256", "1280x720"},
		"random-images: a size, `WIDTHxHEIGHT=SHARE` in pixels; may be repeated")
	f.Float64Var(&b.imagesRatio, "images-range-ratio", 0, "random-images: between N·(1-r) and N·(1+r) images, as vLLM's random-mm")
	f.IntVar(&d.MaxImages, "max-images", 0, "random-images: no request has more; 0 is 255")
	f.StringVar(&d.OfModel, "of-model", "", "trace: only requests of this model, by the trace's own name for it")
}

// job is what the flags ask for. Whatever is wrong with them is an error of usage.
func (b *benchFlags) job(urls []string) (load.Job, error) {
	job := b.Job
	w := &job.Workload
	for i, u := range urls {
		base, err := baseURL(u)
		switch {
		case err != nil:
			return job, err
		case i == 0:
			job.Target.BaseURL = base
		default:
			job.Target.BaseURLs = append(job.Target.BaseURLs, base)
		}
	}
	if err := b.addHeaders(&job); err != nil {
		return job, err
	}
	var err error
	if w.Rate, err = load.ParseRate(b.rate); err != nil {
		return job, usage("--rate: %w", err)
	}
	if w.Burstiness, err = load.ParseRate(b.burstiness); err != nil {
		return job, usage("--burstiness: %q is neither a number nor \"inf\"", b.burstiness)
	}
	if w.Stages, err = stagesOf(b.stages); err != nil {
		return job, err
	}
	if w.SLO, err = objectives(b.slo); err != nil {
		return job, err
	}
	for _, text := range b.adapters {
		a, err := load.ParseAdapter(text)
		if err != nil {
			return job, usage("--adapter: %w", err)
		}
		w.Adapters = append(w.Adapters, a)
	}
	slices.SortFunc(w.Adapters, func(a, b load.Adapter) int { return strings.Compare(a.Name, b.Name) })
	if b.repeat < 1 {
		return job, usage("--repeat must be at least 1")
	}
	if err := b.asDatasetHas(w); err != nil {
		return job, err
	}
	w.IgnoreEOS = !b.stopAtEOS && w.Generates()
	if err := idle(b.said, w); err != nil {
		return job, err
	}
	return job, sensible(w)
}

// clients are the hosts that send the load.
func (b *benchFlags) clients(w *load.Workload) (hosts []*provision.Host, err error) {
	for i, name := range b.from {
		h, err := hcl.HostAt(name)
		if err != nil {
			return nil, usage("--from %s: %w", name, err)
		}
		if slices.Contains(b.from[:i], name) {
			return nil, usage("--from names %s twice: each host sends one share of the load", name)
		}
		h.Runtime = provision.Process
		hosts = append(hosts, h)
	}
	for _, p := range w.ShareProblems(len(hosts)) {
		return nil, usage("%s: %s", flagOf(p.Field), p.Text)
	}
	return hosts, nil
}

// asDatasetHas is what is not said: it is as the data set has it.
func (b *benchFlags) asDatasetHas(w *load.Workload) error {
	d := &w.Dataset
	if b.said("range-ratio") {
		d.RangeRatio = &b.rangeRatio
	}
	if !b.said("input-tokens") && !slices.Contains([]string{load.Random, load.Text, load.RandomImages}, d.Kind) {
		d.InputTokens = 0
	}
	if !b.said("endpoint") && d.Kind == load.RandomRerank {
		w.Endpoint = load.Rerank
	}
	if !b.said("output-tokens") && (d.OwnOutputs() || !w.Generates()) {
		w.OutputTokens = 0
	}
	if !b.said("endpoint") && d.NeedsChat() {
		w.Endpoint = load.Chat
	}
	if !b.said("requests") && (w.Duration > 0 || len(w.Stages) > 0 || d.Timed()) {
		w.Requests = 0
	}
	if d.Kind != load.ShareGPT {
		d.Filter = ""
	}
	if !slices.Contains(load.KindsWith("convention"), d.Kind) {
		d.Convention = ""
	}
	return b.imagesOf(d)
}

// imagesOf gives a data set of images what the flags say of them, and any other nothing.
func (b *benchFlags) imagesOf(d *load.Dataset) error {
	if d.Kind != load.RandomImages {
		d.Images = 0
		return nil
	}
	if b.said("images-range-ratio") {
		d.ImagesRatio = &b.imagesRatio
	}
	for _, text := range b.imageSizes {
		size, err := load.ParseImageShare(text)
		if err != nil {
			return usage("--image-size: %w", err)
		}
		d.ImageSizes = append(d.ImageSizes, size)
	}
	load.SortImageSizes(d.ImageSizes)
	return nil
}

// idle turns away flags that would do nothing beside the others: who writes one wants something of it.
func idle(said func(string) bool, w *load.Workload) error {
	if said("requests") && (said("duration") || said("stage")) || said("duration") && said("stage") {
		return usage("--requests, --duration and --stage each say when the run ends: take one of them")
	}
	paced := w.Rate != 0 || slices.ContainsFunc(w.Stages, func(s load.Stage) bool { return s.Rate != 0 })
	if said("burstiness") && !paced {
		return usage("--burstiness is about the gaps between requests, so it goes with --rate")
	}
	if said("convention") && !said("range-ratio") {
		return usage("--convention says what --range-ratio means, so it goes with that")
	}
	for _, member := range w.Idle() {
		if name := flagOf(member); said(strings.TrimPrefix(name, "--")) {
			return usage("%s does nothing with --endpoint %s", name, w.Endpoint)
		}
	}
	for _, member := range []string{
		"documents", "query_tokens", "document_tokens", "tool_calls", "sub_agents", "result_tokens", "tool_delay",
		"groups", "prompts_per_group", "prefix_tokens", "question_tokens", "path", "sha256", "tokenizer", "salt", "think_time",
		"max_delay", "arrivals", "history", "turns", "filter", "slowdown", "of_model", "input_tokens", "range_ratio", "convention",
		"images", "image_dir", "image_sizes", "images_range_ratio", "max_images",
	} {
		name, kinds := strings.TrimPrefix(flagOf("dataset."+member), "--"), load.KindsWith(member)
		if said(name) && !slices.Contains(kinds, w.Dataset.Kind) {
			return usage("--%s does nothing with --dataset %s: it is for %s", name, w.Dataset.Kind, strings.Join(kinds, ", "))
		}
	}
	return nil
}

// sensible turns away what cannot be run, all of it, by the flags that say it.
func sensible(w *load.Workload) error {
	var wrong []string
	for _, p := range w.Problems() {
		wrong = append(wrong, flagOf(p.Field)+": "+p.Text)
	}
	if wrong == nil {
		return nil
	}
	return usage("%s", strings.Join(wrong, "\n"))
}

// flagOf is the flag for an argument of a workload.
func flagOf(field string) string {
	switch field {
	case "dataset.kind":
		return "--dataset"
	case "stages":
		return "--stage"
	case "ignore_eos":
		return "--stop-at-eos"
	case "stream":
		return "--no-stream"
	case "adapters":
		return "--adapter"
	case "dataset.image_sizes":
		return "--image-size"
	}
	return "--" + strings.ReplaceAll(strings.TrimPrefix(field, "dataset."), "_", "-")
}

// addHeaders gives the job its headers: those of the command line in clear, which
// they are already, those of files and the environment as secrets.
func (b *benchFlags) addHeaders(job *load.Job) error {
	job.Target.Headers, job.Secrets = map[string]string{}, map[string]string{}
	for _, text := range b.headers {
		name, value, err := header(text)
		if err != nil {
			return usage("--header: %w", err)
		}
		if secretName(name) {
			b.exposed = append(b.exposed, name)
			job.Secrets[name] = value
		} else {
			job.Target.Headers[name] = value
		}
	}
	if b.headerFile != "" {
		text, err := os.ReadFile(b.headerFile)
		if err != nil {
			return usage("--header-file: %w", err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			name, value, err := header(line)
			if err != nil {
				return usage("--header-file %s, line %d: %w", b.headerFile, n+1, err)
			}
			job.Secrets[name] = value
		}
	}
	return b.addKey(job)
}

func (b *benchFlags) addKey(job *load.Job) error {
	key, from := os.Getenv(b.apiKeyEnv), "--api-key-env "+b.apiKeyEnv
	switch {
	case b.apiKeyFile == "" && b.apiKeyEnv == "":
		return nil
	case b.apiKeyFile != "" && b.apiKeyEnv != "":
		return usage("--api-key-file and --api-key-env are two keys; say one of them")
	case b.apiKeyFile != "":
		text, err := os.ReadFile(b.apiKeyFile)
		if err != nil {
			return usage("--api-key-file: %w", err)
		}
		key, from = string(text), "--api-key-file "+b.apiKeyFile
	}
	if key = strings.TrimSpace(key); key == "" {
		return usage("%s: there is no key in it", from)
	}
	if err := load.CheckHeader(load.Authorization, load.Bearer(key)); err != nil {
		return usage("%s: %w", from, err)
	}
	job.Secrets[load.Authorization] = load.Bearer(key)
	return nil
}

// header reads "NAME: VALUE". Its errors do not show the value.
func header(text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, ":")
	if !ok {
		return "", "", fmt.Errorf("a header is written NAME: VALUE")
	}
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	return name, value, load.CheckHeader(name, value)
}

// secretName reports whether headers of this name usually hold a key.
func secretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"authorization", "key", "token", "secret", "cookie", "password"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// stagesOf reads "1m,rate=2" and "30s,concurrency=8".
func stagesOf(list []string) ([]load.Stage, error) {
	var stages []load.Stage
	for _, text := range list {
		span, pace, _ := strings.Cut(text, ",")
		kind, value, _ := strings.Cut(pace, "=")
		d, err := time.ParseDuration(strings.TrimSpace(span))
		s := load.Stage{Duration: load.Duration(d)}
		switch kind = strings.TrimSpace(kind); {
		case kind != "rate" && kind != "concurrency":
			return nil, usage("--stage %q: write how long and how fast, such as 1m,rate=2 or 30s,concurrency=8", text)
		case err != nil:
		case kind == "rate":
			s.Rate, err = load.ParseRate(value)
		default:
			s.Concurrency, err = strconv.Atoi(value)
		}
		if err != nil {
			return nil, usage("--stage %q: %w", text, err)
		}
		stages = append(stages, s)
	}
	return stages, nil
}

const writeObjective = "--slo %q: write a metric (%s), perhaps a percentile of it, and its bound, such as ttft=500ms or ttft_p99=5s"

// objectives reads "ttft=500ms" and "ttft_p99=5s".
func objectives(list []string) ([]load.Objective, error) {
	var slo []load.Objective
	for _, text := range list {
		name, bound, _ := strings.Cut(text, "=")
		o, known := load.ParseObjective(strings.ReplaceAll(name, ".", "_"))
		most, err := time.ParseDuration(bound)
		if !known || err != nil || most <= 0 {
			return nil, usage(writeObjective, text, strings.Join(load.ObjectiveMetrics(), ", "))
		}
		o.Max = load.Duration(most)
		slo = append(slo, o)
	}
	return slo, nil
}
