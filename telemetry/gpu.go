package telemetry

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hclbench/plain"
	"hclbench/smi"
)

// The vendors whose tools are known.
const (
	NVIDIA = "nvidia"
	AMD    = "amd"
)

// GPUs says which GPUs of the host are read.
type GPUs struct {
	Vendor string   `json:"vendor"`         // [NVIDIA] or [AMD]
	Count  int      `json:"count"`          // how many are expected to answer
	Only   []string `json:"only,omitempty"` // these, as the tool names them: an index, or a UUID; nil: all
}

// amdAtOnce is how many of AMD's tools run at once: they are begun anew for each
// reading, and where GPUs are many that takes more than a second.
const amdAtOnce = 4

func (g *GPUs) source() Source {
	if g.Vendor == AMD {
		return polled(amdAtOnce, g.readAMD)
	}
	return g.watchNVIDIA
}

const toolPath = ":/usr/local/bin:/usr/bin:/opt/rocm/bin"

// tool is a command of a vendor's tool, in a process group that ends with ctx. It does
// not outlive this process, nor the thread that starts it: whoever does has to stay on it.
func tool(ctx context.Context, script string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+toolPath, "TZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd.SysProcAttr)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// nvidiaFields are those of nvidia-smi --help-query-gpu. The reasons for clocks have had another
// name before driver 535; drivers since then understand both.
const nvidiaFields = "timestamp,index,power.draw,utilization.gpu,memory.used,temperature.gpu," +
	"clocks.sm,clocks.mem,clocks_throttle_reasons.active"

// Bits of nvidia-smi's clock reasons (NVML, nvmlClocksEventReasons).
const (
	swPowerCap = 0x04
	slowed     = 0x08 | 0x20 | 0x40 | 0x80 // hardware slowdown, software thermal, hardware thermal, power brake
)

// watchNVIDIA lets one nvidia-smi repeat itself: beginning one takes longer than
// a reading, and without persistence mode a second of the driver's time.
func (g *GPUs) watchNVIDIA(ctx context.Context, every time.Duration, give giver) error {
	const older, newer = "clocks_throttle_reasons", "clocks_event_reasons"
	err := g.streamNVIDIA(ctx, nvidiaFields, every, give)
	if err != nil && strings.Contains(err.Error(), older) {
		err = g.streamNVIDIA(ctx, strings.Replace(nvidiaFields, older, newer, 1), every, give)
	}
	return err
}

func (g *GPUs) streamNVIDIA(ctx context.Context, fields string, every time.Duration, give giver) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ms := strconv.FormatInt(every.Milliseconds(), 10)
	args := []string{"--query-gpu=" + fields, "--format=csv,noheader,nounits", "-lms", ms}
	if len(g.Only) > 0 {
		args = append(args, "-i", strings.Join(g.Only, ","))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := tool(ctx, `exec nvidia-smi "$@" 2>&1`, args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("nvidia-smi: %w", err)
	}
	said, since := "", 0 // what it said last instead of a GPU, and how often since the last GPU
	for lines := bufio.NewScanner(out); since <= max(g.Count, 1) && lines.Scan(); {
		at, readings, ok := parseNVIDIA(lines.Text(), time.Now())
		if ok {
			give(at, readings...)
			since = 0
		} else if text := strings.TrimSpace(lines.Text()); text != "" {
			// Of a GPU that is lost it says so each time, and goes on with the others.
			said = plain.Cut(plain.Line(text), 1<<10)
			since++
		}
	}
	cancel()
	err = cmd.Wait()
	if said != "" {
		return fmt.Errorf("nvidia-smi: %s", said)
	}
	return fmt.Errorf("nvidia-smi ended: %w", err)
}

// parseNVIDIA reads one line: one GPU at one moment. A time that is far from now is another clock's.
func parseNVIDIA(line string, now time.Time) (at time.Time, readings []Reading, ok bool) {
	gpus, _ := smi.NVIDIA(nvidiaFields, line)
	if len(gpus) == 0 {
		return at, nil, false
	}
	at, err := time.Parse("2006/01/02 15:04:05.000", gpus[0].At("timestamp").Text())
	if err != nil || now.Sub(at).Abs() > 10*time.Second {
		at = now
	}
	return at, gpuReadings(gpus[0]), true
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// readAMD asks rocm-smi, or amd-smi where that is not there.
func (g *GPUs) readAMD(ctx context.Context) ([]Reading, error) {
	const ask = `if command -v rocm-smi >/dev/null 2>&1; then
	exec rocm-smi --showpower --showuse --showmeminfo vram --showtemp --showclocks --json
fi
exec amd-smi metric --power --usage --mem-usage --temperature --clock --json`
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := tool(ctx, ask)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	gpus, _, e := smi.Parse(cmp.Or(string(bytes.TrimSpace(out)), stderr.String()))
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("rocm-smi or amd-smi: %w", context.Cause(ctx))
	case err != nil:
		return nil, fmt.Errorf("rocm-smi or amd-smi: %w: %s", err, firstLine(stderr.Bytes(), out))
	case e != nil:
		return nil, fmt.Errorf("rocm-smi or amd-smi: %w", e)
	}
	return g.ofAMD(gpus), nil
}

// ofAMD are the readings of the GPUs that are read, of all that the tool tells of. Where a package has two dies the
// first tells the power of both: it is theirs where both are read, and nobody's where one is.
func (g *GPUs) ofAMD(all []smi.GPU) (readings []Reading) {
	isRead := func(gpu smi.GPU) bool { return len(g.Only) == 0 || slices.Contains(g.Only, strconv.Itoa(gpu.Index)) }
	for i, gpu := range all {
		if !isRead(gpu) {
			continue
		}
		own := gpuReadings(gpu)
		switch {
		case !isSecondDie(gpu):
			if i+1 < len(all) && isSecondDie(all[i+1]) && !isRead(all[i+1]) {
				own = slices.DeleteFunc(own, func(r Reading) bool { return r.Name == Power })
			}
		case i > 0 && isRead(all[i-1]):
			own = append(own, reading(counted+gpuSource(gpu.Index), otherDie, 1))
		}
		readings = append(readings, own...)
	}
	return readings
}

// otherDie is told of a die whose power the one before it tells; it is no series.
const otherDie = "power_told_by_other_die"

// isSecondDie reports whether rocm-smi says of a GPU that another die of its package tells its power.
func isSecondDie(g smi.GPU) bool {
	told, _ := g.Object["Average Graphics Package Power (W)"].(string)
	return strings.Contains(told, "Secondary die")
}

func gpuSource(index int) string { return fmt.Sprintf("gpu%d", index) }

func firstLine(texts ...[]byte) string {
	for _, text := range texts {
		if line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n"); line != "" {
			return line
		}
	}
	return "it printed nothing"
}

