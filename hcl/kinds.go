package hcl

import (
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/provision"
)

// kind is how the value of an argument is written and what becomes of it.
type kind struct {
	noun   string // in the reference: "duration"
	want   string // in messages: "a duration such as \"90s\""
	secret bool   // may hold sensitive values
	refers string // the block type whose blocks it refers to, or ""
	merges bool   // an engine's value is laid over the one it inherits, key by key
	// convert turns a value that is known, not null and, unless secret, not
	// sensitive into what a Config holds. A *wrongValue says what is wrong.
	convert func(v cty.Value) (any, *wrongValue)
}

// wrongValue says why a value does not fit, in more detail than its kind's want.
// The zero value adds nothing.
type wrongValue struct {
	hint string // more sentences
}

var fits *wrongValue

func wrong(format string, args ...any) *wrongValue {
	return &wrongValue{hint: fmt.Sprintf(format, args...)}
}

// The kinds of values.
var (
	anything       = kind{noun: "any value", want: "a value", convert: func(v cty.Value) (any, *wrongValue) { return v, fits }}
	typeExpression = kind{noun: "type", want: "a type such as string, number or list(string)"}
	instances      = kind{noun: "map or list", want: `a map, such as { a = "203.0.113.1" }, or a list of texts, such as ["a", "b"]`}
	axisPoint      = kind{noun: "value of an axis", want: "a number, a text, true, false, or a block"}
	axis           = kind{noun: "list", want: "a list of values, such as [1, 4, 16]"}

	text = kind{noun: "text", want: "text in quotes", convert: func(v cty.Value) (any, *wrongValue) {
		s, ok := asString(v)
		if !ok {
			return nil, &wrongValue{}
		}
		return s, fits
	}}
	truth = kind{noun: "true or false", want: "true or false", convert: func(v cty.Value) (any, *wrongValue) {
		b, err := convert.Convert(v, cty.Bool)
		if err != nil || b.IsNull() {
			return nil, &wrongValue{}
		}
		return b.True(), fits
	}}
	duration = lasting(time.Millisecond, 0)
	bound    = lasting(time.Nanosecond, 0)
	size     = kind{noun: "size", want: `a size such as "32GB" (decimal) or "32GiB" (binary)`, convert: func(v cty.Value) (any, *wrongValue) {
		s, ok := asString(v)
		n, good := parseSize(s)
		if !ok || !good || v.Type() != cty.String {
			return nil, &wrongValue{}
		}
		return n, fits
	}}
	rate = kind{noun: "rate", want: `a number above 0, or "inf"`, convert: func(v cty.Value) (any, *wrongValue) {
		s, ok := asString(v)
		if !ok {
			return nil, &wrongValue{}
		}
		r, err := load.ParseRate(s)
		if err != nil || r == 0 {
			return nil, &wrongValue{}
		}
		return r, fits
	}}
	gpus = kind{noun: "GPUs", want: `a count and a model, such as "8xH200" or "8xMI300X"`, convert: func(v cty.Value) (any, *wrongValue) {
		s, ok := asString(v)
		if !ok {
			return nil, &wrongValue{}
		}
		g, err := provision.ParseGPUs(s)
		if err != nil {
			return nil, &wrongValue{}
		}
		return g, fits
	}}
	versions = kind{noun: "version", want: `a version with a bound, such as ">= 550.144" or ">= 550, < 580"`, convert: func(v cty.Value) (any, *wrongValue) {
		s, ok := asString(v)
		if !ok {
			return nil, &wrongValue{}
		}
		x, err := provision.ParseVersions(s)
		if err != nil {
			return nil, &wrongValue{}
		}
		return x, fits
	}}
	engineVersion = kind{noun: "version", want: `a version, such as "0.7.3"`, convert: func(v cty.Value) (any, *wrongValue) {
		s, ok := asString(v)
		if !ok || v.Type() != cty.String || engines.CheckVersion(s) != nil {
			return nil, &wrongValue{}
		}
		return s, fits
	}}
	texts = kind{noun: "list of texts", want: `a list of texts, such as ["a", "b"]`, convert: func(v cty.Value) (any, *wrongValue) {
		list, w := elements(v, func(e cty.Value) (string, *wrongValue) {
			s, ok := asString(e)
			if !ok {
				return "", &wrongValue{}
			}
			return s, fits
		})
		return list, w
	}}
	names = kind{noun: "list of names", want: `a list of names, such as ["gpus", "engine"]`, convert: func(v cty.Value) (any, *wrongValue) {
		return someNames(v)
	}}
	oneOrMore = kind{noun: "name or list of names", want: `a name, or a list of names such as ["median_ttft_ms", "median_tpot_ms"]`, convert: func(v cty.Value) (any, *wrongValue) {
		if s, ok := asString(v); ok {
			return []string{s}, fits
		}
		return someNames(v)
	}}
	htmlFile = kind{noun: "file", want: `the name of a page, such as "report.html"`, convert: func(v cty.Value) (any, *wrongValue) {
		s, ok := asString(v)
		if !ok || filepath.Ext(s) != ".html" {
			return nil, &wrongValue{}
		}
		return s, fits
	}}
	words = kind{noun: "list of texts", want: `a list of words, such as ["python3", "-m", "server"]`, secret: true, convert: func(v cty.Value) (any, *wrongValue) {
		list, w := elements(v, asText)
		return list, w
	}}
	secretText = kind{noun: "text", want: "a text", secret: true, convert: func(v cty.Value) (any, *wrongValue) {
		t, w := asText(v)
		if w != fits {
			return nil, w
		}
		return t, fits
	}}
	mounts = kind{noun: "list of mounts", want: `a list of mounts, such as ["/on/host:/in/container:ro"]`, convert: func(v cty.Value) (any, *wrongValue) {
		list, w := elements(v, func(e cty.Value) (provision.Mount, *wrongValue) {
			s, _ := asString(e)
			return parseMount(s)
		})
		return list, w
	}}
	ulimits = kind{noun: "map of limits", want: `an object with a whole number for each limit, -1 for none, such as { memlock = -1, nofile = 1048576 }`, convert: func(v cty.Value) (any, *wrongValue) {
		var out []engines.Ulimit
		w := entries(v, func(name string, e cty.Value) *wrongValue {
			if e.IsNull() {
				out = append(out, engines.Ulimit{Name: name})
				return fits
			}
			f, ok := asFloat(e)
			n := int64(f)
			if !ok || float64(n) != f || n < -1 {
				return &wrongValue{}
			}
			out = append(out, engines.Ulimit{Name: name, Value: &n})
			return fits
		})
		return out, w
	}}
	percentiles = kind{noun: "list of numbers", want: "a list of percentiles between 1 and 100, such as [50, 99, 99.9]", convert: func(v cty.Value) (any, *wrongValue) {
		list, w := elements(v, func(e cty.Value) (float64, *wrongValue) {
			f, ok := asFloat(e)
			if !ok || f <= 0 || f >= 100 {
				return 0, &wrongValue{}
			}
			if f < 1 {
				return 0, wrong("Percentiles are percents: write %s for %s.", formatNumber(big.NewFloat(f*100)), formatNumber(big.NewFloat(f)))
			}
			return f, fits
		})
		if w == fits && len(list) == 0 {
			return nil, wrong("This one is empty.")
		}
		return list, w
	}}
	object = kind{noun: "object", want: `an object, such as { top_p = 0.9 }`, convert: func(v cty.Value) (any, *wrongValue) {
		if !v.Type().IsObjectType() && !v.Type().IsMapType() {
			return nil, &wrongValue{}
		}
		s, ok := asJSON(v)
		if !ok {
			return nil, &wrongValue{}
		}
		return s, fits
	}}
	hexDigest = kind{noun: "text", want: "a SHA-256 in 64 hex digits, as sha256sum prints it", convert: func(v cty.Value) (any, *wrongValue) {
		s, ok := asString(v)
		if !ok || !sha256Form.MatchString(s) {
			return nil, &wrongValue{}
		}
		return strings.ToLower(s), fits
	}}
	stages = kind{noun: "list of stages", want: `a list of stages, such as [{ duration = "1m", rate = 2 }, { duration = "1m", rate = 4 }]`, convert: func(v cty.Value) (any, *wrongValue) {
		list, w := elements(v, asStage)
		if w == fits && len(list) == 0 {
			return nil, wrong("This one is empty.")
		}
		return list, w
	}}
	rows = kind{noun: "list of objects", want: `a list of objects, such as csvdecode(file("published.csv"))`, convert: func(v cty.Value) (any, *wrongValue) {
		list, w := elements(v, asRow)
		if w == fits && len(list) == 0 {
			return nil, wrong("This one is empty.")
		}
		return list, w
	}}
	environment = kind{noun: "map of texts", want: `an object with a text for each variable, such as { NAME = "value" }`, secret: true, merges: true, convert: func(v cty.Value) (any, *wrongValue) {
		env := []provision.EnvVar{}
		w := entries(v, func(name string, e cty.Value) *wrongValue {
			if name == "" || strings.ContainsAny(name, "= \x00") {
				return wrong("%q is not a name that an environment variable can have.", name)
			}
			if plain, _ := e.Unmark(); plain.IsNull() {
				return fits // as if it were not there
			}
			t, w := asText(e)
			env = append(env, provision.EnvVar{Name: name, Value: t})
			return w
		})
		return env, w
	}}
	headers = kind{noun: "map of texts", want: `an object with a text for each header, such as { X-Tenant = "bench" }`, secret: true, convert: func(v cty.Value) (any, *wrongValue) {
		list := []provision.EnvVar{}
		w := entries(v, func(name string, e cty.Value) *wrongValue {
			if plain, _ := e.Unmark(); plain.IsNull() {
				return fits
			}
			t, w := asText(e)
			if w != fits {
				return w
			}
			if err := load.CheckHeader(name, t.Reveal()); err != nil {
				return wrong("%s.", title(err.Error()))
			}
			if slices.ContainsFunc(list, func(h provision.EnvVar) bool { return strings.EqualFold(h.Name, name) }) {
				return wrong("The header %s is there twice: capitals mean nothing in its name.", name)
			}
			list = append(list, provision.EnvVar{Name: name, Value: t})
			return fits
		})
		return list, w
	}}
	flags = kind{noun: "map of flags", want: `an object with a value for each flag, such as { tp = 8, trust-remote-code = true }`, secret: true, merges: true, convert: func(v cty.Value) (any, *wrongValue) {
		var out flagList
		w := entries(v, out.add)
		return out, w
	}}
	document = kind{noun: "object", want: `an object, such as { kv_cache_config = { dtype = "fp8" } }`, secret: true, merges: true, convert: asDocument}
	jumpHost = kind{noun: "host", want: `a host, such as host.bastion or "user@bastion:22"`, refers: "host", convert: func(v cty.Value) (any, *wrongValue) {
		if d := referred(v, "host"); d != nil {
			return d, fits
		}
		s, ok := asString(v)
		if !ok || v.Type() != cty.String {
			return nil, &wrongValue{}
		}
		h := &provision.Host{Name: s, Address: s, Runtime: provision.Docker}
		if user, address, ok := strings.Cut(s, "@"); ok {
			h.User, h.Address = user, address
		}
		if why := wrongAddress(h.Address); why != "" {
			return nil, wrong("%s", why)
		}
		return h, fits
	}}
)

