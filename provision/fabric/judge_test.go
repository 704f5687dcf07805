package fabric

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
)

// told are findings as lines.
func told(findings []provision.Finding) (lines []string) {
	for _, f := range findings {
		line := string(f.Level) + ": " + f.Have
		if f.Want != "" {
			line += " < " + f.Want
		}
		if (f.Advice == "") != (f.Level == provision.OK) {
			line += " (advice: " + f.Advice + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// TestJudgeRails holds devices against each other, and against what such devices do elsewhere.
func TestJudgeRails(t *testing.T) {
	rail := func(to string, gbits, micros float64) Rail {
		return Rail{From: "a", To: to, Device: "mlx5_0", Rate: 400, Gbits: gbits, Micros: micros}
	}
	of200 := func(r Rail) Rail { r.Rate = 200; return r }
	failed, missing := rail("e", 0, 0), rail("f", 0, 4)
	failed.Failed, missing.Missing = "ibv_rc_pingpong: Failed to modify QP to RTR", "ib_write_bw"
	for name, c := range map[string]struct {
		rails []Rail
		want  []string
	}{
		"none": {nil, nil},
		"all alike": {[]Rail{rail("b", 390, 4), rail("c", 392, 5.5)}, []string{
			"ok: 2 ways between devices: 390 to 392 Gb/s, 4.0 to 5.5 µs there and back"}},
		"one slow": {[]Rail{rail("b", 390, 4), rail("c", 392, 4), rail("d", 340, 4)}, []string{
			"ok: 3 ways between devices: 340 to 392 Gb/s, 4.0 µs there and back",
			"warning: mlx5_0 of a to d writes 340 Gb/s, where the median of its like is 390"}},
		"all slow": {[]Rail{rail("b", 200, 4), rail("c", 200, 4)}, []string{"ok: 2 ways between devices: 200 Gb/s, 4.0 µs there and back",
			"warning: mlx5_0 of a to b writes 200 Gb/s, where 360 of 400 are expected",
			"warning: mlx5_0 of a to c writes 200 Gb/s, where 360 of 400 are expected"}},
		"another rate": {[]Rail{rail("b", 390, 4), rail("c", 392, 4), of200(rail("d", 192, 4))}, []string{
			"ok: 3 ways between devices: 192 to 392 Gb/s, 4.0 µs there and back"}},
		"one fails": {[]Rail{rail("b", 390, 4), failed}, []string{"ok: 1 way between devices: 390 Gb/s, 4.0 µs there and back",
			"blocked: mlx5_0 of a to e: ibv_rc_pingpong: Failed to modify QP to RTR"}},
		"a tool is missing": {[]Rail{missing, missing}, []string{"ok: 2 ways between devices: 4.0 µs there and back",
			"warning: not all is measured: the image has no ib_write_bw"}},
	} {
		if diff := cmp.Diff(c.want, told(judgeRails(c.rails))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestJudgeReductions holds hosts against each other first, then against what is published.
func TestJudgeReductions(t *testing.T) {
	of := func(hosts string, gpus int, bus float64) Reduction {
		r := Reduction{Hosts: strings.Fields(hosts), GPUs: gpus, Bytes: 8 << 30, Seconds: 1}
		r.Seconds = r.Bus() / bus
		return r
	}
	mi300x := func(r Reduction) Reduction { r.Model = "MI300X"; return r }
	by := func(r Reduction, network string) Reduction { r.Network = network; return r }
	dead := Reduction{Hosts: []string{"a", "b"}, GPUs: 16, Failed: "on b: exit status 1: CUDA out of memory"}
	for name, c := range map[string]struct {
		gpu   string
		rails int
		all   []Reduction
		want  []string
	}{
		"all well": {"H200", 8, []Reduction{of("a", 8, 470), of("b", 8, 468), by(of("a b", 16, 371), "IB")}, []string{
			"ok: 470 GB/s over 8 GPUs of a, 8.6 GB in 32.0 ms", "ok: 468 GB/s over 8 GPUs of b, 8.6 GB in 32.1 ms",
			"ok: 371 GB/s over 16 GPUs of a, b, 8.6 GB in 43.4 ms, by IB"}},
		"one host is slower": {"H200", 0, []Reduction{of("a", 8, 470), of("b", 8, 400)}, []string{
			"ok: 470 GB/s over 8 GPUs of a, 8.6 GB in 32.0 ms",
			"warning: 400 GB/s over 8 GPUs of b, 8.6 GB in 37.6 ms < 470 GB/s, as another"}},
		"other GPUs are slower": {"H200", 0, []Reduction{of("a", 8, 470), mi300x(of("b", 8, 320))}, []string{
			"ok: 470 GB/s over 8 GPUs of a, 8.6 GB in 32.0 ms", "ok: 320 GB/s over 8 GPUs of b, 8.6 GB in 47.0 ms"}},
		"below the floor": {"MI300X", 0, []Reduction{of("a", 8, 290)}, []string{
			"warning: 290 GB/s over 8 GPUs of a, 8.6 GB in 51.8 ms < 304 GB/s"}},
		"no floor is known": {"H20", 0, []Reduction{of("a", 8, 290), of("b", 4, 280)}, []string{
			"ok: 290 GB/s over 8 GPUs of a, 8.6 GB in 51.8 ms",
			"ok: 280 GB/s over 4 GPUs of b, 8.6 GB in 46.0 ms"}},
		"as many of them are not there": {"H200", 0, []Reduction{of("a", 8, 470), of("b", 4, 300)}, []string{
			"ok: 470 GB/s over 8 GPUs of a, 8.6 GB in 32.0 ms", "ok: 300 GB/s over 4 GPUs of b, 8.6 GB in 42.9 ms"}},
		"slow between hosts": {"H200", 8, []Reduction{by(of("a b", 16, 180), "IB")}, []string{
			"warning: 180 GB/s over 16 GPUs of a, b, 8.6 GB in 89.5 ms, by IB < 368 GB/s"}},
		"TCP in silence": {"H200", 8, []Reduction{by(of("a b", 16, 8), "Socket")}, []string{
			"warning: 8 GB/s over 16 GPUs of a, b, 8.6 GB in 2013.3 ms, by Socket"}},
		"TCP, as there is no other": {"H200", 0, []Reduction{by(of("a b", 16, 8), "Socket")}, []string{
			"ok: 8 GB/s over 16 GPUs of a, b, 8.6 GB in 2013.3 ms, by Socket"}},
		"it fails": {"H200", 8, []Reduction{dead}, []string{"blocked: over 16 GPUs of a, b: on b: exit status 1: CUDA out of memory"}},
	} {
		for i, r := range c.all {
			if r.Model == "" {
				c.all[i].Model = c.gpu
			}
		}
		if diff := cmp.Diff(c.want, told(judgeReductions(c.all, c.rails))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
