package provision

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Require is what a host must be besides its GPUs' count and model. Zero values
// ask for nothing.
type Require struct {
	Driver        Versions // of the GPU driver
	ROCm          Versions // of ROCm, on hosts with AMD GPUs
	GPUMemory     int64    // bytes on each GPU
	Memory        int64    // bytes of the host's own
	DiskFree      int64    // bytes where images and model caches are kept
	IdleGPUs      bool     // nobody else uses them
	NUMABalancing *bool    // the kernel's automatic balancing is on, or off
}

// Versions bounds a version; the zero value allows every one.
type Versions []VersionBound

// VersionBound is one bound.
type VersionBound struct {
	Op      string // ">=", ">", "<=", "<" or "="
	Version string
}

// ParseVersions reads ">= 550.144" or ">= 550, < 580". A version alone is that
// version and no other.
func ParseVersions(s string) (Versions, error) {
	var v Versions
	for part := range strings.SplitSeq(s, ",") {
		b := VersionBound{Op: "=", Version: strings.TrimSpace(part)}
		for _, op := range []string{">=", "<=", ">", "<", "="} {
			if rest, ok := strings.CutPrefix(b.Version, op); ok {
				b = VersionBound{op, strings.TrimSpace(rest)}
				break
			}
		}
		if _, ok := versionNumbers(b.Version); !ok {
			return nil, fmt.Errorf("%q is not a version with a bound, such as \">= 550.144\"", s)
		}
		v = append(v, b)
	}
	return v, nil
}

// String is the form that users write.
func (v Versions) String() string {
	var parts []string
	for _, b := range v {
		parts = append(parts, b.Op+" "+b.Version)
	}
	return strings.Join(parts, ", ")
}

// Allow reports whether a version is within all bounds. Versions are compared
// number by number, missing ones counting as 0; what follows the numbers, as in
// "6.3.1-48", does not count. One that begins with no number is never allowed.
func (v Versions) Allow(version string) bool {
	have, ok := versionNumbers(version)
	for _, b := range v {
		want, _ := versionNumbers(b.Version)
		c := slices.Compare(have, want)
		if !ok || !map[string]bool{">=": c >= 0, ">": c > 0, "<=": c <= 0, "<": c < 0, "=": c == 0}[b.Op] {
			return false
		}
	}
	return true
}

// versionNumbers are those that a version begins with, without zeros at the end: 550, 144, 3.
func versionNumbers(s string) (numbers []int, ok bool) {
	for part := range strings.SplitSeq(s, ".") {
		digits := part[:len(part)-len(strings.TrimLeft(part, "0123456789"))]
		n, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		numbers = append(numbers, n)
		if digits != part {
			break
		}
	}
	known := len(numbers) > 0
	for len(numbers) > 0 && numbers[len(numbers)-1] == 0 {
		numbers = numbers[:len(numbers)-1]
	}
	return numbers, known
}
