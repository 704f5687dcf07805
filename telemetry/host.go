package telemetry

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// hostSource reads what Linux says of processors and memory in /proc, and what is left of the processors' work without
// ours; nil: that is not known.
func hostSource(ours Spent) Source {
	var before, apart ticks // apart, when ours was known last
	var had time.Duration   // ours, then
	var waited float64      // µs, at the reading before
	var read time.Time
	return polled(1, func(ctx context.Context) ([]Reading, error) {
		var have time.Duration
		known := false
		if ours != nil {
			have, known = ours(ctx)
		}
		stat, err := os.ReadFile("/proc/stat")
		if err != nil {
			return nil, fmt.Errorf("read the processors' time: %w", err)
		}
		memory, err := os.ReadFile("/proc/meminfo")
		if err != nil {
			return nil, fmt.Errorf("read the memory in use: %w", err)
		}
		var readings []Reading
		now := processorTime(string(stat))
		if all := now.all - before.all; before.all > 0 && all > 0 {
			readings = append(readings, reading(Host, CPU, 100*(now.busy-before.busy)/all), reading(Host, Steal, 100*(now.steal-before.steal)/all))
		}
		before = now
		if known {
			if all := now.all - apart.all; apart.all > 0 && all > 0 {
				readings = append(readings, reading(Host, Others, 100*(now.tasks-apart.tasks-ticksOf(have-had))/all))
			}
			apart, had = now, have
		}
		pressure, err := os.ReadFile("/proc/pressure/cpu") // not every kernel has it
		if some, ok := waiting(string(pressure)); err == nil && ok {
			if !read.IsZero() {
				readings = append(readings, reading(Host, Pressure, min(100, (some-waited)/1e4/time.Since(read).Seconds())))
			}
			waited, read = some, time.Now()
		}
		if used, ok := memoryInUse(string(memory)); ok {
			readings = append(readings, reading(Host, Memory, used))
		}
		return readings, nil
	})
}

// waiting reads for how many microseconds something has waited for a processor, of /proc/pressure/cpu.
func waiting(pressure string) (us float64, ok bool) {
	_, total, _ := strings.Cut(pressure, "total=")
	total, _, _ = strings.Cut(total, "\n")
	us, err := strconv.ParseFloat(total, 64)
	return us, err == nil
}

// ticks are what the processors have spent since the start, tasks without interrupts, which are nobody's: a load's
// network is among them.
type ticks struct{ busy, tasks, steal, all float64 }

// ticksOf is a time as /proc has it, in hundredths of a second.
func ticksOf(d time.Duration) float64 { return 100 * d.Seconds() }

// processorTime reads the first line of /proc/stat (proc(5)): user, nice, system,
// idle, iowait, irq, softirq, steal, and guests, which user time holds already.
func processorTime(stat string) (spent ticks) {
	line, _, _ := strings.Cut(stat, "\n")
	for i, word := range strings.Fields(strings.TrimPrefix(line, "cpu ")) {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil || i >= 8 {
			break
		}
		spent.all += n
		if i != 3 && i != 4 {
			spent.busy += n
		}
		if i < 3 {
			spent.tasks += n
		}
		if i == 7 {
			spent.steal = n
		}
	}
	return spent
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