// lasting is a duration within bounds; most 0: of any length.
func lasting(least, most time.Duration) kind {
	return kind{noun: "duration", want: `a duration such as "90s", "15m" or "1h30m"`, convert: func(v cty.Value) (any, *wrongValue) {
		s, ok := asString(v)
		if !ok || v.Type() != cty.String {
			return nil, wrong("A bare number has no unit.")
		}
		d, err := time.ParseDuration(s)
		switch {
		case err != nil:
			return nil, &wrongValue{}
		case d <= 0:
			return nil, wrong("It must be longer than nothing.")
		case d < least:
			return nil, wrong("The shortest is %s.", least)
		case most > 0 && d > most:
			return nil, wrong("The longest is %s.", most)
		}
		return d, fits
	}}
}

// someNames are names in a list, each once.
func someNames(v cty.Value) (any, *wrongValue) {
	var seen []string
	_, w := elements(v, func(e cty.Value) (string, *wrongValue) {
		s, ok := asString(e)
		if !ok {
			return "", &wrongValue{}
		}
		if slices.Contains(seen, s) {
			return "", wrong("%q is there twice.", s)
		}
		seen = append(seen, s)
		return s, fits
	})
	if w == fits && len(seen) == 0 {
		return nil, wrong("This one is empty.")
	}
	return seen, w
}

