package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

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

// unsaid is the load of a command line that says nothing.
func unsaid() load.Workload {
	d := load.Dataset{Kind: load.Random, InputTokens: 1024, Convention: load.ConventionSGLang, Filter: load.ConventionSGLang,
		Images: 1, ImageSizes: []load.ImageSize{{Width: 256, Height: 256, Share: 1}, {Width: 1280, Height: 720, Share: 1}}}
	return load.Workload{Dataset: d, Requests: 500, OutputTokens: 128, IgnoreEOS: true, Endpoint: load.Completions}
}

func (b *benchFlags) add(c *cobra.Command) {
	f := c.Flags()
	b.Workload = unsaid()
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

// addArgument adds the flag of an argument, if it has one.
func addArgument[N load.Workload | load.Dataset](f *pflag.FlagSet, a load.Argument[N], n *N) {
	if a.Help == "" {
		return
	}
	v := &argumentFlag[N]{Argument: a, noun: n}
	if added := f.VarPF(v, a.FlagName(), "", a.Help); v.Type() == "bool" {
		added.NoOptDefVal = "true"
	}
}

// argumentFlag is the value of such a flag.
type argumentFlag[N load.Workload | load.Dataset] struct {
	load.Argument[N]
	noun *N
	said bool // a list begins anew with the first
}

func (v *argumentFlag[N]) Type() string {
	switch v.Field(v.noun).(type) {
	case *int, *uint64:
		return "int"
	case *float64, **float64:
		return "float"
	case *bool:
		return "bool"
	case *load.Duration:
		return "duration"
	case *string, *load.Rate:
		return "string"
	}
	return "strings"
}

// String is the value where nobody has said another; empty: there is none.
func (v *argumentFlag[N]) String() string {
	if v.Argument.Field == nil {
		return "" // pflag asks a zero value
	}
	switch x := v.Field(v.noun).(type) {
	case *int:
		return strconv.Itoa(*x)
	case *string:
		return *x
	case *[]load.ImageSize:
		var sizes []string
		for _, s := range *x {
			sizes = append(sizes, s.String())
		}
		return "[" + strings.Join(sizes, ",") + "]"
	}
	return ""
}

// Set implements [pflag.Value].
func (v *argumentFlag[N]) Set(text string) (err error) {
	again := v.said
	v.said = true
	switch x := v.Field(v.noun).(type) {
	case *int:
		*x, err = strconv.Atoi(text)
	case *float64:
		*x, err = strconv.ParseFloat(text, 64)
	case **float64:
		var number float64
		number, err = strconv.ParseFloat(text, 64)
		*x = &number
	case *bool:
		var yes bool
		yes, err = strconv.ParseBool(text)
		*x = (yes != v.FlagOff) != v.Off
	case *string:
		*x = text
	case *load.Duration:
		err = x.UnmarshalText([]byte(text))
	case *load.Rate:
		*x, err = load.ParseRate(text)
	case *[]load.Stage:
		err = appendParsed(x, again, []string{text}, load.ParseStage)
	case *[]load.Objective:
		err = appendParsed(x, again, strings.Split(text, ","), load.ParseBound)
	case *[]load.Adapter:
		err = appendParsed(x, again, strings.Split(text, ","), load.ParseAdapter)
		slices.SortFunc(*x, func(a, b load.Adapter) int { return strings.Compare(a.Name, b.Name) })
	case *[]load.ImageSize:
		err = appendParsed(x, again, strings.Split(text, ","), load.ParseImageShare)
		load.SortImageSizes(*x)
	}
	if n := new(strconv.NumError); errors.As(err, &n) {
		err = n.Err // it names the text already
	}
	return err
}

// appendParsed appends what texts say to a list, or begins it with them.
func appendParsed[T any](list *[]T, again bool, texts []string, parse func(string) (T, error)) error {
	if !again {
		*list = nil
	}
	for _, text := range texts {
		x, err := parse(text)
		if err != nil {
			return err
		}
		*list = append(*list, x)
	}
	return nil
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
			return usage("--%s does nothing here: %s", a.FlagName(), why)
		}
	}
	for _, a := range load.DatasetArguments() {
		switch why := a.Idle(&w.Dataset); {
		case a.Help == "" || !said(a.FlagName()):
		case !a.Has(w.Dataset.Kind):
			return usage("--%s does nothing with --dataset %s: it is for %s", a.FlagName(), w.Dataset.Kind, a.Kinds())
		case why != "":
			return usage("--%s does nothing here: %s", a.FlagName(), why)
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
