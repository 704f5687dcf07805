package hcl

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/provision"
)

// kind is how the value of an argument is written and what becomes of it.
type kind struct {
	noun   string   // in the reference: "duration"
	want   string   // in messages: "a duration such as \"90s\""
	secret bool     // may hold sensitive values
	named  bool     // what in it has the name or the form of a secret is one
	key    bool     // is a secret, whatever it says
	refers []string // the block types whose blocks it refers to; nil: it is no reference
	merges bool     // an engine's value is laid over the one it inherits, key by key
	// convert turns a value that is known, not null and, unless secret, not
	// sensitive into what a Config holds; a *declared stands for what that block
	// becomes. A misfit says what is wrong. nil: whoever knows the block reads it.
	convert func(v cty.Value) (any, error)
}

// of is a kind whose values become a T.
type of[T any] struct{ kind }

// misfit says why a value does not fit, in more detail than its kind's want.
type misfit string

func (m misfit) Error() string { return string(m) }

// noFit is a misfit of which the kind's want says all.
const noFit misfit = ""

func wrong(format string, args ...any) error { return misfit(fmt.Sprintf(format, args...)) }

func kindOf[T any](noun, want string, convert func(v cty.Value) (T, error)) of[T] {
	return of[T]{kind{noun: noun, want: want, convert: func(v cty.Value) (any, error) {
		x, err := convert(v)
		return x, err
	}}}
}

// secretly is a kind whose values may be sensitive.
func secretly[T any](k of[T]) of[T] {
	k.secret, k.named = true, true
	return k
}

// asKey is a kind whose values are secrets.
func asKey[T any](k of[T]) of[T] {
	k.secret, k.key = true, true
	return k
}

// inSight is a kind whose values are shown, so that no secret may be in them.
func inSight[T any](k of[T]) of[T] {
	k.named = true
	return k
}

// merging is a kind of object that is laid over what is inherited.
func merging[T any](k of[T]) of[T] {
	k.merges = true
	return secretly(k)
}

// parsed is a kind that is written as a text, or as a number or bool that stands for
// its text. Of a mistake that is no misfit the kind's want says all.
func parsed[T any](noun, want string, parse func(s string) (T, error)) of[T] {
	return kindOf(noun, want, func(v cty.Value) (x T, err error) {
		if s, ok := asString(v); ok {
			return parse(s)
		}
		return x, noFit
	})
}

// inQuotes is parsed for what a bare number cannot stand for.
func inQuotes[T any](k of[T], otherwise error) of[T] {
	convert := k.convert
	k.convert = func(v cty.Value) (any, error) {
		if v.Type() != cty.String {
			return nil, otherwise
		}
		return convert(v)
	}
	return k
}

// listOf is a list, with a kind for its elements.
func listOf[T any](noun, want string, element func(e cty.Value) (T, error)) of[[]T] {
	return kindOf(noun, want, func(v cty.Value) ([]T, error) { return elements(v, element) })
}

// checked is a kind with one more rule.
func (k of[T]) checked(rule func(x T) error) of[T] {
	convert := k.convert
	k.convert = func(v cty.Value) (any, error) {
		x, err := convert(v)
		if err == nil {
			err = rule(x.(T))
		}
		return x, err
	}
	return k
}

// filled is a list with something in it.
func filled[T any](k of[[]T]) of[[]T] {
	return k.checked(func(list []T) error {
		if len(list) == 0 {
			return wrong("This one is empty.")
		}
		return nil
	})
}

// distinct is a list of texts that are all different.
func distinct(k of[[]string]) of[[]string] {
	return k.checked(func(list []string) error {
		for i, s := range list {
			if slices.Contains(list[:i], s) {
				return wrong("%q is there twice.", s)
			}
		}
		return nil
	})
}

// Kinds whose values stay expressions.
var (
	typeExpression = kind{noun: "type", want: "a type such as string, number or list(string)"}
	instances      = kind{noun: "map or list", want: `a map, such as { a = "203.0.113.1" }, or a list, such as ["a", "b"]`}
	axisPoint      = kind{noun: "value of an axis", want: "a number, a text, true, false, or a block"}
	axis           = kind{noun: "list", want: "a list of values, such as [1, 4, 16]"}
	anything       = kind{noun: "any value", want: "a value", convert: func(v cty.Value) (any, error) { return v, nil }}
)

