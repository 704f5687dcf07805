package hcl

import (
	"math"
	"math/big"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"hclbench/engines"
	"hclbench/hcl/lang"
	"hclbench/load"
	"hclbench/provision"
)

// Kinds of single values.
var (
	leaseTime = lang.DurationBetween[time.Duration](2*time.Second, 24*time.Hour)
	span      = lang.DurationBetween[load.Duration](time.Millisecond, 0) // of a load
	rate      = lang.Parsed("rate", `a number above 0, or "inf"`, func(s string) (load.Rate, error) {
		r, err := load.ParseRate(s)
		if err == nil && r == 0 {
			err = lang.NoFit
		}
		return r, err
	})
	gpus      = lang.Parsed("GPUs", `a count and a model, such as "8xH200" or "8xMI300X"`, provision.ParseGPUs)
	versions  = lang.Parsed("version", `a version with a bound, such as ">= 550, < 580"`, provision.ParseVersions)
	hexDigest = lang.Parsed("text", "a SHA-256 in 64 hex digits, as sha256sum prints it", lang.Matching(sha256Form))
	htmlFile  = lang.Parsed("file", `the name of a page, such as "report.html"`, lang.Matching(htmlForm))

	engineVersion = lang.Quoted(lang.Parsed("version", `a version, such as "0.7.3"`, func(s string) (string, error) {
		return s, engines.CheckVersion(s)
	}), lang.NoFit)
)

// Kinds of words.
var (
	engineRuntime = lang.OneOf(provision.Docker, provision.Process)
	imageFrom     = lang.OneOf(provision.FromRegistry, provision.FromCaller)
	mode          = lang.OneOf(online, offline)
	automatic     = lang.SomeOf(AutomaticBenchmarks, AutomaticPrefixCache, AutomaticDistributions, AutomaticTimeLines)
)

// Kinds of lists.
var (
	mounts = lang.ListOf("list of mounts", `a list of mounts, such as ["/on/host:/in/container:ro"]`, asMount)
	stages = lang.NonEmpty(lang.ListOf("list of stages",
		`a list of stages, such as [{ duration = "1m", rate = 2 }, { duration = "1m", rate = 4 }]`, asStage))
	rows = lang.NonEmpty(lang.ListOf("list of objects", `a list of objects, such as csvdecode(file("published.csv"))`, asRow))

	percentiles = lang.NonEmpty(lang.ListOf("list of numbers",
		"a list of percentiles between 1 and 100, such as [50, 99, 99.9]", asPercentile))
	gpuIDs = lang.NewKind("list of lists of texts",
		`a list of GPUs for each instance, such as [["0", "1"], ["2", "3"]]`, asGPUIDs).Checked(func(lists [][]string) error {
		for i, ids := range lists {
			if len(ids) == 0 { // an instance would have all GPUs of its host
				return lang.Wrong("List %d is empty.%s", i+1, orNull)
			}
		}
		return nil
	})
)

// Kinds of objects.
var (
	flags       = lang.SameKeys(lang.Merging(lang.NewKind("map of flags", `an object, such as { tp = 8, trust-remote-code = true }`, asFlags)), engines.FlagKey)
	environment = lang.Merging(lang.NewKind("map of texts", `an object with texts, such as { NAME = "value" }`, asEnvironment))
	// specification is kept in clear, in the journal of what was rented.
	specification = lang.NewKind("map of texts", `an object with texts, such as { gpus = "8xH200" }`, asSpecification)
	headers       = lang.Sensitive(lang.NewKind("map of texts", `an object with texts, such as { X-Tenant = "bench" }`, asHeaders))
	adapters      = lang.NewKind("map of numbers", `an object with shares, such as { sql = 0.5, chat = 0.25 }`, asAdapters)
	imageSizes    = lang.NewKind("map of numbers", `an object with shares, such as { "1280x720" = 0.5, "256x256" = 0.5 }`, asImageSizes)
	ulimits       = lang.NewKind("map of limits",
		`an object with whole numbers, -1 for none, such as { memlock = -1, nofile = 1048576 }`, asUlimits)
)

