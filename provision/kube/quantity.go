package kube

import (
	"math"
	"strconv"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
)

// quantity is how much there is of something, which Kubernetes writes "8", "500m", "64Gi": a number to reckon with.
type quantity float64

// UnmarshalJSON reads a text, or a number.
func (q *quantity) UnmarshalJSON(text []byte) error {
	var read apiresource.Quantity
	if err := read.UnmarshalJSON(text); err != nil {
		return err
	}
	*q = quantity(read.AsApproximateFloat64())
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
