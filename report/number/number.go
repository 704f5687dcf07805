// Package number writes numbers as people read them.
package number

import (
	"math"
	"strconv"
	"strings"
)

// Text is a number for people: three significant digits, but never less than the whole number, with
// its thousands separated. What is under a thousandth is said to be just that.
func Text(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v == 0:
		return "0"
	}
	if v > 0 && v < 0.001 {
		return "<0.001"
	}
	rounded := strconv.FormatFloat(v, 'e', 2, 64)
	exponent, _ := strconv.Atoi(rounded[strings.IndexByte(rounded, 'e')+1:]) // it always has one
	return thousands(strconv.FormatFloat(v, 'f', max(0, 2-exponent), 64))
}

// Larger is the unit in which many of another are read.
type Larger struct {
	Unit string  `json:"unit"`
	Per  float64 `json:"per"`  // of the other make one of it
	Most float64 `json:"most"` // the greatest value is at least so many of the other
	Some float64 `json:"some"` // and none but 0 is less than that: three digits would begin with zeros
}

// LargerUnits are the units that have a larger one.
func LargerUnits() map[string]Larger {
	return map[string]Larger{"ms": {Unit: "s", Per: 1000, Most: 5000, Some: 100}}
}

// Unit is the unit in which values of a unit are read side by side, and how many of theirs one of it is.
func Unit(unit string, values ...float64) (string, float64) {
	larger, most := LargerUnits()[unit], 0.0
	for _, v := range values {
		if most = max(most, v); v != 0 && v < larger.Some {
			return unit, 1
		}
	}
	if larger.Unit == "" || most < larger.Most {
		return unit, 1
	}
	return larger.Unit, larger.Per
}

// Amount is a value with its unit: "1,234 tok/s", "3.56 s".
func Amount(v float64, unit string) string {
	unit, per := Unit(unit, v)
	return strings.TrimSpace(Text(v/per) + " " + unit)
}

// Short is a number that was chosen, not measured: as short as it is exact, to ten
// digits, for 3 × 0.2 is not quite 0.6.
func Short(v float64) string {
	if ten, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 10, 64), 64); err == nil {
		v = ten
	}
	return thousands(strconv.FormatFloat(v, 'f', -1, 64))
}

// Whole is a count for people.
func Whole[T ~int | ~int64](v T) string { return thousands(strconv.FormatInt(int64(v), 10)) }

// thousands separates the thousands of a number in plain decimals.
func thousands(s string) string {
	sign, digits := "", s
	if strings.HasPrefix(s, "-") {
		sign, digits = "-", s[1:]
	}
	digits, fraction, point := strings.Cut(digits, ".")
	if point {
		fraction = "." + fraction
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String() + fraction
}

// Exact is a number as it was measured.
func Exact(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Change is a change for people: "+12 %". What is more than doubled, or less than a
// tenth, is a factor: "×20", "÷700".
func Change(change float64) string {
	switch {
	case math.IsNaN(change) || math.IsInf(change, 0):
		return "-"
	case change > 1:
		return "×" + Text(1+change)
	case change > -1 && change < -0.9:
		return "÷" + Text(1/(1+change))
	}
	p := change * 100
	digits := 0
	if math.Abs(p) < 9.95 {
		digits = 1
	}
	s := strconv.FormatFloat(p, 'f', digits, 64)
	if s = strings.TrimPrefix(s, "-"); strings.Trim(s, "0.") == "" {
		return "±0 %"
	}
	sign := "+"
	if p < 0 {
		sign = "−"
	}
	return sign + thousands(s) + " %"
}

// Share is a share for people, rounded up: "0.2%", "12%".
func Share(v float64) string {
	if v < 0.0995 {
		return strconv.FormatFloat(math.Ceil(max(0, v*1000-1e-9))/10, 'f', 1, 64) + "%"
	}
	return strconv.FormatFloat(math.Ceil(v*100-1e-9), 'f', 0, 64) + "%"
}

// Count is so many of something: "1 point", "1,200 points".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Whole(n) + " " + what + "s"
}
