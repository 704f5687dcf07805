package kube

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// quantity is how Kubernetes counts what there is of something: "8", "500m", "64Gi".
type quantity float64

var suffixes = []struct {
	name string
	of   float64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50}, {"Ei", 1 << 60},
	{"n", 1e-9}, {"u", 1e-6}, {"m", 1e-3}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18},
}

// UnmarshalJSON reads a text, or a number.
func (q *quantity) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) != nil {
		s = string(text)
	}
	scale := 1.0
	if n, err := strconv.ParseFloat(s, 64); err == nil { // "1E3" is a number
		*q = quantity(n)
		return nil
	}
	for _, suffix := range suffixes {
		if number, ok := strings.CutSuffix(s, suffix.name); ok {
			s, scale = number, suffix.of
			break
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return fmt.Errorf("%q is not a quantity", s)
	}
	*q = quantity(n * scale)
	return nil
}

// String is without a suffix, as devices are counted, but for memory.
func (q quantity) String() string {
	for _, of := range []struct {
		name string
		of   quantity
	}{{"Gi", 1 << 30}, {"Mi", 1 << 20}} {
		if whole := quantity(math.Floor(float64(q / of.of))); whole > 0 && whole*of.of == q {
			return whole.String() + of.name
		}
	}
	return strconv.FormatFloat(math.Round(float64(q)*1e3)/1e3, 'f', -1, 64)
}