// Kinds of references.
var (
	hostOfLab    = lang.Reference[provision.Host]("host", "host.name")
	clusterOfLab = lang.Reference[provision.Cluster]("cluster", "cluster.name")
	modelOfLab   = lang.Reference[engines.Model]("model", "model.name")
	hostsOfLab   = lang.ReferenceList[provision.Host]("host", "[host.a, host.b]")
	clientsOfLab = lang.OrOne(hostsOfLab, "host", "host.client or [host.c0, host.c1]")
	engineOfLab  = lang.Reference[engines.Engine]("engine", "engine.vllm.h200")
	groupOfLab   = lang.Reference[engines.Engine]("group", "group.name")
	measured     = lang.Reference[engines.Engine]("engine", "engine.vllm.h200", "group")
	datasetOfLab = lang.Reference[load.Dataset]("dataset", "dataset.random.short")
	jumpHost     = lang.OrElse(hostOfLab, `a host, such as host.bastion or "user@bastion:22"`, func(v cty.Value) (*provision.Host, error) {
		s, ok := lang.AsString(v)
		if !ok || v.Type() != cty.String {
			return nil, lang.NoFit
		}
		return HostAt(s)
	})
)

var (
	sha256Form = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	htmlForm   = regexp.MustCompile(`\.html$`)
)

func asPercentile(v cty.Value) (float64, error) {
	f, ok := lang.AsFloat(v)
	switch {
	case !ok || f <= 0 || f >= 100:
		return 0, lang.NoFit
	case f < 1:
		return 0, lang.Wrong("Percentiles are percents: write %s for %s.",
			lang.FormatNumber(big.NewFloat(f*100)), lang.FormatNumber(big.NewFloat(f)))
	}
	return f, nil
}

// HostAt is the host that a text names whole: "user@host:port", user and port where they are
// not the usual ones.
func HostAt(s string) (*provision.Host, error) {
	h := &provision.Host{Name: s, Address: s, Runtime: provision.Docker}
	if user, address, ok := strings.Cut(s, "@"); ok {
		h.User, h.Address = user, address
	}
	return h, wrongAddress(h.Address)
}

var flagName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// asFlags are the flags of an engine, sorted by name; of a list, one for each of its values.
func asFlags(v cty.Value) ([]engines.Flag, error) {
	var all []engines.Flag
	err := lang.Entries(v, func(name string, e cty.Value) error {
		values, err := asFlag(name, e)
		if plain, _ := e.Unmark(); err == nil && !plain.IsNull() && plain.Type() == cty.Bool && plain.False() {
			all = append(all, engines.Flag{Name: name, Off: true})
		}
		for _, value := range values {
			all = append(all, engines.Flag{Name: name, Value: value})
		}
		return err
	})
	return all, err
}

// asFlag are the values of one flag: nil stands for a flag that has none.
func asFlag(name string, v cty.Value) ([]*provision.Text, error) {
	plain, _ := v.Unmark()
	bare := strings.TrimLeft(name, "-")
	switch isBool := !plain.IsNull() && plain.Type() == cty.Bool; {
	case !flagName.MatchString(bare):
		return nil, lang.Wrong("%q is not the name of a flag.", name)
	case bare != name:
		return nil, lang.Wrong("Write the name without dashes: %s instead of %q.", bare, name)
	case isBool && v.IsMarked():
		return nil, lang.Wrong("The flag %s is on or off, which the command line shows, so it cannot be sensitive.", name)
	case isBool && plain.True():
		return []*provision.Text{nil}, nil
	case isBool || plain.IsNull():
		return nil, nil
	case lang.IsList(plain):
		return lang.Elements(v, func(e cty.Value) (*provision.Text, error) {
			if clear, _ := e.Unmark(); lang.IsObject(clear) { // as vLLM's own lora-modules has it
				return asObjectFlag(e)
			}
			value, err := lang.AsText(e)
			return &value, err
		})
	case lang.IsObject(plain):
		value, err := asObjectFlag(v)
		return []*provision.Text{value}, err
	}
	value, err := lang.AsText(v)
	return []*provision.Text{&value}, err
}

