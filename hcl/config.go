// Package hcl is the lab language: it turns text into a validated [Config], or
// into diagnostics that point at the text.
//
// It contacts nothing and decides nothing about order, identity or what is
// already done. Nobody outside sees a type of the HCL library: what leaves this
// package is plain data, with every matrix expanded and every reference
// resolved.
package hcl

import (
	"hclbench/engines"
	"hclbench/load"
	"hclbench/provision"
)

// Config is a lab whose text is right.
type Config struct {
	Lab   Lab
	Dir   string // where the lab's files are
	Hosts []*provision.Host
	// Engines are all of them: each that a cell uses, one that uses matrix.* in each of
	// its forms, and those that no cell uses.
	Engines    []*engines.Engine
	Benchmarks []Benchmark
	Report     Report
}

// Benchmark is a benchmark block, its matrix expanded.
type Benchmark struct {
	Name        string
	Description string
	Repeat      int // how often each cell is measured, at least 1
	Percentiles []float64
	Cells       []Cell      // in declared order, the last axis turning fastest
	References  []Reference // published numbers, to be printed beside what is measured
	Pos         string
}

// Cell is one point of a benchmark's matrix.
type Cell struct {
	Axes     []Axis
	Engine   *engines.Engine
	Workload load.Workload
	Offline  bool               // nothing is sent: the engine's own benchmark is given what it takes of the workload
	Headers  []provision.EnvVar // sent with every request, sorted by name; values may be secrets
	From     *provision.Host    // where the load is sent from; nil: the engine's own host
}

// Axis is one coordinate of a cell. Value is an int64, a float64, a bool or a
// string; an engine is its address without "engine.", such as "vllm.h200".
type Axis struct {
	Name  string
	Value any
}
