// Package smi reads what the vendors' tools print of GPUs, nvidia-smi, rocm-smi and amd-smi: values by the names that
// the tools give them, and what more than one caller wants to know under one name.
//
// It knows the forms that drivers from 470 and releases from ROCm 5.7 on have printed, and that whatever
// is not told is not a number. It knows no hosts and runs nothing: which command was
// run, and which of its other values mean what, is its caller's.
package smi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hclbench/plain"
)

// GPU is what a tool says of one GPU.
type GPU struct {
	Index int // as the tool counts them: partitions where a GPU is split
	Object
}

// maxGPUs is more than any host has: callers count up to an index.
const maxGPUs = 1 << 10

// Object is values by their names.
type Object map[string]any

// Parse reads what one of AMD's tools has printed with --json, on either stream. GPUs come in the order of
// their indices; system is what rocm-smi says of all together: its driver, the processes.
//
// rocm-smi prints an object with one entry for each card that has something to say. amd-smi prints a
// list, since ROCm 7.0 within an object, and before 6.1 the one object where there is one GPU.
// Warnings stand before it. An object that tells of an error instead, with which amd-smi before ROCm
// 7 may well exit with 0, is that error. Of anything else, its last line is the error.
func Parse(text string) (gpus []GPU, system Object, err error) {
	var printed any
	for rest := text; printed == nil; {
		start := startOfJSON.FindStringIndex(rest)
		if start == nil {
			return nil, nil, lastLine(text)
		}
		rest = rest[start[1]-1:]
		from := json.NewDecoder(strings.NewReader(rest))
		from.UseNumber()
		var next any
		if from.Decode(&next) == nil && isData(next) {
			printed = next
		}
		rest = rest[1:]
	}
	switch printed := printed.(type) {
	case []any:
		return list(printed), nil, nil
	case map[string]any:
		if said, ok := printed["error"].(string); ok {
			return nil, nil, errors.New(plain.Cut(plain.Line(said), 1<<10))
		}
		if all, ok := printed["gpu_data"].([]any); ok {
			return list(all), nil, nil
		}
		if _, ok := printed["gpu"]; ok {
			return list([]any{printed}), nil, nil
		}
		return cards(printed)
	}
	return nil, nil, errForm
}

var errForm = errors.New("what it printed is of no known form")

func lastLine(text string) error {
	text = strings.TrimSpace(text)
	last := plain.Cut(plain.Line(text[strings.LastIndex(text, "\n")+1:]), 1<<10)
	return errors.New(cmp.Or(strings.TrimSpace(last), "it printed nothing"))
}

// startOfJSON is where a line may begin it; a warning may begin with a bracket too.
var startOfJSON = regexp.MustCompile(`(?m)^[ \t]*[\[{]`)

// isData tells what the tools print from a warning such as "[0]".
func isData(printed any) bool {
	if all, ok := printed.([]any); ok {
		return !slices.ContainsFunc(all, func(of any) bool { _, ok := of.(map[string]any); return !ok })
	}
	_, ok := printed.(map[string]any)
	return ok
}

func list(all []any) []GPU {
	var gpus []GPU
	for i, of := range all[:min(len(all), maxGPUs)] {
		said, _ := of.(map[string]any)
		g := GPU{i, said}
		if n, ok := g.At("gpu").Number(); ok && n < maxGPUs {
			g.Index = int(n)
		}
		gpus = append(gpus, g)
	}
	slices.SortStableFunc(gpus, func(a, b GPU) int { return cmp.Compare(a.Index, b.Index) })
	return gpus
}

func cards(all map[string]any) (gpus []GPU, system Object, err error) {
	for name, of := range all {
		said, ok := of.(map[string]any)
		n, err := strconv.ParseUint(strings.TrimPrefix(name, "card"), 10, 10)
		switch {
		case ok && name == "system":
			system = said
		case ok && err == nil:
			gpus = append(gpus, GPU{int(n), said})
		}
	}
	if gpus == nil && system == nil {
		return nil, nil, errForm
	}
	slices.SortFunc(gpus, func(a, b GPU) int { return cmp.Compare(a.Index, b.Index) })
	return gpus, system, nil
}

