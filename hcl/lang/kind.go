package lang

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/plain"

	"github.com/zclconf/go-cty/cty"
)

// kind is how the value of an argument is written and what becomes of it.
type kind struct {
	noun   string                         // in the reference: "duration"
	want   string                         // in messages: "a duration such as \"90s\""
	secret bool                           // may hold sensitive values
	named  bool                           // what in it has the name or the form of a secret is one
	key    bool                           // is a secret, whatever it says
	same   func(kind, name string) string // of an object without dashes before its names: one name for all that mean the same to a kind of block
	refers []string                       // the block types whose blocks it refers to; nil: it is no reference
	merges bool                           // a block's value is laid over the one it inherits, key by key
	// convert turns a value that is known, not null and, unless secret, not
	// sensitive into what a noun holds; a link stands for what other blocks
	// become. A misfit says what is wrong. nil: whoever knows the block reads it.
	convert func(v cty.Value) (any, error)
}

// Kind is a kind whose values become a T.
type Kind[T any] struct{ kind }

// Convert is what a value becomes by itself, of a kind that refers to no block.
func (k Kind[T]) Convert(v cty.Value) (x T, err error) {
	value, err := k.convert(v)
	if err == nil {
		x = value.(T)
	}
	return x, err
}

// NewKind is a kind by what the reference calls it, what messages want, and what its values become. A convert
// that fails says why by [Wrong], or [NoFit] where what is wanted says all.
func NewKind[T any](noun, want string, convert func(v cty.Value) (T, error)) Kind[T] {
	return Kind[T]{kind{noun: noun, want: want, convert: func(v cty.Value) (any, error) {
		x, err := convert(v)
		return x, err
	}}}
}

// Sensitive is a kind whose values may be sensitive.
func Sensitive[T any](k Kind[T]) Kind[T] {
	k.secret, k.named = true, true
	return k
}

// asKey is a kind whose values are secrets.
func asKey[T any](k Kind[T]) Kind[T] {
	k.secret, k.key = true, true
	return k
}

// inSight is a kind whose values are shown, so that no secret may be in them.
func inSight[T any](k Kind[T]) Kind[T] {
	k.named = true
	return k
}

// Merging is a kind of object that is laid over what is inherited.
func Merging[T any](k Kind[T]) Kind[T] {
	k.merges = true
	return Sensitive(k)
}

// SameKeys is a kind of object whose names are written without leading dashes, and of which several may
// mean the same to a kind of block.
func SameKeys[T any](k Kind[T], same func(kind, name string) string) Kind[T] {
	k.same = same
	return k
}

// Parsed is a kind that is written as a text, or as a number or bool that stands for
// its text. Of a mistake that is no misfit the kind's want says all.
func Parsed[T any](noun, want string, parse func(s string) (T, error)) Kind[T] {
	return NewKind(noun, want, func(v cty.Value) (x T, err error) {
		if s, ok := AsString(v); ok {
			return parse(s)
		}
		return x, NoFit
	})
}

// Quoted is a kind for what a bare number cannot stand for; otherwise is what is wrong with one.
func Quoted[T any](k Kind[T], otherwise error) Kind[T] {
	convert := k.convert
	k.convert = func(v cty.Value) (any, error) {
		if v.Type() != cty.String {
			return nil, otherwise
		}
		return convert(v)
	}
	return k
}

// ListOf is a list, with a kind for its elements.
func ListOf[T any](noun, want string, element func(e cty.Value) (T, error)) Kind[[]T] {
	return NewKind(noun, want, func(v cty.Value) ([]T, error) { return Elements(v, element) })
}

