package lang

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	yaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functionSet is what expressions can call.
func functionSet(src *Source, vars Vars, mark func(cty.Value) cty.Value) map[string]function.Function {
	env := func(name string) (string, error) {
		s, _ := vars.Lookup(name) // what is not set is the empty text
		return s, nil
	}
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "can": tryfunc.CanFunc, "ceil": stdlib.CeilFunc, "chomp": stdlib.ChompFunc,
		"chunklist": stdlib.ChunklistFunc, "coalesce": stdlib.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc,
		"compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
		"csvdecode": stdlib.CSVDecodeFunc, "distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc,
		"env": textFunc("name", env), "file": textFunc("path", fileIn(src)), "flatten": stdlib.FlattenFunc,
		"floor": stdlib.FloorFunc, "format": bounded(stdlib.FormatFunc, narrow),
		"formatlist": bounded(stdlib.FormatListFunc, narrow),
		"indent":     bounded(stdlib.IndentFunc, grows(indentedLength)), "join": bounded(stdlib.JoinFunc, grows(joinedLength)), "jsondecode": stdlib.JSONDecodeFunc,
		"jsonencode": stdlib.JSONEncodeFunc, "keys": stdlib.KeysFunc, "length": stdlib.LengthFunc,
		"log": stdlib.LogFunc, "lookup": stdlib.LookupFunc, "lower": stdlib.LowerFunc, "max": stdlib.MaxFunc,
		"merge": stdlib.MergeFunc, "min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc,
		"range": stdlib.RangeFunc, "regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc,
		"regexreplace": bounded(stdlib.RegexReplaceFunc, grows(matchedLength)), "replace": bounded(stdlib.ReplaceFunc, grows(replacedLength)), "reverse": stdlib.ReverseListFunc,
		"sensitive": sensitiveFunc(mark), "setintersection": stdlib.SetIntersectionFunc,
		"setproduct":  bounded(stdlib.SetProductFunc, small),
		"setsubtract": stdlib.SetSubtractFunc, "setsymmetricdifference": stdlib.SetSymmetricDifferenceFunc,
		"setunion": stdlib.SetUnionFunc, "signum": stdlib.SignumFunc, "slice": stdlib.SliceFunc,
		"sort": stdlib.SortFunc, "split": stdlib.SplitFunc, "strlen": stdlib.StrlenFunc,
		"strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc,
		"tobool": stdlib.MakeToFunc(cty.Bool), "tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)), "tonumber": stdlib.MakeToFunc(cty.Number),
		"toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)), "tostring": stdlib.MakeToFunc(cty.String),
		"trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc,
		"trimsuffix": stdlib.TrimSuffixFunc, "try": tryfunc.TryFunc, "upper": stdlib.UpperFunc,
		"values": stdlib.ValuesFunc, "yamldecode": yaml.YAMLDecodeFunc, "zipmap": stdlib.ZipmapFunc,
	}
}

// FunctionNames are the functions that expressions can call, sorted.
func (s *scope) FunctionNames() []string { return slices.Sorted(maps.Keys(s.functions)) }

// textFunc makes a text of one.
func textFunc(param string, do func(s string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: param, Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			s, err := do(args[0].AsString())
			return cty.StringVal(s), err
		},
	})
}

// fileIn reads a text file, relative to the lab's directory.
func fileIn(src *Source) func(path string) (string, error) {
	return func(path string) (string, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(src.Dir, path)
		}
		text, err := src.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", function.NewArgErrorf(0, "there is no file %s; paths are relative to the lab's directory", path)
		case err != nil:
			return "", function.NewArgErrorf(0, "%v; paths are relative to the lab's directory", err)
		case !utf8.Valid(text):
			return "", function.NewArgErrorf(0, "%s is not text in UTF-8", path)
		}
		return string(text), nil
	}
}

// sensitiveFunc marks a value that comes from no sensitive variable, such as env("HF_TOKEN").
func sensitiveFunc(mark func(cty.Value) cty.Value) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{
			Name: "value", Type: cty.DynamicPseudoType,
			AllowUnknown: true, AllowNull: true, AllowMarked: true, AllowDynamicType: true,
		}},
		Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return mark(args[0]), nil },
	})
}

// bounded is a function with an end: a slip must not take all of the machine's memory.
func bounded(f function.Function, check func(args []cty.Value) error) function.Function {
	return function.New(&function.Spec{
		Params:   f.Params(),
		VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := check(args); err != nil {
				return cty.NilType, err
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(args) },
	})
}

// small refuses products that would fill the memory.
func small(args []cty.Value) error {
	const most = 1_000_000
	total := 1
	for _, a := range args {
		if a, _ := a.Unmark(); a.IsKnown() && !a.IsNull() && a.CanIterateElements() {
			if total *= a.LengthInt(); total > most {
				return fmt.Errorf("the product has more than %d elements", most)
			}
		}
	}
	return nil
}

// grows refuses calls whose text would.
func grows(length func(args []cty.Value) float64) func(args []cty.Value) error {
	return func(args []cty.Value) error {
		plain := make([]cty.Value, len(args))
		for i, a := range args {
			if !a.IsWhollyKnown() {
				return nil
			}
			plain[i], _ = a.UnmarkDeep()
		}
		if length(plain) > maxText {
			return fmt.Errorf("the text would have more than %d MiB", maxText>>20)
		}
		return nil
	}
}

// textOf is a text argument; "" where it is another, which the function says itself.
func textOf(v cty.Value) string {
	s, _ := AsString(v)
	return s
}

func indentedLength(args []cty.Value) float64 {
	width, _ := AsFloat(args[0])
	s := textOf(args[1])
	return float64(len(s)) + width*float64(strings.Count(s, "\n"))
}

func joinedLength(args []cty.Value) float64 {
	separator, sum := float64(len(textOf(args[0]))), 0.0
	for _, list := range args[1:] {
		if list.IsNull() || !list.CanIterateElements() {
			continue
		}
		for it := list.ElementIterator(); it.Next(); {
			_, e := it.Element()
			sum += float64(len(textOf(e))) + separator
		}
	}
	return sum
}

// replacedLength is of a text in which each of a part becomes another.
func replacedLength(args []cty.Value) float64 {
	s, by := textOf(args[0]), textOf(args[2])
	return float64(len(s)) + float64(strings.Count(s, textOf(args[1])))*float64(len(by))
}

// matchedLength is of a text in which whatever matches a pattern becomes another, at most at every character.
func matchedLength(args []cty.Value) float64 {
	s, by := textOf(args[0]), textOf(args[2])
	return float64(len(s)) + float64(len(s)+1)*float64(len(by))
}

var wideFormat = regexp.MustCompile(`[0-9]{4}`)

// narrow refuses formats with widths that would.
func narrow(args []cty.Value) error {
	a, _ := args[0].Unmark()
	if a.Type() == cty.String && a.IsKnown() && !a.IsNull() && wideFormat.MatchString(a.AsString()) {
		return function.NewArgErrorf(0, "a width of more than three digits")
	}
	return nil
}