// At is the value under these names, one within the other. Their capitals have
// changed between releases and do not count.
func (o Object) At(path ...string) Value {
	var said any = map[string]any(o)
	for _, name := range path {
		of, _ := said.(map[string]any)
		said = nil
		for k, v := range of {
			if strings.EqualFold(k, name) {
				said = v
			}
		}
	}
	return Value{said}
}

// Name is what the GPU is called.
func (g GPU) Name() string {
	return cmp.Or(g.At("name").Text(), g.At("Card Series").Text(), g.At("Device Name").Text(), g.At("Card Model").Text(),
		g.At("asic", "market_name").Text())
}

// Memory is how much memory it has, in bytes.
func (g GPU) Memory() (bytes int64, ok bool) {
	return g.firstBytes(g.At("memory.total"), g.At("VRAM Total Memory (B)"), g.At("vram", "size"))
}

// MemoryInUse is how much of it is in use, in bytes.
func (g GPU) MemoryInUse() (bytes int64, ok bool) {
	return g.firstBytes(g.At("memory.used"), g.At("VRAM Total Used Memory (B)"), g.At("mem_usage", "used_vram"))
}

// firstBytes is what nvidia-smi tells in MiB, rocm-smi in bytes, or amd-smi with its unit.
func (g GPU) firstBytes(nvidia, rocm, amd Value) (bytes int64, ok bool) {
	if bytes, ok = nvidia.Bytes("MB"); !ok {
		bytes, ok = rocm.Bytes("B")
	}
	if !ok {
		bytes, ok = amd.Bytes("")
	}
	return bytes, ok
}

// First is the first of these values that is a number, or one that is not known.
func First(values ...Value) Value {
	for _, v := range values {
		if _, ok := v.Number(); ok {
			return v
		}
	}
	return Value{}
}

// Value is what a tool gives: a text, a number, {"value": 142, "unit": "W"}, or what
// stands for none, such as "N/A", "N/A (Secondary die)", "[Not Supported]" or "unknown".
type Value struct{ any any }

// Text is the value as a text; "" where it is not told.
func (v Value) Text() string {
	switch said := v.any.(type) {
	case string:
		if s := strings.TrimSpace(plain.Line(said)); !strings.HasPrefix(s, "N/A") && !strings.HasPrefix(s, "[") {
			return s
		}
	case json.Number:
		return said.String()
	case map[string]any:
		return Value{said["value"]}.Text()
	}
	return ""
}

var number = regexp.MustCompile(`-?\d+(\.\d+)?`)

// Number is the number in the value: 132 of "(132Mhz)". rocm-smi writes -1 for what it
// does not know, and nothing that the tools measure is below zero.
func (v Value) Number() (n float64, ok bool) {
	n, err := strconv.ParseFloat(number.FindString(v.Text()), 64)
	return n, err == nil && n >= 0
}

// Mask are the bits of a value such as "0x0000000000000044".
func (v Value) Mask() (bits uint64, ok bool) {
	bits, err := strconv.ParseUint(strings.TrimPrefix(v.Text(), "0x"), 16, 64)
	return bits, err == nil
}

// Bytes is the value in bytes. unit is that of a number which comes without one. The
// tools count in powers of 1024, whatever they write.
func (v Value) Bytes(unit string) (int64, bool) {
	if of, ok := v.any.(map[string]any); ok {
		unit = fmt.Sprint(of["unit"])
	}
	shift, known := map[string]int{"B": 0, "KB": 10, "MB": 20, "GB": 30}[unit]
	n, ok := v.Number()
	return int64(n * float64(int64(1)<<shift)), known && ok
}

// List are the values in a list, or those of an object that has lists in it, such as
// one for each part of a GPU; of anything else the value itself.
func (v Value) List() []Value {
	var all []Value
	switch said := v.any.(type) {
	case []any:
		for _, of := range said {
			all = append(all, Value{of}.List()...)
		}
	case map[string]any:
		if _, plain := said["value"]; plain {
			return []Value{v}
		}
		for _, of := range said {
			all = append(all, Value{of}.List()...)
		}
	default:
		return []Value{v}
	}
	return all
}

// Items are the objects in a list.
func (v Value) Items() []Object {
	all, _ := v.any.([]any)
	var items []Object
	for _, of := range all {
		if said, ok := of.(map[string]any); ok {
			items = append(items, said)
		}
	}
	return items
}
