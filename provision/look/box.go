package look

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/smi"
)

// boxScript prints one fact per line as NAME=VALUE. Its argument are fields of nvidia-smi --query-gpu.
//
//go:embed box.sh
var boxScript string

const slotFields = "index,pcie.link.gen.max,pcie.link.gen.gpumax"

// Box finds out what a machine gives engines. hcl is there, at this path, and measures where models are kept.
func Box(ctx context.Context, c *reach.Conn, hcl string, kept []string) (provision.Box, error) {
	said, err := run(ctx, c, boxScript, slotFields)
	if err != nil {
		return provision.Box{}, fmt.Errorf("look at the box: %w", err)
	}
	b := parseBox(said)
	command := plain.Quote(hcl) + " " + SpeedsVerb
	for _, path := range kept {
		command += " " + plain.Quote(path)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, errSilent)
	defer cancel()
	out, err := c.Run(ctx, command, nil)
	if err != nil {
		return b, fmt.Errorf("measure memory and disks: %w", err)
	}
	var measured Speeds
	if err := json.Unmarshal([]byte(out), &measured); err != nil {
		return b, fmt.Errorf("measure memory and disks: it printed no JSON: %w", err)
	}
	b.Copied, b.CPUs = measured.Copied, measured.CPUs
	for i, d := range measured.Disks[:min(len(measured.Disks), len(kept))] {
		if d.Speed <= 0 && d.Failed == "" {
			d.Failed = "nothing was read"
		}
		b.Reads = append(b.Reads, provision.DiskRead{Path: kept[i], Speed: d.Speed, Failed: plain.Cut(plain.Line(d.Failed), 200)})
	}
	return b, nil
}

// An NVLink as `nvidia-smi nvlink --status` has it below the line of its GPU.
var (
	nvlinkGPU = regexp.MustCompile(`^GPU \d+:`)
	nvlinkUp  = regexp.MustCompile(`^\s*Link \d+: (?:([\d.]+) GB/s|<inactive>)`)
)

func parseBox(said lines) provision.Box {
	b := provision.Box{Boost: said.One("boost")}
	if off := said.One("no_turbo"); off != "" {
		b.Boost = map[string]string{"0": "1", "1": "0"}[off]
	}
	for _, line := range said.Answers["node"] {
		if index, kib, ok := strings.Cut(line, " "); ok {
			b.Nodes = append(b.Nodes, provision.NUMANode{Index: int(number(index)), Bytes: number(kib) << 10})
		}
	}
	for _, line := range said.Answers["ue"] {
		b.Errors += number(line)
	}
	for _, line := range said.Answers["link"] {
		if f := strings.Fields(line); len(f) == 3 {
			b.Links = append(b.Links, provision.PCILink{Address: f[0], Lanes: int(number(f[1])), Max: int(number(f[2]))})
		}
	}
	slots, _ := smi.NVIDIA(slotFields, said.Answers["gen"]...)
	for _, g := range slots {
		gen, known := g.At("pcie.link.gen.max").Number()
		most, all := g.At("pcie.link.gen.gpumax").Number()
		if known && all {
			b.Slots = append(b.Slots, provision.PCISlot{GPU: g.Index, Gen: int(gen), Max: int(most)})
		}
	}
	for _, line := range said.Answers["nvlink"] {
		if nvlinkGPU.MatchString(line) {
			b.NVLinks = append(b.NVLinks, nil)
		} else if m := nvlinkUp.FindStringSubmatch(line); m != nil && len(b.NVLinks) > 0 {
			speed, _ := strconv.ParseFloat(m[1], 64) // of one that is not up there is none
			last := &b.NVLinks[len(b.NVLinks)-1]
			*last = append(*last, speed)
		}
	}
	for _, line := range said.Answers["net"] {
		f := strings.Fields(line)
		if len(f) < 2 || number(f[1]) <= 0 { // a virtual one tells -1
			continue
		}
		b.Nets = append(b.Nets, provision.Net{Name: f[0], Mbits: int(number(f[1])), Duplex: strings.Join(f[2:], " ")})
	}
	return b
}