// Kinds of single values.
var (
	text       = parsed("text", "text in quotes", func(s string) (string, error) { return s, nil })
	secretText = asKey(kindOf("text", "a text", asText))
	truth      = kindOf("true or false", "true or false", asBool)
	duration   = lasting[time.Duration](time.Millisecond, 0)
	leaseTime  = lasting[time.Duration](2*time.Second, 24*time.Hour)
	longEnough = lasting[load.Duration](100*time.Millisecond, 0)
	span       = lasting[load.Duration](time.Millisecond, 0) // of a load
	size       = parsed("size", `a size such as "32GB" (decimal) or "32GiB" (binary)`, parseSize)
	rate       = parsed("rate", `a number above 0, or "inf"`, parseRate)
	gpus       = parsed("GPUs", `a count and a model, such as "8xH200" or "8xMI300X"`, provision.ParseGPUs)
	versions   = parsed("version", `a version with a bound, such as ">= 550, < 580"`, provision.ParseVersions)
	hexDigest  = parsed("text", "a SHA-256 in 64 hex digits, as sha256sum prints it", formed(sha256Form))
	htmlFile   = parsed("file", `the name of a page, such as "report.html"`, formed(htmlForm))

	engineVersion = inQuotes(parsed("version", `a version, such as "0.7.3"`, func(s string) (string, error) {
		return s, engines.CheckVersion(s)
	}), noFit)
)

// Kinds of words.
var (
	engineRuntime = word(provision.Docker, provision.Process)
	imageFrom     = word(provision.FromRegistry, provision.FromCaller)
	endpoint      = word(load.Endpoints()...)
	convention    = word(load.ConventionSGLang, load.ConventionVLLM)
	mode          = word(online, offline)
	automatic     = wordList(AutomaticBenchmarks, AutomaticPrefixCache, AutomaticDistributions, AutomaticTimeLines)
)

// Kinds of lists.
var (
	texts  = listOf("list of texts", `a list of texts, such as ["a", "b"]`, asPlainText)
	words  = secretly(listOf("list of texts", `a list of words, such as ["python3", "-m", "server"]`, asText))
	mounts = listOf("list of mounts", `a list of mounts, such as ["/on/host:/in/container:ro"]`, asMount)
	names  = filled(distinct(listOf("list of names", `a list of names, such as ["gpus", "engine"]`, asPlainText)))
	stages = filled(listOf("list of stages",
		`a list of stages, such as [{ duration = "1m", rate = 2 }, { duration = "1m", rate = 4 }]`, asStage))
	rows = filled(listOf("list of objects", `a list of objects, such as csvdecode(file("published.csv"))`, asRow))

	percentiles = filled(listOf("list of numbers",
		"a list of percentiles between 1 and 100, such as [50, 99, 99.9]", asPercentile))
	gpuIDs = kindOf("list of lists of texts",
		`a list of GPUs for each instance, such as [["0", "1"], ["2", "3"]]`, asGPUIDs).checked(someForEach)
	oneOrMore = kindOf("name or list of names",
		`a name, or a list of names such as ["median_ttft_ms", "median_tpot_ms"]`, asNames)
)

// Kinds of objects.
var (
	object      = inSight(kindOf("object", `an object, such as { top_p = 0.9 }`, asObject))
	document    = merging(kindOf("object", `an object, such as { kv_cache_config = { dtype = "fp8" } }`, asDocument))
	flags       = merging(kindOf("map of flags", `an object, such as { tp = 8, trust-remote-code = true }`, asFlags))
	environment = merging(kindOf("map of texts", `an object with texts, such as { NAME = "value" }`, asEnvironment))
	headers     = secretly(kindOf("map of texts", `an object with texts, such as { X-Tenant = "bench" }`, asHeaders))
	adapters    = kindOf("map of numbers", `an object with shares, such as { sql = 0.5, chat = 0.25 }`, asAdapters)
	imageSizes  = kindOf("map of numbers", `an object with shares, such as { "1280x720" = 0.5, "256x256" = 0.5 }`, asImageSizes)
	ulimits     = kindOf("map of limits",
		`an object with whole numbers, -1 for none, such as { memlock = -1, nofile = 1048576 }`, asUlimits)
)

