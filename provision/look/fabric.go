package look

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"hclbench/provision"
	"hclbench/provision/reach"
)

//go:embed fabric.sh
var fabricScript string

// Fabric finds out what a host has of a network between hosts. It changes nothing, and
// sends nothing.
func Fabric(ctx context.Context, c *reach.Conn) (provision.FabricFacts, error) {
	said, err := run(ctx, c, fabricScript, "/sys")
	if err != nil {
		return provision.FabricFacts{}, fmt.Errorf("look at the fabric: %w", err)
	}
	return parseFabric(said), nil
}

func parseFabric(said lines) provision.FabricFacts {
	f := provision.FabricFacts{
		Addresses: map[string][]string{}, Verbs: len(said.Answers["uverbs"]),
		PeerMem: said.One("peermem") == "yes", OwnAddress: said.One("hostname"),
		ACS: said.Answers["acs"],
	}
	for _, line := range said.Answers["address"] {
		if name, at, ok := strings.Cut(line, " "); ok {
			f.Addresses[name] = append(f.Addresses[name], at)
		}
	}
	for _, line := range said.Answers["net"] {
		w := append(strings.Split(line, " "), "", "", "")
		f.Interfaces = append(f.Interfaces, provision.NIC{Name: w[0], MTU: number(w[1]), State: w[2], Changes: number(w[3])})
	}
	of := func(answer, name string) string {
		for _, line := range said.Answers[answer] {
			if value, ok := strings.CutPrefix(line, name+" "); ok {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	for _, line := range said.Answers["device"] {
		w := append(strings.Split(line, " "), "", "", "", "")
		rate, _ := strconv.ParseFloat(w[3], 64)
		d := provision.RDMADevice{
			Name: w[0], State: w[1], Layer: w[2], Rate: rate, NUMA: -1,
			Firmware: of("firmware", w[0]), PKey: of("pkey", w[0]), NIC: of("netdev", w[0]),
		}
		if w[4] != "" {
			d.NUMA = number(w[4])
		}
		for _, line := range said.Answers["gid"] {
			g := strings.SplitN(line, " ", 4)
			if len(g) == 4 && g[0] == d.Name {
				d.GIDs = append(d.GIDs, provision.GID{Index: number(g[1]), GID: g[2], Type: strings.TrimSpace(g[3])})
			}
		}
		f.Devices = append(f.Devices, d)
	}
	return f
}
