package hcl

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	yaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functionSet is what expressions can call.
func functionSet(dir string, vars Vars) map[string]function.Function {
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "can": tryfunc.CanFunc, "ceil": stdlib.CeilFunc, "chomp": stdlib.ChompFunc,
		"chunklist": stdlib.ChunklistFunc, "coalesce": stdlib.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc,
		"compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
		"csvdecode": stdlib.CSVDecodeFunc, "distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc,
		"env": textFunc("name", vars.orEmpty), "file": textFunc("path", fileIn(dir)), "flatten": stdlib.FlattenFunc,
		"floor": stdlib.FloorFunc, "format": bounded(stdlib.FormatFunc, narrow),
		"formatlist": bounded(stdlib.FormatListFunc, narrow),
		"indent":     stdlib.IndentFunc, "join": stdlib.JoinFunc, "jsondecode": stdlib.JSONDecodeFunc,
		"jsonencode": stdlib.JSONEncodeFunc, "keys": stdlib.KeysFunc, "length": stdlib.LengthFunc,
		"log": stdlib.LogFunc, "lookup": stdlib.LookupFunc, "lower": stdlib.LowerFunc, "max": stdlib.MaxFunc,
		"merge": stdlib.MergeFunc, "min": stdlib.MinFunc, "mlperf_points": mlperfPointsFunc, "parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc,
		"range": stdlib.RangeFunc, "regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc,
		"regexreplace": stdlib.RegexReplaceFunc, "replace": stdlib.ReplaceFunc, "reverse": stdlib.ReverseListFunc,
		"sensitive": sensitiveFunc, "setintersection": stdlib.SetIntersectionFunc,
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

// unknownFunction is what is said of a function that there is not.
func unknownFunction(name string, ctx *hcl.EvalContext) (summary, detail string) {
	var known []string
	for ; ctx != nil; ctx = ctx.Parent() {
		known = slices.AppendSeq(known, maps.Keys(ctx.Functions))
	}
	slices.Sort(known)
	return "Unknown function", fmt.Sprintf("There is no function %q.%s", name, didYouMean(name, known, plainly))
}

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
func fileIn(dir string) func(path string) (string, error) {
	return func(path string) (string, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		text, err := readRegular(path)
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

// orEmpty reads the environment; what is not set is the empty text.
func (v Vars) orEmpty(name string) (string, error) {
	s, _ := v.lookup(name)
	return s, nil
}

// sensitiveFunc marks a value that comes from no sensitive variable, such as env("HF_TOKEN").
var sensitiveFunc = function.New(&function.Spec{
	Params: []function.Parameter{{
		Name: "value", Type: cty.DynamicPseudoType,
		AllowUnknown: true, AllowNull: true, AllowMarked: true, AllowDynamicType: true,
	}},
	Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return sensitive(args[0]), nil },
})

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

var wideFormat = regexp.MustCompile(`[0-9]{4}`)

// narrow refuses formats with widths that would.
func narrow(args []cty.Value) error {
	a, _ := args[0].Unmark()
	if a.Type() == cty.String && a.IsKnown() && !a.IsNull() && wideFormat.MatchString(a.AsString()) {
		return function.NewArgErrorf(0, "a width of more than three digits")
	}
	return nil
}
