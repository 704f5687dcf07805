package telemetry

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
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
	Only   []string `json:"only,omitempty"` // these, as the vendor's tool names them: an index, NVIDIA also a UUID; nil: all
}

func (g *GPUs) source() Source {
	if g.Vendor == AMD {
		return polled(g.readAMD)
	}
	return g.watchNVIDIA
}

// toolPath is where vendors put their tools when logins do not look there.
const toolPath = ":/usr/local/bin:/usr/bin:/opt/rocm/bin"

// tool is a command of a vendor's tool, in a process group that ends with ctx.
func tool(ctx context.Context, script string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+toolPath, "TZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// nvidiaFields are what nvidia-smi is asked for, as its --help-query-gpu names
// them. The reasons for clocks have had another name before driver 535; drivers
// since then understand both.
const nvidiaFields = "timestamp,index,power.draw,utilization.gpu,memory.used,temperature.gpu,clocks.sm,clocks.mem,clocks_throttle_reasons.active"

// Bits of nvidia-smi's clock reasons (NVML, nvmlClocksEventReasons).
const (
	swPowerCap = 0x04
	slowed     = 0x08 | 0x20 | 0x40 | 0x80 // hardware slowdown, software thermal, hardware thermal, power brake
)

// watchNVIDIA lets one nvidia-smi repeat itself: beginning one takes longer than
// a reading, and without persistence mode a second of the driver's time.
func (g *GPUs) watchNVIDIA(ctx context.Context, every time.Duration, give func(time.Time, ...Reading)) error {
	fields := nvidiaFields
	err := g.streamNVIDIA(ctx, fields, every, give)
	if err != nil && strings.Contains(err.Error(), "clocks_throttle_reasons") {
		err = g.streamNVIDIA(ctx, strings.Replace(fields, "clocks_throttle_reasons", "clocks_event_reasons", 1), every, give)
	}
	return err
}

func (g *GPUs) streamNVIDIA(ctx context.Context, fields string, every time.Duration, give func(time.Time, ...Reading)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args := []string{"--query-gpu=" + fields, "--format=csv,noheader,nounits", "-lms", strconv.FormatInt(every.Milliseconds(), 10)}
	if len(g.Only) > 0 {
		args = append(args, "-i", strings.Join(g.Only, ","))
	}
	cmd := tool(ctx, `exec nvidia-smi "$@" 2>&1`, args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("nvidia-smi: %w", err)
	}
	said := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		at, readings, ok := parseNVIDIA(lines.Text(), time.Now())
		if ok {
			give(at, readings...)
		} else if text := strings.TrimSpace(lines.Text()); text != "" {
			said = text
			break // it says this each time
		}
	}
	cancel()
	err = cmd.Wait()
	if said != "" {
		return fmt.Errorf("nvidia-smi: %s", said)
	}
	return fmt.Errorf("nvidia-smi ended: %w", err)
}

// parseNVIDIA reads one line: one GPU at one moment. What the GPU does not tell,
// "[N/A]", is left out. A time that is far from now is another clock's.
func parseNVIDIA(line string, now time.Time) (at time.Time, readings []Reading, ok bool) {
	f := strings.Split(line, ", ")
	if len(f) != strings.Count(nvidiaFields, ",")+1 {
		return at, nil, false
	}
	index, err := strconv.Atoi(f[1])
	if err != nil {
		return at, nil, false
	}
	of := fmt.Sprintf("gpu%d", index)
	at, err = time.Parse("2006/01/02 15:04:05.000", f[0])
	if err != nil || now.Sub(at).Abs() > 10*time.Second {
		at = now
	}
	for i, q := range []struct {
		name, unit string
		scale      float64
	}{{Power, "W", 1}, {Utilisation, "%", 1}, {Memory, "B", 1 << 20}, {Temperature, "°C", 1}, {SMClock, "MHz", 1}, {MemoryClock, "MHz", 1}} {
		if v, err := strconv.ParseFloat(f[2+i], 64); err == nil {
			readings = append(readings, Reading{of, q.name, q.unit, v * q.scale})
		}
	}
	if mask, err := strconv.ParseUint(strings.TrimPrefix(f[8], "0x"), 16, 64); err == nil {
		readings = append(readings, Reading{of, Throttled, "", flag(mask&slowed != 0)}, Reading{of, PowerCapped, "", flag(mask&swPowerCap != 0)})
	}
	return at, readings, true
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
	cmd := tool(ctx, ask)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	readings, e := parseAMD(out)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("rocm-smi or amd-smi: %w", context.Cause(ctx))
	case err != nil:
		return nil, fmt.Errorf("rocm-smi or amd-smi: %w: %s", err, firstLine(stderr.Bytes(), out))
	case e != nil:
		return nil, fmt.Errorf("rocm-smi or amd-smi: %w: %s", e, firstLine(out, stderr.Bytes()))
	}
	return slices.DeleteFunc(readings, func(r Reading) bool {
		return len(g.Only) > 0 && !slices.Contains(g.Only, strings.TrimPrefix(r.Of, "gpu"))
	}), nil
}

