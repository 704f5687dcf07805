package prompts

import (
	"math/rand/v2"

	"hclbench/load"
)

// What a random stream is for. Streams of different use never meet, so that a
// change in one (a longer prompt) leaves the others as they were.
const (
	ForPrompt uint64 = iota + 1
	ForWarmup
	ForArrivals
	forGroup
	forBlock
	forOrder
)

// Seed is that of a job's data set.
func Seed(j load.Job) uint64 { return j.Seed ^ scramble(j.Workload.Dataset.Seed) }

// Random is the stream of request index, the same in whatever order requests
// are made.
func Random(seed, use, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(scramble(seed^scramble(use)), scramble(index+seed)))
}

// scramble is the finaliser of SplitMix64: neighbouring seeds become unrelated.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