// gpuReadings take what is told under the names of any tool; what is not told, "[N/A]", is left out. MI200 tell of an
// average power, MI300 of the present one. A GPU of AMD's has a clock for each of its dies: the first stands for them.
func gpuReadings(g smi.GPU) []Reading {
	of := gpuSource(g.Index)
	var readings []Reading
	for _, q := range []struct {
		name  string
		value smi.Value
	}{
		{Power, smi.First(g.At("power.draw"), g.At("Current Socket Graphics Package Power (W)"),
			g.At("Average Graphics Package Power (W)"), g.At("power", "socket_power"))},
		{Utilisation, smi.First(g.At("utilization.gpu"), g.At("GPU use (%)"), g.At("usage", "gfx_activity"))},
		{Temperature, smi.First(g.At("temperature.gpu"), g.At("Temperature (Sensor junction) (C)"), g.At("temperature", "hotspot"),
			g.At("Temperature (Sensor edge) (C)"), g.At("temperature", "edge"))},
		{SMClock, smi.First(g.At("clocks.sm"), g.At("sclk clock speed:"), g.At("clock", "gfx_0", "clk"))},
		{MemoryClock, smi.First(g.At("clocks.mem"), g.At("mclk clock speed:"), g.At("clock", "mem_0", "clk"))},
	} {
		if v, ok := q.value.Number(); ok {
			readings = append(readings, reading(of, q.name, v))
		}
	}
	if used, ok := g.MemoryInUse(); ok {
		readings = append(readings, reading(of, Memory, float64(used)))
	}
	if mask, ok := g.At("clocks_throttle_reasons.active").Mask(); ok {
		readings = append(readings,
			reading(of, Throttled, flag(mask&slowed != 0)), reading(of, PowerCapped, flag(mask&swPowerCap != 0)))
	}
	if is := g.At("power", "throttle_status").Text(); is == "THROTTLED" || is == "UNTHROTTLED" {
		readings = append(readings, reading(of, Throttled, flag(is == "THROTTLED")))
	}
	return readings
}
