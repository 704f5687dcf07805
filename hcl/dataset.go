package hcl

import (
	"slices"
	"time"

	"hclbench/hcl/lang"
	"hclbench/load"
)

// datasetBlock stands for the data sets of all kinds, each with those arguments that mean something to it.
func datasetBlock() *lang.BlockType {
	t := &lang.BlockType{
		Name: "dataset", Root: "dataset",
		Labels: []lang.Label{{What: "kind", Kinds: load.DatasetKinds()}, {What: "name", Form: lang.Identifier}},
		Make:   lang.Makes(func(d *lang.Declared) *load.Dataset { return new(load.NewDataset(d.Kind)) }),
		Check:  lang.Checks(checkDataset),
	}
	all := load.DatasetArguments()
	of := func(a load.Argument[load.Dataset]) lang.Argument {
		return loadArgument(a, func(d *load.Dataset) *load.Dataset { return d })
	}
	for _, kind := range load.DatasetKinds() {
		v := *t
		v.Kind = kind
		var may []lang.Argument
		for _, a := range all {
			switch {
			case a.Place != load.InBlock || !a.Has(kind):
			case slices.Contains(a.Needed, kind):
				v.Args = append(v.Args, of(a).Required(a.Hint))
			default:
				may = append(may, of(a))
			}
		}
		v.Args = append(append(v.Args, may...), lang.Comment())
		t.Variants = append(t.Variants, &v)
	}
	for _, a := range all {
		if a.Place == load.InBlock {
			t.Args = append(t.Args, of(a))
		}
	}
	t.Args = append(t.Args, lang.Comment())
	return t
}

// checkDataset is about arguments that only some kinds have.
func checkDataset(b *lang.Block, d *load.Dataset) {
	for _, a := range load.DatasetArguments() {
		if x := b.Find(a.Name); !b.Incomplete && x.IsValid() && a.Idle(d) != "" {
			b.Warn(x.At, "No effect", "%s %s.", a.Name, a.Idle(d))
		}
	}
	if b.Type.Knows("path") {
		b.FailIfEmpty("path", "Write the name of a file, relative to the lab's directory.")
		d.Path, d.ImageDir = b.Vars.AtHome(d.Path), b.Vars.AtHome(d.ImageDir)
	}
}

// loadArgument is an argument of a load, or of a data set, in a block that becomes an M, which has the noun N.
func loadArgument[M any, N load.Workload | load.Dataset](a load.Argument[N], in func(*M) *N) lang.Argument {
	switch a.Field(new(N)).(type) {
	case *int:
		return loadField(a, in, lang.Whole(int(a.Least), int(a.Most)))
	case *uint64:
		return loadField(a, in, lang.Whole(uint64(a.Least), uint64(a.Most)))
	case *float64:
		return loadField(a, in, lang.Number(a.Least, a.Most))
	case **float64:
		return lang.Arg(a.Name, lang.Number(a.Least, a.Most), func(m *M, x float64) { *a.Field(in(m)).(**float64) = &x })
	case *bool:
		return lang.Arg(a.Name, lang.Bool, func(m *M, on bool) { *a.Field(in(m)).(*bool) = on != a.Off })
	case *load.Duration:
		return loadField(a, in, lang.DurationBetween[load.Duration](time.Duration(a.Least), time.Duration(a.Most)))
	case *load.Rate:
		return loadField(a, in, rate)
	case *[]load.Stage:
		return loadField(a, in, stages)
	case *[]load.Adapter:
		return loadField(a, in, adapters)
	case *[]load.ImageSize:
		return loadField(a, in, imageSizes)
	}
	switch {
	case a.Words != nil:
		return loadField(a, in, lang.OneOf(a.Words...))
	case a.Form == load.SHA256Text:
		return loadField(a, in, hexDigest)
	case a.Form == load.ObjectText:
		return loadField(a, in, lang.Object)
	}
	return loadField(a, in, lang.Text)
}

func loadField[M, T any, N load.Workload | load.Dataset](a load.Argument[N], in func(*M) *N, k lang.Kind[T]) lang.Argument {
	return lang.Arg(a.Name, k, func(m *M, value T) { *a.Field(in(m)).(*T) = value })
}

// loadArguments are those that a lab says at a place, in a block that becomes an M.
func loadArguments[M any](place load.Place, in func(*M) *load.Workload) []lang.Argument {
	var list []lang.Argument
	for _, a := range load.Arguments() {
		if a.Place == place {
			list = append(list, loadArgument(a, in))
		}
	}
	return list
}
