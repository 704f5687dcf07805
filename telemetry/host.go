package telemetry

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// hostSource reads what Linux says of processors and memory in /proc.
func hostSource() Source {
	var busy, all float64 // at the reading before
	return polled(1, func(context.Context) ([]Reading, error) {
		stat, err := os.ReadFile("/proc/stat")
		if err != nil {
			return nil, fmt.Errorf("read the processors' time: %w", err)
		}
		memory, err := os.ReadFile("/proc/meminfo")
		if err != nil {
			return nil, fmt.Errorf("read the memory in use: %w", err)
		}
		var readings []Reading
		nowBusy, nowAll := processorTime(string(stat))
		if all > 0 && nowAll > all {
			readings = append(readings, reading(Host, CPU, 100*(nowBusy-busy)/(nowAll-all)))
		}
		busy, all = nowBusy, nowAll
		if used, ok := memoryInUse(string(memory)); ok {
			readings = append(readings, reading(Host, Memory, used))
		}
		return readings, nil
	})
}

// processorTime reads the first line of /proc/stat (proc(5)): user, nice, system,
// idle, iowait, irq, softirq, steal, and guests, which user time holds already.
func processorTime(stat string) (busy, all float64) {
	line, _, _ := strings.Cut(stat, "\n")
	for i, word := range strings.Fields(strings.TrimPrefix(line, "cpu ")) {
		ticks, err := strconv.ParseFloat(word, 64)
		if err != nil || i >= 8 {
			break
		}
		all += ticks
		if i != 3 && i != 4 {
			busy += ticks
		}
	}
	return busy, all
}

func memoryInUse(meminfo string) (bytes float64, ok bool) {
	kib := map[string]float64{}
	for line := range strings.Lines(meminfo) {
		if f := strings.Fields(line); len(f) >= 2 {
			kib[f[0]], _ = strconv.ParseFloat(f[1], 64)
		}
	}
	total, available := kib["MemTotal:"], kib["MemAvailable:"]
	return (total - available) * 1024, total > 0 && available > 0
}
