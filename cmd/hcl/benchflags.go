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

// benchFlags are what the command line says of a load: its arguments, which come from the tables of package
// load, and whom it is sent to.
type benchFlags struct {
	load.Job
	headers               []string
	headerFile            string
	apiKeyFile, apiKeyEnv string
	repeat                int
	from                  []string

	said    func(flag string) bool // on the command line
	exposed []string               // headers whose value on the command line looks like a key
}

func (b *benchFlags) add(c *cobra.Command) {
	f := c.Flags()
	// The load of a command line that says nothing.
	d := load.Dataset{Kind: load.Random, InputTokens: 1024, Convention: load.ConventionSGLang, Filter: load.ConventionSGLang,
		Images: 1, ImageSizes: []load.ImageSize{{Width: 256, Height: 256, Share: 1}, {Width: 1280, Height: 720, Share: 1}}}
	b.Workload = load.Workload{Dataset: d, Requests: 500, OutputTokens: 128, IgnoreEOS: true, Endpoint: load.Completions}
	f.StringVar(&b.Target.Model, "model", "", "the model's name at the server; without it the server is asked")
	f.StringArrayVar(&b.headers, "header", nil, "a header of every request, `NAME:VALUE`; may be repeated; no place for a key")
	f.StringVar(&b.headerFile, "header-file", "", "a `file` with a header on each line, NAME: VALUE; they are in no output")
	f.StringVar(&b.apiKeyFile, "api-key-file", "", "a `file` with the key that requests carry as Authorization: Bearer")
	f.StringVar(&b.apiKeyEnv, "api-key-env", "", "the environment `variable` with that key")
	f.StringSliceVar(&b.from, "from", nil,
		"send the load from these `hosts` over SSH, each its share: [USER@]HOST[:PORT] or a name of your SSH configuration")
	f.IntVar(&b.repeat, "repeat", 1, "measure so many times, each with prompts of its own")
	f.Uint64Var(&b.Seed, "seed", 0, "of prompts and arrivals")
	f.Float64SliceVar(&b.Percentiles, "percentiles", nil, "percentiles to print")
	f.StringVar(&b.Workload.Dataset.Kind, "dataset", load.Random, "what prompts are made of: "+strings.Join(load.DatasetKinds(), ", "))
	for _, a := range load.Arguments() {
		addArgument(f, a, &b.Workload)
	}
	for _, a := range load.DatasetArguments() {
		addArgument(f, a, &b.Workload.Dataset)
	}
	// What holds where a flag is not said, and no value has.
	for name, value := range map[string]string{"percentiles": "50,90,95,99", "burstiness": "1", "range-ratio": "1"} {
		f.Lookup(name).DefValue = value
	}
}

// addArgument adds the flag of an argument, if it has one. What the field has is its default.
func addArgument[N load.Workload | load.Dataset](f *pflag.FlagSet, a load.Argument[N], n *N) {
	name, usage := a.FlagName(), a.Help
	if usage == "" {
		return
	}
	switch x := a.Field(n).(type) {
	case *int:
		f.IntVar(x, name, *x, usage)
	case *float64:
		f.Float64Var(x, name, *x, usage)
	case *string:
		f.StringVar(x, name, *x, usage)
	case *load.Duration:
		f.DurationVar((*time.Duration)(x), name, 0, usage)
	case *bool:
		f.BoolFunc(name, usage, func(text string) error {
			yes, err := strconv.ParseBool(text)
			*x = (yes != a.FlagOff) != a.Off
			return err
		})
	case *load.Rate:
		f.Var(&parsedFlag{of: "string", parse: func(text string) (err error) {
			*x, err = load.ParseRate(text)
			return err
		}}, name, usage)
	case **float64:
		f.Var(&parsedFlag{of: "float", parse: func(text string) error {
			number, err := strconv.ParseFloat(text, 64)
			*x = &number
			return err
		}}, name, usage)
	case *[]load.Stage:
		f.Var(listFlag(x, false, load.ParseStage, nil), name, usage)
	case *[]load.Objective:
		f.Var(listFlag(x, true, load.ParseBound, nil), name, usage)
	case *[]load.Adapter:
		f.Var(listFlag(x, true, load.ParseAdapter, load.SortAdapters), name, usage)
	case *[]load.ImageSize:
		f.Var(listFlag(x, true, load.ParseImageShare, load.SortImageSizes), name, usage)
		var sizes []string
		for _, s := range *x {
			sizes = append(sizes, s.String())
		}
		f.Lookup(name).DefValue = "[" + strings.Join(sizes, ",") + "]"
	}
}

