package plain

import "fmt"

// Count is so many of something: "1 cell", "3 cells", "0 cells".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Bytes is a size in decimal units: "688.6 GB", "3.1 MB", "12.0 kB", "7 bytes".
func Bytes(n int64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if float64(n) >= unit.of {
			return fmt.Sprintf("%.1f %s", float64(n)/unit.of, unit.name)
		}
	}
	return Count(int(n), "byte")
}
