package telemetry

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/smi"
)

var zero = time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return zero.Add(time.Duration(seconds * float64(time.Second))) }

// read is a sampler that has read the power of GPUs at these seconds.
func read(plan Plan, power map[string]map[float64]float64) *Sampler {
	s := &Sampler{plan: plan, every: time.Second, cancel: func() {}, stopped: make(chan struct{})}
	close(s.stopped)
	for of, values := range power {
		for i := range 1000 { // in order
			if v, ok := values[float64(i)/10]; ok {
				s.add(at(float64(i)/10), Reading{of, Power, "W", v})
			}
		}
	}
	return s
}

// every is a power that is read every so many seconds, up to a last one.
func every(seconds, watts, last float64) map[float64]float64 {
	power := map[float64]float64{}
	for at := 0.0; at <= last; at += seconds {
		power[math.Round(at*10)/10] = watts
	}
	return power
}

// TestTwoDies: of a package with two dies the first tells the power of both. It is known of engines that have both.
func TestTwoDies(t *testing.T) {
	gpus, _, err := smi.Parse(`{"card0": {"Average Graphics Package Power (W)": "400.0"}, "card1": {"Average Graphics Package Power (W)": "N/A (Secondary die)"},
		"card2": {"Average Graphics Package Power (W)": "300.0"}, "card3": {"Average Graphics Package Power (W)": "N/A (Secondary die)"}}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		only              []string
		count             int
		energy            float64
		expected, missing int
	}{
		{nil, 4, 7000, 20, 0},
		{[]string{"0", "1"}, 2, 4000, 10, 0},
		{[]string{"2"}, 1, 0, 10, 10},
		{[]string{"3"}, 1, 0, 10, 10},
		{[]string{"1", "2"}, 2, 0, 20, 20},
	} {
		g := &GPUs{Vendor: AMD, Count: c.count, Only: c.only}
		s := read(Plan{GPUs: g}, nil)
		for i := range 11 {
			s.add(at(float64(i)), g.ofAMD(gpus)...)
		}
		r := s.Stop(Window{zero, at(0), at(10)})
		if r.Energy != c.energy || r.Expected != c.expected || r.Missing != c.missing {
			t.Errorf("GPUs %v: %v J, %d of %d missing; want %v J, %d of %d", c.only, r.Energy, r.Missing, r.Expected, c.energy, c.missing, c.expected)
		}
		for _, x := range r.Series {
			if x.Name != Power {
				t.Errorf("GPUs %v: there is a series %s of %s", c.only, x.Name, x.Of)
			}
		}
	}
}

// TestEnergy: power is integrated over the window and nothing else, with the
// values at its edges from the line between readings.
func TestEnergy(t *testing.T) {
	ramp := map[float64]float64{0: 0, 1: 100, 2: 200, 3: 300, 4: 400, 5: 500}
	flat := map[float64]float64{0: 700, 1: 700, 2: 700, 3: 700, 4: 700, 5: 700}
	for _, c := range []struct {
		name              string
		power             map[string]map[float64]float64
		count             int
		from, to          float64
		energy            float64
		expected, missing int
	}{
		{"whole seconds", map[string]map[float64]float64{"gpu0": ramp}, 1, 1, 4, 750, 3, 0},
		{"between readings", map[string]map[float64]float64{"gpu0": ramp}, 1, 1.5, 2.5, 200, 1, 0},
		{"two GPUs", map[string]map[float64]float64{"gpu0": ramp, "gpu1": flat}, 2, 0, 4, 800 + 2800, 8, 0},
		{"first and last are held", map[string]map[float64]float64{"gpu0": flat}, 1, 0, 5.9, 700 * 5.9, 5, 0},
		{"a GPU is silent", map[string]map[float64]float64{"gpu0": flat}, 2, 0, 5, 0, 10, 5},
		{"a tool that takes a ninth longer", map[string]map[float64]float64{"gpu0": every(1.1, 700, 20)}, 1, 0, 20, 14000, 19, 0},
		{"one of ten is missing", map[string]map[float64]float64{"gpu0": {0: 700, 1: 700, 2: 700, 4: 700, 5: 700, 6: 700, 7: 700, 8: 700, 9: 700, 10: 700}}, 1, 0, 10, 7000, 10, 1},
		{"half is missing", map[string]map[float64]float64{"gpu0": {0: 700, 5: 700, 9: 700}}, 1, 0, 9, 0, 9, 7},
	} {
		r := read(Plan{GPUs: &GPUs{Vendor: NVIDIA, Count: c.count}}, c.power).Stop(Window{zero, at(c.from), at(c.to)})
		if math.Abs(r.Energy-c.energy) > 1e-6 || r.Expected != c.expected || r.Missing != c.missing {
			t.Errorf("%s: %v J, %d of %d missing; want %v J, %d of %d", c.name, r.Energy, r.Missing, r.Expected,
				c.energy, c.missing, c.expected)
		}
	}
}

// TestAddUp: what several hosts have read is of all together. Where the energy of one is not known, the
// others' would be too little.
func TestAddUp(t *testing.T) {
	known, unknown := Record{Expected: 10, Energy: 700}, Record{Expected: 10, Missing: 5}
	for _, c := range []struct {
		name   string
		of     []Record
		energy float64
	}{
		{"all know", []Record{known, known, known}, 2100},
		{"the first does not", []Record{unknown, known, known}, 0},
		{"the last does not", []Record{known, known, unknown}, 0},
		{"one has no GPUs", []Record{{}, known, {}, known}, 1400},
	} {
		r := c.of[0]
		for _, more := range c.of[1:] {
			r.Add(&more, "n")
		}
		if r.Energy != c.energy {
			t.Errorf("%s: %v J, want %v", c.name, r.Energy, c.energy)
		}
	}
	var r Record
	for _, parts := range [][2]float64{{10, 100}, {50, 100}} {
		r.Add(&Record{Shares: map[string]Share{
			PrefixHits: {parts[0], parts[1]}, StepTokens: {100 + parts[0], 50},
		}}, "n1")
	}
	if *r.PrefixHitRate != 0.3 || *r.StepTokens != 2.6 || r.Acceptance != nil {
		t.Errorf("hits %v, tokens a step %v, %+v", *r.PrefixHitRate, *r.StepTokens, r)
	}
}

func TestSeriesLieInTheWindow(t *testing.T) {
	s := read(Plan{GPUs: &GPUs{Vendor: NVIDIA, Count: 1}}, map[string]map[float64]float64{"gpu3": {0: 1, 1: 2, 2: 3, 3: 4, 4: 5}})
	s.add(at(3.5), Reading{"gpu3", Power, "W", 99}) // the clock was set back
	got := s.Stop(Window{Zero: at(1), From: at(1), To: at(3)})
	want := []Series{{Of: "gpu3", Name: Power, Unit: "W", At: []float64{0, 1, 2}, Value: []float64{2, 3, 4}}}
	if diff := cmp.Diff(want, got.Series); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	if got := read(Plan{}, nil).Stop(Window{}); got != nil {
		t.Errorf("nothing was asked for, and there is %+v", got)
	}
}

// TestSourceIsBegunAnew: what a source says when it ends is kept once, and it is asked
// again; one that reads and fails now and then at once, and not ever more seldom.
func TestSourceIsBegunAnew(t *testing.T) {
	for _, c := range []struct {
		times int // 2¹⁹ ms is nine minutes
		gives []Reading
	}{{3, nil}, {20, []Reading{{Host, CPU, "%", 1}}}} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		s := &Sampler{every: time.Millisecond}
		begun := 0
		s.keepReading(ctx, func(_ context.Context, _ time.Duration, give func(time.Time, ...Reading)) error {
			if begun++; begun == c.times {
				cancel()
			}
			if c.gives != nil {
				give(time.Now(), c.gives...)
			}
			return errors.New("no driver")
		})
		if diff := cmp.Diff([]string{"no driver"}, s.problems); diff != "" || begun != c.times {
			t.Errorf("begun %d times, want %d; problems (-want +got):\n%s", begun, c.times, diff)
		}
	}
}

// TestSlowReadings: readings that take longer than the interval overlap, up to a
// number, and an error of one ends the source when the others have ended.
func TestSlowReadings(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const atOnce = 3
	var underWay atomic.Int32
	var tooMany atomic.Bool
	all := make(chan struct{}) // closed when all are under way
	var once sync.Once
	broken := errors.New("no driver")
	given := 0
	err := polled(atOnce, func(ctx context.Context) ([]Reading, error) {
		defer underWay.Add(-1)
		n := underWay.Add(1)
		if n > atOnce {
			tooMany.Store(true)
		}
		if n == atOnce {
			once.Do(func() { close(all) })
		}
		select {
		case <-all:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return []Reading{{"gpu0", Power, "W", 1}}, nil
	})(ctx, time.Millisecond, func(time.Time, ...Reading) {
		if given++; given == 2*atOnce {
			cancel()
		}
	})
	if err != nil || given < 2*atOnce || tooMany.Load() || underWay.Load() != 0 {
		t.Errorf("%v; %d given, more than %d at once: %v, %d still under way", err, given, atOnce, tooMany.Load(), underWay.Load())
	}
	err = polled(atOnce, func(context.Context) ([]Reading, error) { return nil, broken })(t.Context(), time.Millisecond, nil)
	if !errors.Is(err, broken) {
		t.Errorf("a reading that fails: %v", err)
	}
}

// TestTools runs what stands for the vendors' tools on PATH.
func TestTools(t *testing.T) {
	line := `echo "$(date -u '+%Y/%m/%d %H:%M:%S.000'), $i, 650.5, 98, 1024, 61, 1755, [N/A], $mask"`
	for _, c := range []struct {
		name, tool, script string
		gpus               GPUs
		series, problem    string // one of each, in words
	}{
		{"nvidia-smi", "nvidia-smi", "mask=0x0000000000000044; while :; do for i in 0 1; do " + line + "; done; sleep 0.02; done",
			GPUs{Vendor: NVIDIA, Count: 2}, "gpu1 power_capped 1", ""},
		{"an nvidia-smi that knows the new names only", "nvidia-smi",
			`case $1 in *throttle*) echo 'Field "clocks_throttle_reasons.active" is not a valid field to query.'; exit 2;; esac
mask=0x0000000000000001; while :; do i=0; ` + line + `; sleep 0.02; done`,
			GPUs{Vendor: NVIDIA, Count: 1}, "gpu0 throttled 0", ""},
		{"only these GPUs", "nvidia-smi", `case "$*" in *"-i 2,3") ;; *) exit 9;; esac