// parsedFlag is a flag that package load reads.
type parsedFlag struct {
	of    string // its type in help
	parse func(text string) error
}

func (v *parsedFlag) Type() string          { return v.of }
func (v *parsedFlag) String() string        { return "" }
func (v *parsedFlag) Set(text string) error { return v.parse(text) }

// listFlag is a flag of a list, to which each use appends: one element or, between commas, several. The first
// takes the place of what there is.
func listFlag[T any](list *[]T, several bool, parse func(string) (T, error), sort func([]T)) *parsedFlag {
	begun := false
	return &parsedFlag{of: "strings", parse: func(text string) error {
		if !begun {
			begun, *list = true, nil
		}
		texts := []string{text}
		if several {
			texts = strings.Split(text, ",")
		}
		for _, one := range texts {
			x, err := parse(one)
			if err != nil {
				return err
			}
			*list = append(*list, x)
		}
		if sort != nil {
			sort(*list)
		}
		return nil
	}}
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
	if b.repeat < 1 {
		return job, usage("--repeat must be at least 1")
	}
	b.asDatasetHas(w)
	if err := idle(b.said, w); err != nil {
		return job, err
	}
	var wrong []string
	for _, p := range w.Problems() {
		wrong = append(wrong, load.FlagOf(p.Field)+": "+p.Text)
	}
	if wrong != nil {
		return job, usage("%s", strings.Join(wrong, "\n"))
	}
	return job, nil
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
		return nil, usage("%s: %s", load.FlagOf(p.Field), p.Text)
	}
	return hosts, nil
}

// asDatasetHas is what is not said: it is as the data set has it.
func (b *benchFlags) asDatasetHas(w *load.Workload) {
	d := &w.Dataset
	fresh := load.NewDataset(d.Kind)
	for _, a := range load.DatasetArguments() {
		if !b.said(a.FlagName()) && !slices.Contains(a.Needed, d.Kind) || a.Help == "" {
			a.Copy(d, &fresh)
		}
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
	w.IgnoreEOS = w.IgnoreEOS && w.Generates()
}

// idle turns away flags that have no effect beside the others.
func idle(said func(string) bool, w *load.Workload) error {
	if said("requests") && (said("duration") || said("stage")) || said("duration") && said("stage") {
		return usage("--requests, --duration and --stage each say when the run ends: take one of them")
	}
	for _, name := range w.Idle() {
		if flag := load.FlagOf(name); said(strings.TrimPrefix(flag, "--")) {
			return usage("%s does nothing with --endpoint %s", flag, w.Endpoint)
		}
	}
	for _, a := range load.Arguments() {
		if why := a.Idle(w); why != "" && said(a.FlagName()) {
			return usage("--%s %s", a.FlagName(), why)
		}
	}
	for _, a := range load.DatasetArguments() {
		switch why := a.Idle(&w.Dataset); {
		case a.Help == "" || !said(a.FlagName()):
		case !a.Has(w.Dataset.Kind):
			return usage("--%s does nothing with --dataset %s: it is for %s", a.FlagName(), w.Dataset.Kind, a.Kinds())
		case why != "":
			return usage("--%s %s", a.FlagName(), why)
		}
	}
	return nil
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
		// Headers of such names usually hold a key.
		keys := []string{"authorization", "key", "token", "secret", "cookie", "password"}
		if slices.ContainsFunc(keys, func(word string) bool { return strings.Contains(strings.ToLower(name), word) }) {
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