// Checked is a kind with one more rule.
func (k Kind[T]) Checked(rule func(x T) error) Kind[T] {
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

// NonEmpty is a list with something in it.
func NonEmpty[T any](k Kind[[]T]) Kind[[]T] {
	return k.Checked(func(list []T) error {
		if len(list) == 0 {
			return Wrong("This one is empty.")
		}
		return nil
	})
}

// Distinct is a list of texts that are all different.
func Distinct(k Kind[[]string]) Kind[[]string] {
	return k.Checked(func(list []string) error {
		for i, s := range list {
			if slices.Contains(list[:i], s) {
				return Wrong("%q is there twice.", s)
			}
		}
		return nil
	})
}

// Kinds whose values stay expressions.
var (
	typeExpression = Kind[any]{kind{noun: "type", want: "a type such as string, number or list(string)"}}
	instances      = Kind[any]{kind{noun: "map or list", want: `a map, such as { a = "203.0.113.1" }, or a list, such as ["a", "b"]`}}
	pointKind      = Kind[any]{kind{noun: "value of an axis", want: "a number, a text, true, false, or a block"}}
	axisKind       = Kind[any]{kind{noun: "list", want: "a list of values, such as [1, 4, 16]"}}
	anything       = NewKind("any value", "a value", func(v cty.Value) (any, error) { return v, nil })
)

// Kinds of single values.
var (
	Text       = Parsed("text", "text in quotes", func(s string) (string, error) { return s, nil })
	SecretText = asKey(NewKind("text", "a text", AsText))
	Bool       = NewKind("true or false", "true or false", asBool)
	Duration   = DurationBetween[time.Duration](time.Millisecond, 0)
	Size       = Parsed("size", `a size such as "32GB" (decimal) or "32GiB" (binary)`, parseSize)
)

// Kinds of lists and of objects.
var (
	Texts          = ListOf("list of texts", `a list of texts, such as ["a", "b"]`, AsPlainText)
	Words          = Sensitive(ListOf("list of texts", `a list of words, such as ["python3", "-m", "server"]`, AsText))
	Names          = NonEmpty(Distinct(ListOf("list of names", `a list of names, such as ["gpus", "engine"]`, AsPlainText)))
	OneOrMoreNames = NewKind("name or list of names",
		`a name, or a list of names such as ["median_ttft_ms", "median_tpot_ms"]`, asNames)
	Object   = inSight(NewKind("object", `an object, such as { top_p = 0.9 }`, asObject))
	Document = Merging(NewKind("object", `an object, such as { kv_cache_config = { dtype = "fp8" } }`, AsDocument))
)

// DurationBetween is a duration within bounds; most 0: of any length.
func DurationBetween[D ~int64](least, most time.Duration) Kind[D] {
	const want = `a duration such as "90s", "15m" or "1h30m"`
	return Quoted(Parsed("duration", want, func(s string) (D, error) {
		d, err := parseDuration(s)
		switch {
		case err != nil:
			return 0, NoFit
		case d <= 0:
			return 0, Wrong("It must be longer than nothing.")
		case d < least:
			return 0, Wrong("The shortest is %s.", least)
		case most > 0 && d > most:
			return 0, Wrong("The longest is %s.", most)
		}
		return D(d), nil
	}), Wrong("A bare number has no unit."))
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

// OneOf is one of a few texts.
func OneOf[T ~string](allowed ...T) Kind[T] {
	known := mapped(allowed, func(s T) string { return string(s) })
	want := plain.List(quoted(known), "or")
	return Parsed(want, want, func(s string) (T, error) {
		if !slices.Contains(known, s) {
			return "", Wrong("%s", strings.TrimSpace(DidYouMean(s, known, nil)))
		}
		return T(s), nil
	})
}

// SomeOf is a list of some of a few texts, each at most once.
func SomeOf(allowed ...string) Kind[[]string] {
	want := "a list of " + plain.List(quoted(allowed), "and")
	return Distinct(ListOf(want, want, func(e cty.Value) (string, error) {
		s, err := AsPlainText(e)
		if err == nil && !slices.Contains(allowed, s) {
			return "", Wrong("There is no %q. %s", s, strings.TrimSpace(DidYouMean(s, allowed, nil)))
		}
		return s, err
	}))
}

// Whole is an integer within bounds.
func Whole[N int | int64 | uint64](least, most N) Kind[N] {
	want := fmt.Sprintf("a whole number between %d and %d", least, most)
	if most > 65535 {
		want = fmt.Sprintf("a whole number of at least %d", least)
	}
	return NewKind("whole number", want, func(v cty.Value) (N, error) {
		n, ok := asNumber(v)
		if !ok {
			return 0, NoFit
		}
		switch i, exact := n.Int64(); {
		case exact != big.Exact || i < int64(least):
			return 0, NoFit
		case i > int64(most):
			return 0, Wrong("The largest is %d.", most)
		default:
			return N(i), nil
		}
	})
}

// Number is a float64 within bounds.
func Number(least, most float64) Kind[float64] {
	want := fmt.Sprintf("a number between %v and %v", least, most)
	if most >= 1e6 {
		want = fmt.Sprintf("a number of at least %v", least)
	}
	return NewKind("number", want, func(v cty.Value) (float64, error) {
		f, ok := AsFloat(v)
		if !ok || f < least || f > most {
			return 0, NoFit
		}
		return f, nil
	})
}

// Matching is a text of a form.
func Matching(form *regexp.Regexp) func(s string) (string, error) {
	return func(s string) (string, error) {
		if !form.MatchString(s) {
			return "", NoFit
		}
		return s, nil
	}
}

func asNames(v cty.Value) ([]string, error) {
	if s, ok := AsString(v); ok {
		return []string{s}, nil
	}
	list, err := Names.convert(v)
	some, _ := list.([]string)
	return some, err
}