mask=0x1; while :; do for i in 2 3; do ` + line + `; done; sleep 0.02; done`,
			GPUs{Vendor: NVIDIA, Count: 2, Only: []string{"2", "3"}}, "gpu3 memory 1.073741824e+09", ""},
		{"a broken driver", "nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18",
			GPUs{Vendor: NVIDIA, Count: 1}, "", "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch"},
		// Driver 535 to 570: the others are still told of, with their own indices.
		{"a GPU that is lost", "nvidia-smi",
			`mask=0x4; while :; do echo 'Unable to determine the device handle for GPU1: 0000:43:00.0: Unknown Error' >&2; i=2; ` + line + `; sleep 0.02; done`,
			GPUs{Vendor: NVIDIA, Count: 3}, "gpu2 power_capped 1", ""},
		{"all GPUs are lost", "nvidia-smi",
			"while :; do echo 'Unable to determine the device handle for GPU0: 0000:1B:00.0: GPU is lost.  Reboot the system to recover this GPU'; sleep 0.02; done",
			GPUs{Vendor: NVIDIA, Count: 2}, "", "nvidia-smi: Unable to determine the device handle for GPU0: 0000:1B:00.0: GPU is lost.  Reboot the system to recover this GPU"},
		{"rocm-smi", "rocm-smi", `echo 'WARNING: a low-power state'; echo '{"card0": {"Current Socket Graphics Package Power (W)": "742.0", "sclk clock speed:": "(2104Mhz)"}, "card1": {"Average Graphics Package Power (W)": "700.0"}}'`,
			GPUs{Vendor: AMD, Count: 1, Only: []string{"0"}}, "gpu0 sm_clock 2104", ""},
		{"no driver", "amd-smi", "echo 'ERROR: no GPU' >&2; exit 3", GPUs{Vendor: AMD, Count: 1}, "",
			"rocm-smi or amd-smi: exit status 3: ERROR: no GPU"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.tool), []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			got := map[string]bool{}
			err := c.gpus.source()(ctx, 20*time.Millisecond, func(_ time.Time, readings ...Reading) {
				for _, r := range readings {
					got[r.Of+" "+r.Name+" "+trim(r.Value)] = true
				}
				if got[c.series] {
					cancel()
				}
			})
			if c.problem != "" {
				if err == nil || err.Error() != c.problem {
					t.Errorf("error = %v, want %s", err, c.problem)
				}
				return
			}
			if !got[c.series] {
				t.Errorf("%s was not read, but %v (%v)", c.series, got, err)
			}
			for series := range got {
				if c.gpus.Only != nil && !strings.HasPrefix(series, "gpu"+c.gpus.Only[0]) && !strings.HasPrefix(series, "gpu"+c.gpus.Only[len(c.gpus.Only)-1]) {
					t.Errorf("%s was not asked for", series)
				}
			}
		})
	}
}

// TestAMDReadings are what the tools of releases say of a GPU. The values are of nobody's GPU.
func TestAMDReadings(t *testing.T) {
	for _, c := range []struct{ name, printed, want string }{
		{"rocm-smi of ROCm 5.7 on MI250: two dies to a GPU",
			`{"card0": {"Temperature (Sensor edge) (C)": "34.0", "Temperature (Sensor junction) (C)": "37.0", "mclk clock speed:": "(1600Mhz)", "mclk clock level:": "3", "sclk clock speed:": "(800Mhz)", "sclk clock level:": "1", "Average Graphics Package Power (W)": "94.0", "GPU use (%)": "0", "VRAM Total Memory (B)": "68702699520", "VRAM Total Used Memory (B)": "10977280"}, "card1": {"Average Graphics Package Power (W)": "N/A (Secondary die)", "Temperature (Sensor junction) (C)": "36.0"}}`,
			"gpu0 power 94, gpu0 utilisation 0, gpu0 temperature 37, gpu0 sm_clock 800, gpu0 memory_clock 1600, gpu0 memory 1.097728e+07, gpu1 temperature 36"},
		{"rocm-smi of ROCm 6 and 7 on MI300X",
			`{"card0": {"Temperature (Sensor junction) (C)": "48.0", "Temperature (Sensor memory) (C)": "39.0", "sclk clock speed:": "(2104Mhz)", "mclk clock speed:": "(1300Mhz)", "Current Socket Graphics Package Power (W)": "742.0", "GPU use (%)": "100", "VRAM Total Used Memory (B)": "190123456789"}}`,
			"gpu0 power 742, gpu0 utilisation 100, gpu0 temperature 48, gpu0 sm_clock 2104, gpu0 memory_clock 1300, gpu0 memory 1.90123456789e+11"},
		{"rocm-smi, a partition that is not the first",
			`{"card0": {"Current Socket Graphics Package Power (W)": "142.0"}, "card1": {"GPU use (%)": "-1", "Temperature (Sensor junction) (C)": "N/A", "sclk current clock frequency not found": "1"}, "card8": {"Current Socket Graphics Package Power (W)": "150.0"}}`,
			"gpu0 power 142, gpu8 power 150"},
		{"amd-smi of ROCm 6.2 on MI300X",
			`[{"gpu": 0, "usage": {"gfx_activity": {"value": 100, "unit": "%"}, "umc_activity": {"value": 34, "unit": "%"}, "mm_activity": "N/A", "vcn_activity": [{"value": 0, "unit": "%"}, "N/A"], "jpeg_activity": ["N/A"]}, "power": {"socket_power": {"value": 742, "unit": "W"}, "gfx_voltage": "N/A", "throttle_status": "N/A", "power_management": "ENABLED"}, "clock": {"gfx_0": {"clk": {"value": 2104, "unit": "MHz"}, "min_clk": {"value": 132, "unit": "MHz"}, "clk_locked": "DISABLED", "deep_sleep": "DISABLED"}, "gfx_1": {"clk": {"value": 2101, "unit": "MHz"}}, "mem_0": {"clk": {"value": 1300, "unit": "MHz"}}}, "temperature": {"edge": "N/A", "hotspot": {"value": 61, "unit": "C"}, "mem": {"value": 48, "unit": "C"}}, "mem_usage": {"total_vram": {"value": 196592, "unit": "MB"}, "used_vram": {"value": 283, "unit": "MB"}}}]`,
			"gpu0 power 742, gpu0 utilisation 100, gpu0 temperature 61, gpu0 sm_clock 2104, gpu0 memory_clock 1300, gpu0 memory 2.96747008e+08"},
		{"amd-smi of ROCm 7, partitions, and a card that tells of throttling",
			`{"gpu_data": [{"gpu": 0, "usage": {"gfx_activity": {"value": 0, "unit": "%"}, "gfx_busy_inst": {"xcp_0": [{"value": 0, "unit": "%"}, "N/A"]}}, "power": {"socket_power": {"value": 142, "unit": "W"}, "throttle_status": "UNTHROTTLED"}, "temperature": {"edge": {"value": 54, "unit": "C"}, "hotspot": "N/A"}}, {"gpu": 1, "usage": "N/A", "power": {"socket_power": "N/A", "throttle_status": "THROTTLED"}, "clock": {"gfx_0": {"clk": "N/A"}}, "temperature": "N/A", "mem_usage": {"used_vram": "N/A"}}]}`,
			"gpu0 power 142, gpu0 utilisation 0, gpu0 temperature 54, gpu0 throttled 0, gpu1 throttled 1"},
		{"amd-smi of ROCm 6.0, numbers without a unit",
			`{"gpu": 0, "usage": {"gfx_usage": 12}, "power": {"current_power": 742, "power_limit": 750}, "mem_usage": {"used_vram": 283}}`, ""},
	} {
		gpus, _, err := smi.Parse(c.printed)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var got []string
		for _, gpu := range gpus {
			for _, r := range gpuReadings(gpu) {
				got = append(got, r.Of+" "+r.Name+" "+trim(r.Value))
			}
		}
		if diff := cmp.Diff(inOrder(c.want), inOrder(strings.Join(got, ", "))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestNVIDIALine: what a GPU does not tell, in the words of drivers, is no reading.
func TestNVIDIALine(t *testing.T) {
	now := time.Date(2025, 3, 1, 12, 0, 1, 0, time.UTC)
	for line, want := range map[string]string{
		"2025/03/01 12:00:00.250, 7, 698.41, 100, 133210, 62, 1755, 3201, 0x0000000000000004":                                                         "power 698.41, utilisation 100, memory 1.3968080896e+11, temperature 62, sm_clock 1755, memory_clock 3201, throttled 0, power_capped 1",
		"2025/03/01 12:00:00.250, 7, 410.00, [N/A], 133210, 62, 1755, 3201, 0x0000000000000000":                                                       "power 410, memory 1.3968080896e+11, temperature 62, sm_clock 1755, memory_clock 3201, throttled 0, power_capped 0", // MIG
		"2025/03/01 12:00:00.250, 0, 4.26, 0, [N/A], 36, 208, [N/A], [N/A]":                                                                           "power 4.26, utilisation 0, temperature 36, sm_clock 208",                                                           // GB10
		"2025/03/01 12:00:00.250, 3, [Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error], [GPU is lost], [GPU is lost], [GPU is lost]": "",
		"2025/03/01 12:00:00.250, 3, [Not Supported], [GPU requires reset], 5, ERR!, 1, 2, 0x0000000000000068":                                        "memory 5.24288e+06, sm_clock 1, memory_clock 2, throttled 1, power_capped 0",
		"Unable to determine the device handle for GPU3: 0000:61:00.0: Unknown Error":                                                                 "no reading",
	} {
		at, readings, ok := parseNVIDIA(line, now)
		var got []string
		for _, r := range readings {
			got = append(got, r.Name+" "+trim(r.Value))
		}
		told := strings.Join(got, ", ")
		if !ok {
			told = "no reading"
		} else if now.Sub(at) != 750*time.Millisecond {
			t.Errorf("%s: read at %s", line, at)
		}
		if inOrder(told) != inOrder(want) {
			t.Errorf("%s:\n got %s\nwant %s", line, told, want)
		}
	}
}

func TestHost(t *testing.T) {
	if got, want := processorTime("cpu  10 20 30 400 50 6 7 8 9 9\ncpu0 1 1 1 1\n"), (ticks{busy: 81, tasks: 60, steal: 8, all: 531}); got != want {
		t.Errorf("processors: %+v, want %+v", got, want)
	}
	if us, ok := waiting("some avg10=95.35 avg60=83.82 avg300=87.16 total=3176786598\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"); !ok || us != 3176786598 {
		t.Errorf("pressure: %v, %v", us, ok)
	}
	if _, ok := waiting(""); ok {
		t.Error("a pressure of nothing")
	}
	used, ok := memoryInUse("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  400 kB\n")
	if !ok || used != 600*1024 {
		t.Errorf("memory in use: %v, %v", used, ok)
	}
}

// inOrder sorts what commas part.
func inOrder(list string) string {
	parts := strings.Split(list, ", ")
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func trim(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// TestAdd: two hosts have a gpu0 each.
func TestAdd(t *testing.T) {
	r := &Record{Series: []Series{{Of: "gpu0", Name: Power}}, Expected: 10, Energy: 1}
	r.Add(&Record{Series: []Series{{Of: "gpu0", Name: Power}}, Expected: 10, Missing: 1, Energy: 2, Problems: []string{"late"}}, "h200-b")
	want := &Record{
		Series:   []Series{{Of: "gpu0", Name: Power}, {Host: "h200-b", Of: "gpu0", Name: Power}},
		Problems: []string{"late"}, Expected: 20, Missing: 1, Energy: 3,
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a, b := r.Series[0].Source(), r.Series[1].Source(); a != "gpu0" || b != "h200-b gpu0" {
		t.Errorf("sources %q, %q", a, b)
	}
}