// word is one of a few texts.
func word(allowed ...string) kind {
	want := inWords(quoted(allowed), "or")
	return kind{noun: want, want: want, convert: func(v cty.Value) (any, *wrongValue) {
		s, ok := asString(v)
		if !ok {
			return nil, &wrongValue{}
		}
		if !slices.Contains(allowed, s) {
			return nil, wrong("%s", strings.TrimSpace(didYouMean(s, allowed, nil)))
		}
		return s, fits
	}}
}

// wordList is a list of some of a few texts, each at most once.
func wordList(allowed ...string) kind {
	want := "a list of " + inWords(quoted(allowed), "and")
	return kind{noun: want, want: want, convert: func(v cty.Value) (any, *wrongValue) {
		var seen []string
		list, w := elements(v, func(e cty.Value) (string, *wrongValue) {
			s, ok := asString(e)
			if !ok {
				return "", &wrongValue{}
			}
			if !slices.Contains(allowed, s) {
				return "", wrong("There is no %q. %s", s, strings.TrimSpace(didYouMean(s, allowed, nil)))
			}
			if slices.Contains(seen, s) {
				return "", wrong("%q is there twice.", s)
			}
			seen = append(seen, s)
			return s, fits
		})
		return list, w
	}}
}

// whole is an integer within bounds; converted to int64.
func whole(least, most int64) kind {
	want := fmt.Sprintf("a whole number between %d and %d", least, most)
	if most > 65535 {
		want = fmt.Sprintf("a whole number of at least %d", least)
	}
	return kind{noun: "whole number", want: want, convert: func(v cty.Value) (any, *wrongValue) {
		n, err := convert.Convert(v, cty.Number)
		if err != nil || n.IsNull() {
			return nil, &wrongValue{}
		}
		i, exact := n.AsBigFloat().Int64()
		if exact != big.Exact || i < least {
			return nil, &wrongValue{}
		}
		if i > most {
			return nil, wrong("The largest is %d.", most)
		}
		return i, fits
	}}
}

// number is a float64 within bounds.
func number(least, most float64) kind {
	want := fmt.Sprintf("a number between %v and %v", least, most)
	if most >= 1e6 {
		want = fmt.Sprintf("a number of at least %v", least)
	}
	return kind{noun: "number", want: want, convert: func(v cty.Value) (any, *wrongValue) {
		f, ok := asFloat(v)
		if !ok || f < least || f > most {
			return nil, &wrongValue{}
		}
		return f, fits
	}}
}

// reference is a block of the named type; converted to its *declared.
func reference(block string) kind {
	example := map[string]string{"engine": "engine.vllm.h200", "dataset": "dataset.random.short"}[block]
	if example == "" {
		example = block + ".name"
	}
	article := "a "
	if block == "engine" {
		article = "an "
	}
	return kind{noun: block, want: fmt.Sprintf("%s%s of this lab, such as %s", article, block, example), refers: block, convert: func(v cty.Value) (any, *wrongValue) {
		if d := referred(v, block); d != nil {
			return d, fits
		}
		if d := referred(v, ""); d != nil {
			return nil, wrong("%s is something else.", d.address)
		}
		return nil, &wrongValue{}
	}}
}