func firstLine(texts ...[]byte) string {
	for _, text := range texts {
		if line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n"); line != "" {
			return line
		}
	}
	return "it printed nothing"
}

// parseAMD reads the JSON of rocm-smi, an object with one entry per card, or of
// amd-smi, a list with one per GPU that newer releases put into an object.
// Warnings may stand before it.
func parseAMD(text []byte) ([]Reading, error) {
	if i := bytes.IndexAny(text, "[{"); i > 0 {
		text = text[i:]
	}
	var any json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&any); err != nil {
		return nil, errors.New("what it printed is not JSON")
	}
	var wrapped struct {
		Data []amdGPU `json:"gpu_data"`
	}
	var list []amdGPU
	if json.Unmarshal(any, &list) == nil {
		return amdReadings(list), nil
	}
	if json.Unmarshal(any, &wrapped) == nil && wrapped.Data != nil {
		return amdReadings(wrapped.Data), nil
	}
	var cards map[string]map[string]json.RawMessage
	if err := json.Unmarshal(any, &cards); err != nil {
		return nil, errors.New("what it printed is of no known form")
	}
	return rocmReadings(cards), nil
}

var number = regexp.MustCompile(`-?\d+(\.\d+)?`)

// rocmReadings take rocm-smi's entries by what their names say: releases differ
// in spelling, and values are texts such as "(132Mhz)".
func rocmReadings(cards map[string]map[string]json.RawMessage) []Reading {
	var readings []Reading
	for i := 0; ; i++ {
		card, ok := cards[fmt.Sprintf("card%d", i)]
		if !ok {
			return readings
		}
		of := fmt.Sprintf("gpu%d", i)
		for _, q := range []struct {
			name, unit string
			keys       []string // the first that is there
		}{
			{Power, "W", []string{"Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"}},
			{Utilisation, "%", []string{"GPU use (%)"}},
			{Memory, "B", []string{"VRAM Total Used Memory (B)"}},
			{Temperature, "°C", []string{"Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)"}},
			{SMClock, "MHz", []string{"sclk clock speed:"}},
			{MemoryClock, "MHz", []string{"mclk clock speed:"}},
		} {
			for _, key := range q.keys {
				v, err := strconv.ParseFloat(number.FindString(string(card[key])), 64)
				if err == nil {
					readings = append(readings, Reading{of, q.name, q.unit, v})
					break
				}
			}
		}
	}
}

// amdValue is a number of amd-smi: {"value": 142, "unit": "W"}, a plain number, or
// "N/A".
type amdValue struct {
	value float64
	unit  string
	known bool
}

func (v *amdValue) UnmarshalJSON(b []byte) error {
	var o struct {
		Value *float64 `json:"value"`
		Unit  string   `json:"unit"`
	}
	if json.Unmarshal(b, &o) == nil && o.Value != nil {
		*v = amdValue{*o.Value, o.Unit, true}
	} else if n, err := strconv.ParseFloat(string(b), 64); err == nil {
		*v = amdValue{value: n, known: true}
	}
	return nil
}

func (v amdValue) bytes() amdValue {
	shift, ok := map[string]float64{"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[v.unit]
	return amdValue{v.value * shift, "B", v.known && ok}
}

type amdGPU struct {
	GPU   int `json:"gpu"`
	Power struct {
		Socket   amdValue `json:"socket_power"`
		Throttle string   `json:"throttle_status"`
	} `json:"power"`
	Usage struct {
		GFX amdValue `json:"gfx_activity"`
	} `json:"usage"`
	Memory struct {
		Used amdValue `json:"used_vram"`
	} `json:"mem_usage"`
	Temperature struct {
		Hotspot amdValue `json:"hotspot"`
	} `json:"temperature"`
	Clock struct {
		GFX amdClock `json:"gfx_0"`
		Mem amdClock `json:"mem_0"`
	} `json:"clock"`
}

type amdClock struct {
	Now amdValue `json:"clk"`
}

func amdReadings(gpus []amdGPU) []Reading {
	var readings []Reading
	for _, g := range gpus {
		of := fmt.Sprintf("gpu%d", g.GPU)
		for _, q := range []struct {
			name, unit string
			v          amdValue
		}{
			{Power, "W", g.Power.Socket}, {Utilisation, "%", g.Usage.GFX}, {Memory, "B", g.Memory.Used.bytes()},
			{Temperature, "°C", g.Temperature.Hotspot}, {SMClock, "MHz", g.Clock.GFX.Now}, {MemoryClock, "MHz", g.Clock.Mem.Now},
		} {
			if q.v.known {
				readings = append(readings, Reading{of, q.name, q.unit, q.v.value})
			}
		}
		if g.Power.Throttle == "THROTTLED" || g.Power.Throttle == "UNTHROTTLED" {
			readings = append(readings, Reading{of, Throttled, "", flag(g.Power.Throttle == "THROTTLED")})
		}
	}
	return readings
}