// lasting is a duration within bounds; most 0: of any length.
func lasting[D time.Duration | load.Duration](least, most time.Duration) of[D] {
	const want = `a duration such as "90s", "15m" or "1h30m"`
	return inQuotes(parsed("duration", want, func(s string) (D, error) {
		d, err := parseDuration(s)
		switch {
		case err != nil:
			return 0, noFit
		case d <= 0:
			return 0, wrong("It must be longer than nothing.")
		case d < least:
			return 0, wrong("The shortest is %s.", least)
		case most > 0 && d > most:
			return 0, wrong("The longest is %s.", most)
		}
		return D(d), nil
	}), wrong("A bare number has no unit."))
}

// parseDuration reads a duration, also one of days: "1d", "1d12h".
func parseDuration(s string) (time.Duration, error) {
	days, rest, ok := strings.Cut(s, "d")
	n, err := strconv.ParseFloat(days, 64)
	if !ok || err != nil || !(math.Abs(n) < 1e5) {
		return time.ParseDuration(s)
	}
	d := time.Duration(n * float64(24*time.Hour))
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	return d + more, err
}

// word is one of a few texts.
func word[T ~string](allowed ...T) of[T] {
	known := mapped(allowed, func(s T) string { return string(s) })
	want := inWords(quoted(known), "or")
	return parsed(want, want, func(s string) (T, error) {
		if !slices.Contains(known, s) {
			return "", wrong("%s", strings.TrimSpace(didYouMean(s, known, nil)))
		}
		return T(s), nil
	})
}

// wordList is a list of some of a few texts, each at most once.
func wordList(allowed ...string) of[[]string] {
	want := "a list of " + inWords(quoted(allowed), "and")
	return distinct(listOf(want, want, func(e cty.Value) (string, error) {
		s, err := asPlainText(e)
		if err == nil && !slices.Contains(allowed, s) {
			return "", wrong("There is no %q. %s", s, strings.TrimSpace(didYouMean(s, allowed, nil)))
		}
		return s, err
	}))
}

// whole is an integer within bounds.
func whole[N int | int64 | uint64](least, most N) of[N] {
	want := fmt.Sprintf("a whole number between %d and %d", least, most)
	if most > 65535 {
		want = fmt.Sprintf("a whole number of at least %d", least)
	}
	return kindOf("whole number", want, func(v cty.Value) (N, error) {
		n, ok := asNumber(v)
		if !ok {
			return 0, noFit
		}
		switch i, exact := n.Int64(); {
		case exact != big.Exact || i < int64(least):
			return 0, noFit
		case i > int64(most):
			return 0, wrong("The largest is %d.", most)
		default:
			return N(i), nil
		}
	})
}

// number is a float64 within bounds.
func number(least, most float64) of[float64] {
	want := fmt.Sprintf("a number between %v and %v", least, most)
	if most >= 1e6 {
		want = fmt.Sprintf("a number of at least %v", least)
	}
	return kindOf("number", want, func(v cty.Value) (float64, error) {
		f, ok := asFloat(v)
		if !ok || f < least || f > most {
			return 0, noFit
		}
		return f, nil
	})
}

// reference is a block of the named type, or of others, which becomes an N.
func reference[N any](block, example string, others ...string) of[*N] {
	want := withArticle(block) + " of this lab, such as " + example
	refers := append(others, block)
	return of[*N]{kind{noun: block, want: want, refers: refers, convert: func(v cty.Value) (any, error) {
		switch d := referred(v, ""); {
		case d == nil:
			return nil, noFit
		case slices.Contains(refers, d.typ.name):
			return d, nil
		default:
			return nil, wrong("%s is something else.", d.address)
		}
	}}}
}

