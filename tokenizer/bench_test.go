package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// BenchmarkEncode measures encoding on one core: of English and of code, as
// they lie in this repository, and of the vectors, which are a mix of scripts
// and signs that no text comes near to. Cold has nothing in the cache.
func BenchmarkEncode(b *testing.B) {
	for _, family := range families {
		var mixed strings.Builder
		for _, v := range vectors(b, family.name) {
			mixed.WriteString(v.Text)
		}
		for _, text := range []struct{ name, text string }{
			{"english", written(b, "../*.md", "../docs/*.md")},
			{"code", written(b, "../*/*.go")},
			{"vectors", mixed.String()},
		} {
			for _, cold := range []bool{false, true} {
				name := family.name + "/" + text.name
				if cold {
					name += "-cold"
				}
				b.Run(name, func(b *testing.B) {
					tok := load(b, family.name)
					ids := tok.Encode(text.text)
					b.SetBytes(int64(len(text.text)))
					b.ReportAllocs()
					start := cpuTime(b)
					for b.Loop() {
						if cold {
							tok.cache = newCache()
						}
						ids = tok.Encode(text.text)
					}
					b.ReportMetric(float64(len(text.text)*b.N)/(cpuTime(b)-start)/1e6, "MB/cpu-s")
					b.ReportMetric(float64(len(text.text))/float64(len(ids)), "bytes/token")
				})
			}
		}
	}
}

// cpuTime returns the seconds of CPU that this process has used: unlike those of
// the clock, they do not depend on what else the machine does.
func cpuTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// written returns files of this repository, at most 1 MB.
func written(b *testing.B, patterns ...string) string {
	var all strings.Builder
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				b.Fatal(err)
			}
			if all.Len()+len(text) <= 1<<20 {
				all.Write(text)
			}
		}
	}
	return all.String()
}
