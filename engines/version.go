package engines

import (
	"cmp"
	"regexp"
	"strconv"

	"hclbench/origin"
)

// The version of an engine stands in the tag of its image, where it does at all:
// "v0.5.3.post1-cu126" of an engine's own images, "rocm6.3.1_instinct_vllm0.7.3_20250311"
// of others'.
var (
	versionInTag = regexp.MustCompile(`(?:vllm|sglang)[-_]?v?(\d+)\.(\d+)(?:\.(\d+))?`)
	versionAtTag = regexp.MustCompile(`^v?(\d+)\.(\d+)\.(\d+)`)
)

// before reports whether the tag of the engine's image says an earlier version. An
// image whose tag says none is taken for a new one.
func (e *Engine) before(major, minor, patch int) bool {
	image, err := origin.ParseRef(e.Image)
	if err != nil {
		return false
	}
	m := versionInTag.FindStringSubmatch(image.Tag)
	if m == nil {
		m = versionAtTag.FindStringSubmatch(image.Tag)
	}
	if m == nil {
		return false
	}
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	return cmp.Or(cmp.Compare(number(m[1]), major), cmp.Compare(number(m[2]), minor), cmp.Compare(number(m[3]), patch)) < 0
}