// several are blocks that an argument refers to, and what makes a list of their nouns.
type several struct {
	all  []*declared
	list func(nouns []any) any
}

// referenceList is a list of blocks of the named type, each of which becomes an N.
func referenceList[N any](block, example string) of[[]*N] {
	noun := "list of " + block + "s"
	one := reference[N](block, "")
	list := func(nouns []any) any {
		var all []*N
		for _, n := range nouns {
			all = append(all, n.(*N))
		}
		return all
	}
	return of[[]*N]{kind{noun: noun, want: "a " + noun + ", such as " + example, refers: one.refers, convert: func(v cty.Value) (any, error) {
		unknown := false
		all, err := elements(v, func(e cty.Value) (*declared, error) {
			if unknown = unknown || !e.IsKnown(); unknown {
				return nil, nil
			}
			d, err := one.convert(e)
			if err != nil {
				return nil, err
			}
			return d.(*declared), nil
		})
		if err != nil || unknown {
			return nil, err
		}
		return several{all, list}, nil
	}}}
}

// orOne is a list of blocks that may be one block alone, and is not empty.
func orOne[N any](many of[[]*N], block, examples string) of[[]*N] {
	k := many.kind
	k.noun, k.want = block+" or "+k.noun, "hosts of this lab, such as "+examples
	k.convert = func(v cty.Value) (any, error) {
		if referred(v, "") != nil {
			v = cty.TupleVal([]cty.Value{v})
		}
		if v.IsKnown() && v.CanIterateElements() && v.LengthInt() == 0 {
			return nil, noFit
		}
		return many.kind.convert(v)
	}
	return of[[]*N]{k}
}

// Kinds of references.
var (
	hostOfLab    = reference[provision.Host]("host", "host.name")
	clusterOfLab = reference[provision.Cluster]("cluster", "cluster.name")
	modelOfLab   = reference[engines.Model]("model", "model.name")
	hostsOfLab   = referenceList[provision.Host]("host", "[host.a, host.b]")
	clientsOfLab = orOne(hostsOfLab, "host", "host.client or [host.c0, host.c1]")
	engineOfLab  = reference[engines.Engine]("engine", "engine.vllm.h200")
	groupOfLab   = reference[engines.Engine]("group", "group.name")
	measured     = reference[engines.Engine]("engine", "engine.vllm.h200", "group")
	datasetOfLab = reference[load.Dataset]("dataset", "dataset.random.short")
	jumpHost     = of[*provision.Host]{kind{
		noun: "host", want: `a host, such as host.bastion or "user@bastion:22"`, refers: []string{"host"}, convert: asJump,
	}}
)

var (
	sizeForm   = regexp.MustCompile(`^(\d+(?:\.\d+)?) ?(?:([KMGT])(i?))?B$`)
	sha256Form = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	htmlForm   = regexp.MustCompile(`\.html$`)
)

// formed is a text of a form.
func formed(form *regexp.Regexp) func(s string) (string, error) {
	return func(s string) (string, error) {
		if !form.MatchString(s) {
			return "", noFit
		}
		return s, nil
	}
}

func parseRate(s string) (load.Rate, error) {
	r, err := load.ParseRate(s)
	if err == nil && r == 0 {
		err = noFit
	}
	return r, err
}

func asNames(v cty.Value) ([]string, error) {
	if s, ok := asString(v); ok {
		return []string{s}, nil
	}
	list, err := names.convert(v)
	some, _ := list.([]string)
	return some, err
}

func asPercentile(v cty.Value) (float64, error) {
	f, ok := asFloat(v)
	switch {
	case !ok || f <= 0 || f >= 100:
		return 0, noFit
	case f < 1:
		return 0, wrong("Percentiles are percents: write %s for %s.",
			formatNumber(big.NewFloat(f*100)), formatNumber(big.NewFloat(f)))
	}
	return f, nil
}

// asJump is a declared host, or one that the text says whole.
func asJump(v cty.Value) (any, error) {
	if d := referred(v, "host"); d != nil {
		return d, nil
	}
	s, ok := asString(v)
	if !ok || v.Type() != cty.String {
		return nil, noFit
	}
	return HostAt(s)
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
