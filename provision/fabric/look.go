// Package fabric is the network over which hosts run one engine together: what each of them has of it, whether they reach
// each other, and what engines get of it. It measures in containers on hosts that its caller holds.
package fabric

import (
	"context"
	"fmt"
	"strings"

	"hclbench/flow"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/reach"
)

// Place is a host of a fabric.
type Place struct {
	Conn   *reach.Conn    // which knows hcl there, see [reach.Conn.UseHCL]
	Docker *docker.Daemon // for the names of containers
	Ports  []int          // that other hosts come to, by members
	Works  bool           // it has more than the router, which sends no KV cache
}

// What to do about a fabric.
const (
	correctFabric = "correct that, or name the right address and devices in the host's fabric block"
	levelFabric   = "together they are as slow as the slowest: make them alike"
	longLost      = "packets as long as the interfaces send them are lost on the way, and engines would hang there: " +
		"give all interfaces and switches between the hosts one MTU, and let ICMP through that says what is too long"
	oneMTU    = "the narrowest link cuts what all send: give all interfaces and switches between the hosts one MTU"
	setClocks = "their logs and telemetry cannot be laid side by side: sudo timedatectl set-ntp true"
	clearACS  = "GPUs and RDMA devices reach each other by way of the processor, at a part of the speed: " +
		"switch ACS off in the firmware, or with setpci, unless virtual machines need it"
	openPorts = "engines would hang there: open these ports between the hosts, and also those that the kernel picks, " +
		"or use a network that joins them, by the addresses in fabric blocks, or of rented boxes by the private_address that their plugin tells"
)

// Joined is what was found out of a fabric.
type Joined struct {
	Facts    []Facts             // of each place
	Full     []provision.Fabric  // and what engines use of it
	Findings []provision.Finding // what is blocked keeps engines from working
}

func (j *Joined) find(check string, level provision.Level, have, advice string) {
	j.Findings = append(j.Findings, provision.Finding{Check: check, Level: level, Have: have, Advice: advice})
}

// Look finds out how hosts are joined, and what is wrong with it.
func Look(ctx context.Context, places []Place) (*Joined, error) {
	j := &Joined{Facts: make([]Facts, len(places)), Full: make([]provision.Fabric, len(places))}
	err := flow.Each(places, func(i int, p Place) (err error) {
		j.Facts[i], err = read(ctx, p.Conn)
		return err
	})
	if err != nil {
		return j, err
	}
	facts, full := map[string]Facts{}, map[string]provision.Fabric{} // of those that work
	for i, p := range places {
		h, f := p.Conn.Host(), j.Facts[i]
		whole, problems := f.Complete(h)
		j.Full[i] = whole
		if p.Works {
			facts[h.Name], full[h.Name] = f, whole
		}
		check := "host " + h.Name
		for _, problem := range problems {
			j.find(check, provision.Blocked, problem, correctFabric)
		}
		if problems == nil {
			j.find(check, provision.OK, describe(h, whole), "")
		}
		if len(f.ACS) > 0 && len(whole.RDMA) > 0 {
			have := fmt.Sprintf("ACS is on at %s, the first is %s", plain.Count(len(f.ACS), "PCI bridge"), plain.Line(f.ACS[0]))
			j.find(check, provision.Warning, have, clearACS)
		}
	}
	for _, difference := range compare(facts, full) {
		j.find("alike", provision.Warning, difference, levelFabric)
	}
	return j, j.meet(ctx, places)
}

// describe says how a host takes part in a fabric.
func describe(h *provision.Host, f provision.Fabric) string {
	have := h.Inside()
	if f.Interface != "" {
		have += " on " + f.Interface
	}
	if len(f.RDMA) == 0 {
		return have + ", no RDMA"
	}
	have += ", " + strings.Join(f.RDMA, " ")
	if f.GIDIndex != nil {
		have += fmt.Sprintf(" with GID index %d", *f.GIDIndex)
	}
	return have
}

// meet has the hosts connect to each other on the very ports of the members.
func (j *Joined) meet(ctx context.Context, places []Place) error {
	met, err := meet(ctx, places)
	if err != nil {
		return err
	}
	named, ports := map[string]Place{}, 0
	for _, p := range places {
		named[p.Conn.Host().Name] = p
		ports += len(p.Ports)
	}
	for _, a := range met.Apart {
		switch {
		case a.From == a.To:
			p := named[a.From]
			j.find("ports", provision.Blocked, a.String(), plain.Line(p.Conn.PortTaken(ctx, a.Ports[0], p.Docker.Name).Error()))
		case a.Long:
			j.find("packets", provision.Blocked, a.String(), longLost)
		default:
			j.find("ports", provision.Blocked, a.String(), openPorts)
		}
	}
	if len(met.Apart) == 0 {
		const have = "every host reaches every other on %s and on one that its kernel picks, there with long messages too"
		j.find("ports", provision.OK, fmt.Sprintf(have, plain.Count(ports, "port")), "")
	}
	for _, n := range met.Narrow {
		j.find("packets", provision.Warning, n.String(), oneMTU)
	}
	if have, good := compareClocks(met.Clocks); good {
		j.find("clocks", provision.OK, have, "")
	} else {
		j.find("clocks", provision.Warning, have, setClocks)
	}
	return nil
}