// asObjectFlag is an object as a flag takes it.
func asObjectFlag(v cty.Value) (*provision.Text, error) {
	s, err := lang.AsJSON(v)
	value := provision.Plain(s)
	if v.ContainsMarked() {
		value = provision.Secret(s)
	}
	return &value, err
}

type envVar = provision.EnvVar

func asEnvironment(v cty.Value) ([]envVar, error) {
	return asVariables(v, func(_ []envVar, x envVar) error {
		if x.Name == "" || strings.ContainsAny(x.Name, "= \x00") {
			return lang.Wrong("%q is not a name that an environment variable can have.", x.Name)
		}
		return nil
	})
}

func asSpecification(v cty.Value) ([]envVar, error) {
	return asVariables(v, func(_ []envVar, x envVar) error {
		if x.Value.IsSecret() {
			return lang.Wrong("%q is secret, and a spec is written down. Give it in env.", x.Name)
		}
		return nil
	})
}

func asHeaders(v cty.Value) ([]envVar, error) {
	return asVariables(v, func(before []envVar, x envVar) error {
		if err := load.CheckHeader(x.Name, x.Value.Reveal()); err != nil {
			return lang.Wrong("%s.", lang.Title(err.Error()))
		}
		if slices.ContainsFunc(before, func(h envVar) bool { return strings.EqualFold(h.Name, x.Name) }) {
			return lang.Wrong("The header %s is there twice: capitals mean nothing in its name.", x.Name)
		}
		return nil
	})
}

// asVariables are named texts, sorted by name. What is null is as if it were not there.
func asVariables(v cty.Value, check func(before []envVar, x envVar) error) ([]envVar, error) {
	list := []envVar{}
	err := lang.Entries(v, func(name string, e cty.Value) error {
		if e.IsNull() {
			return nil
		}
		value, err := lang.AsText(e)
		x := envVar{Name: name, Value: value}
		if err == nil {
			err = check(list, x)
		}
		list = append(list, x)
		return err
	})
	return list, err
}

func asUlimits(v cty.Value) ([]engines.Ulimit, error) {
	var out []engines.Ulimit
	err := lang.Entries(v, func(name string, e cty.Value) error {
		limit := engines.Ulimit{Name: name}
		if !e.IsNull() {
			n, err := lang.Whole[int64](-1, math.MaxInt64).Convert(e)
			if err != nil {
				return lang.NoFit
			}
			limit.Value = &n
		}
		out = append(out, limit)
		return nil
	})
	return out, err
}

func asAdapters(v cty.Value) (list []load.Adapter, err error) {
	err = lang.Entries(v, func(name string, e cty.Value) error {
		share, ok := lang.AsFloat(e)
		if !ok {
			return lang.NoFit
		}
		list = append(list, load.Adapter{Name: name, Share: share})
		return nil
	})
	return list, err
}

func asImageSizes(v cty.Value) (list []load.ImageSize, err error) {
	err = lang.Entries(v, func(name string, e cty.Value) error {
		share, ok := lang.AsFloat(e)
		if !ok {
			return lang.NoFit
		}
		size, err := load.ParseImageSize(name)
		if err != nil {
			return lang.Wrong("%s.", lang.Title(err.Error()))
		}
		size.Share = share
		list = append(list, size)
		return nil
	})
	load.SortImageSizes(list)
	return list, err
}

func asMount(v cty.Value) (provision.Mount, error) {
	s, _ := lang.AsString(v)
	parts := strings.Split(s, ":")
	m := provision.Mount{}
	switch {
	case len(parts) == 3 && (parts[2] == "ro" || parts[2] == "rw"):
		m.ReadOnly = parts[2] == "ro"
	case len(parts) != 2:
		return m, lang.NoFit
	}
	m.Source, m.Target = parts[0], parts[1]
	if !onHost(m.Source) || !strings.HasPrefix(m.Target, "/") {
		return m, lang.Wrong("Both paths of %q must begin with a slash: the one on the host, then the one in the container.", s)
	}
	return m, nil
}

