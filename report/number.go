package report

import (
	"math"
	"strconv"
	"strings"
)

// number is a number for people: three significant digits, but never less than
// the whole number, with its thousands separated. What is under a thousandth is
// said to be just that.
func number(v float64) string {
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

// short is a number that was chosen, not measured: as short as it is exact, to ten
// digits, for 3 × 0.2 is not quite 0.6.
func short(v float64) string {
	if ten, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 10, 64), 64); err == nil {
		v = ten
	}
	return thousands(strconv.FormatFloat(v, 'f', -1, 64))
}

// whole is a count for people.
func whole[T ~int | ~int64](v T) string { return thousands(strconv.FormatInt(int64(v), 10)) }

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
