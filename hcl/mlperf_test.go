package hcl

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

// TestMLPerfPoints: the regions are those of the rules' own examples, and whatever the
// bounds are, there are at most seven points, rising, from the least to the greatest.
func TestMLPerfPoints(t *testing.T) {
	for bounds, want := range map[[2]int][]int{
		{32, 8192}: {32, 41, 52, 152, 437, 1894, 8192}, // regions end at 52, 437, 8192
		{1, 256}:   {1, 4, 7, 18, 41, 104, 256},        // at 7, 41, 256
		{16, 1024}: {16, 21, 26, 56, 117, 348, 1024},   // at 26, 117, 1024 (its text says 116; its reference algorithm 117)
		{32, 33}:   {32, 33},
		{1, 33}:    {1, 3, 4, 7, 11, 20, 33},
	} {
		if diff := cmp.Diff(want, mlperfPoints(bounds[0], bounds[1])); diff != "" {
			t.Errorf("mlperf_points%v (-want +got):\n%s", bounds, diff)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		least, most := 1+r.IntN(mlperfLow), mlperfLow+1+r.IntN(mlperfHigh-mlperfLow)
		p := mlperfPoints(least, most)
		if len(p) > 7 || p[0] != least || p[len(p)-1] != most || !slices.IsSorted(p) {
			t.Errorf("mlperf_points(%d, %d) = %v", least, most, p)
		}
	}
	for _, tt := range []struct {
		min, max cty.Value
		want     string
	}{
		{cty.NumberIntVal(0), cty.NumberIntVal(64), "the least concurrency is a whole number from 1 to 32"},
		{cty.NumberFloatVal(1.5), cty.NumberIntVal(64), "from 1 to 32"},
		{cty.NumberIntVal(1), cty.NumberIntVal(32), "the greatest concurrency is a whole number from 33 to 1000000"},
		{cty.NumberIntVal(1), cty.NumberFloatVal(1e30), "from 33 to 1000000"},
		{cty.NumberIntVal(1), cty.PositiveInfinity, "from 33 to 1000000"},
	} {
		if _, err := mlperfPointsFunc.Call([]cty.Value{tt.min, tt.max}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("mlperf_points(%s, %s): %v, want %q", fmt.Sprint(tt.min), fmt.Sprint(tt.max), err, tt.want)
		}
	}
}