// asGPUIDs are the GPUs of each of several instances, or of the only one.
func asGPUIDs(v cty.Value) ([][]string, error) {
	ids := func(e cty.Value) ([]string, error) { return lang.Elements(e, lang.AsPlainText) }
	if lists, err := lang.Elements(v, ids); err == nil && len(lists) > 0 {
		return lists, nil
	}
	only, err := ids(v)
	return [][]string{only}, err
}

// onHost reports whether a path names the same file from wherever it is used on a host.
func onHost(path string) bool { return strings.HasPrefix(path, "/") || strings.HasPrefix(path, "~/") }

var stageOf = lang.ObjectOf[load.Stage]("a stage", "A stage has a duration, and a rate or a concurrency, and no %q.",
	lang.Arg("duration", span, func(s *load.Stage, d load.Duration) { s.Duration = d }),
	lang.Arg("rate", rate, func(s *load.Stage, r load.Rate) { s.Rate = r }),
	lang.Arg("concurrency", lang.Whole(1, 1_000_000), func(s *load.Stage, n int) { s.Concurrency = n }),
)

func asStage(v cty.Value) (load.Stage, error) {
	s, err := stageOf(v)
	switch {
	case err != nil:
		return s, err
	case s.Duration == 0:
		return s, lang.Wrong("Each stage needs a duration.")
	case (s.Rate != 0) == (s.Concurrency != 0):
		return s, lang.Wrong("Each stage has either a rate or a concurrency.")
	}
	return s, nil
}

var numberForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// asRow reads a row of published numbers. A text that is a number counts as one,
// because CSV knows only texts; what is empty is left out.
func asRow(v cty.Value) (map[string]any, error) {
	row := map[string]any{}
	return row, lang.Entries(v, func(name string, e cty.Value) error {
		if e.IsNull() {
			return nil
		}
		switch e.Type() {
		case cty.Bool, cty.Number:
			row[name] = lang.Scalar(e)
		case cty.String:
			s := strings.TrimSpace(e.AsString())
			i, notWhole := strconv.ParseInt(s, 10, 64)
			f, notNumber := strconv.ParseFloat(s, 64)
			switch number := numberForm.MatchString(s); {
			case number && notWhole == nil:
				row[name] = i
			case number && notNumber == nil:
				row[name] = f
			case s != "":
				row[name] = s
			}
		default:
			return lang.Wrong("The column %q has %s, and a cell of a table is a number, a text, true or false.", name, lang.Describe(e))
		}
		return nil
	})
}

// The modes of a benchmark.
const (
	online  = "online"
	offline = "offline" // nothing is sent to a server
)

// orNull is how an argument is left out by an expression.
const orNull = " To leave it out, write null, or remove the argument."

// likeIPv4 is what is meant as an address of numbers.
var likeIPv4 = regexp.MustCompile(`^\d+(\.\d+){3}$`)

// wrongAddress says what is wrong with the address of a host.
func wrongAddress(s string) error {
	if user, rest, ok := strings.Cut(s, "@"); ok {
		return lang.Wrong("The user has an argument of its own: address = %q, user = %q.", rest, user)
	}
	if _, rest, ok := strings.Cut(s, "://"); ok {
		return lang.Wrong("It is not a URL. Write only the host, and the port where it is not 22: %q.", rest)
	}
	if s == "" || strings.ContainsAny(s, " \t\n/\\\"'") {
		return lang.Wrong("Write a name or an IP address, and the port unless it is 22: " +
			`"203.0.113.7", "gpu1.example.com:2222".`)
	}
	host, after, hasPort := strings.Cut(s, ":")
	if likeIPv4.MatchString(host) && net.ParseIP(host) == nil {
		return lang.Wrong("The numbers of an IP address are between 0 and 255.")
	}
	if port, err := strconv.ParseUint(after, 10, 16); hasPort && !strings.Contains(after, ":") &&
		(err != nil || port == 0 || host == "") {
		return lang.Wrong("%q is not a port. Write a number between 1 and 65535 after the colon, or nothing for 22.", after)
	}
	return nil
}
