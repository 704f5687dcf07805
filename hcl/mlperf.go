package hcl

import (
	"math"
	"slices"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// mlperfPoints are concurrencies at which MLPerf Endpoints asks for measurements: the
// least, and in each of its three regions the geometric middle and the end. Its rules
// leave open which points of a region are taken. Regions are equal in the logarithm of
// what is above the least; their ends are rounded as there, half to even. Of a narrow
// region there are fewer.
func mlperfPoints(least, most int) []int {
	above := float64(most - least)
	points, begin := []int{least}, least+1
	for region := 1; region <= 3; region++ {
		end := most
		if region < 3 {
			end = int(math.RoundToEven(float64(least) + math.Pow(2, math.Log2(above)*float64(region)/3)))
		}
		if begin <= end {
			points = append(points, int(math.Round(math.Sqrt(float64(begin)*float64(end)))), end)
		}
		begin = max(begin, end+1)
	}
	slices.Sort(points)
	return slices.Compact(points)
}

// The concurrencies between which MLPerf Endpoints lets somebody choose: of the least, and
// the bound here of the greatest.
const (
	mlperfLow  = 32
	mlperfHigh = 1_000_000
)

var mlperfPointsFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "min", Type: cty.Number}, {Name: "max", Type: cty.Number}},
	Type:   function.StaticReturnType(cty.List(cty.Number)),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		least, whole := wholeBetween(args[0], 1, mlperfLow)
		if !whole {
			return cty.NilVal, function.NewArgErrorf(0, "the least concurrency is a whole number from 1 to %d", mlperfLow)
		}
		most, whole := wholeBetween(args[1], mlperfLow+1, mlperfHigh)
		if !whole {
			return cty.NilVal, function.NewArgErrorf(1, "the greatest concurrency is a whole number from %d to %d",
				mlperfLow+1, mlperfHigh)
		}
		var points []cty.Value
		for _, p := range mlperfPoints(least, most) {
			points = append(points, cty.NumberIntVal(int64(p)))
		}
		return cty.ListVal(points), nil
	},
})

func wholeBetween(v cty.Value, from, to int) (int, bool) {
	f, exact := v.AsBigFloat().Int64()
	return int(f), exact == 0 && f >= int64(from) && f <= int64(to)
}
