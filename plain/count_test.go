package plain_test

import (
	"testing"

	"hclbench/plain"
)

func TestCounts(t *testing.T) {
	for got, want := range map[string]string{
		plain.Count(0, "cell"): "0 cells", plain.Count(1, "cell"): "1 cell", plain.Count(3, "cell"): "3 cells",
		plain.Bytes(7): "7 bytes", plain.Bytes(1): "1 byte", plain.Bytes(12_000): "12.0 kB",
		plain.Bytes(3_100_000): "3.1 MB", plain.Bytes(688_600_000_000): "688.6 GB",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
