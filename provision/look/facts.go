// Package look finds out what a host is and what state it is in: facts, settings,
// what uses its GPUs, and that nothing of what was taken down is left. It also sets
// what a host's block wants set, and reads it back.
//
// What it finds is in the nouns of package provision, which also decide what is good.
package look

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/reach"
	"hclbench/smi"
)

// factsScript prints one fact per line as NAME=VALUE; what it does not find, it leaves out. Its argument are fields of
// nvidia-smi --query-gpu.
//
//go:embed facts.sh
var factsScript string

const factFields = "name,memory.total,driver_version,uuid"

// within bounds a driver that hangs, which broken GPUs make it do.
const within = time.Minute

var errSilent = fmt.Errorf("nothing came within %s: a driver may hang", within)

// Ask is [reach.Conn.Ask], but for drivers that hang.
func Ask(ctx context.Context, c *reach.Conn, script string, args ...string) (reach.Answers, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errSilent)
	defer cancel()
	return c.Ask(ctx, script, args...)
}

func run(ctx context.Context, c *reach.Conn, script string, args ...string) (lines, error) {
	said, err := Ask(ctx, c, script, args...)
	return lines{said}, err
}

// Facts finds out what the host is. A tool that is not there or fails is no
// error; it is told in Facts.Problems where something was expected of it.
func Facts(ctx context.Context, c *reach.Conn, d *docker.Daemon) (provision.Facts, error) {
	said, err := run(ctx, c, factsScript, factFields)
	if err != nil {
		return provision.Facts{}, fmt.Errorf("gather facts: %w", err)
	}
	f := parseFacts(said)
	if c.Host().Runtime == provision.Process {
		return f, nil
	}
	f.Docker, err = d.Version(ctx)
	if provision.OutOfReach(err) {
		return provision.Facts{}, fmt.Errorf("gather facts: %w", err)
	}
	if err == nil {
		f.DockerBy, _, err = d.Access(ctx)
	}
	if err != nil {
		f.NoDocker = err.Error()
	}
	return f, nil
}

func parseFacts(said lines) provision.Facts {
	f := provision.Facts{
		Hostname:    said.One("hostname"),
		OS:          said.One("os"),
		Kernel:      said.One("kernel"),
		Arch:        said.One("arch"),
		CPUModel:    strings.TrimSpace(said.One("cpu")),
		CPUs:        int(said.number("cpus")),
		MemoryBytes: said.number("memory_kib") << 10,
		ROCm:        said.One("rocm_version"),
		Toolkit:     said.One("toolkit"),
	}
	var ids []string // of GPUs
	of := func(vendor provision.Vendor) func(gpus []smi.GPU, system smi.Object) {
		return func(gpus []smi.GPU, system smi.Object) {
			for _, g := range gpus {
				memory, _ := g.Memory()
				driver := cmp.Or(g.At("driver_version").Text(), system.At("Driver version").Text(), g.At("driver", "version").Text())
				if id := cmp.Or(g.At("uuid").Text(), g.At("Unique ID").Text(), g.At("asic", "asic_serial").Text()); id != "" {
					ids = append(ids, id)
				}
				f.GPUs = append(f.GPUs, provision.GPU{Vendor: vendor, Name: g.Name(), MemoryBytes: memory, Driver: driver})
			}
		}
	}
	f.Problems = said.ask([]tool{
		{provision.NVIDIASMI, "nvidia", factFields, of(provision.NVIDIA)},
		{provision.RocmSMI, "rocm", "", of(provision.AMD)},
		{provision.AMDSMI, "amd", "", of(provision.AMD)},
	})
	f.Box = provision.BoxOf(said.One("machine"), ids)
	return f
}

type lines struct{ reach.Answers }

func (l lines) number(name string) int64 { return number(l.One(name)) }

func (l lines) text(name string) string { return strings.Join(append(l.Answers[name], ""), "\n") }

// tool is one of a vendor's, and what it tells of GPUs in the lines of a name.
type tool struct {
	name, lines string
	fields      string // that nvidia-smi was asked for; empty: it has printed JSON
	read        func(gpus []smi.GPU, system smi.Object)
}

// ask reads what the tools have printed; a tool that fails is a problem.
func (l lines) ask(tools []tool) (problems []string) {
	for _, t := range tools {
		text := l.text(t.lines)
		if strings.TrimSpace(text) == "" {
			continue
		}
		if t.fields != "" {
			gpus, other := smi.NVIDIA(t.fields, l.Answers[t.lines]...)
			for _, line := range other {
				problems = append(problems, t.name+": "+line)
			}
			t.read(gpus, nil)
			continue
		}
		gpus, system, err := smi.Parse(text)
		if err != nil {
			problems = append(problems, t.name+": "+err.Error())
		}
		t.read(gpus, system)
	}
	return problems
}

// number reads a whole number; what is not one, such as nvidia-smi's "[N/A]", is 0.
func number(s string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n
}
