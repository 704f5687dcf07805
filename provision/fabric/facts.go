package fabric

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"hclbench/provision"
	"hclbench/provision/look"
	"hclbench/provision/reach"
)

// Facts is what a host has of a fabric.
type Facts struct {
	Addresses  map[string][]string `json:"addresses,omitempty"` // of each network interface
	Interfaces []NIC               `json:"interfaces,omitempty"`
	Devices    []Device            `json:"devices,omitempty"`
	Verbs      int                 `json:"verbs"`                 // devices /dev/infiniband/uverbs0 and so on
	PeerMem    bool                `json:"peer_mem,omitempty"`    // NVIDIA's module by which a device reads GPU memory
	OwnAddress string              `json:"own_address,omitempty"` // what its host name means on it
	ACS        []string            `json:"acs,omitempty"`         // PCI bridges that send all by way of the processor
}

// NIC is a network interface.
type NIC struct {
	Name    string `json:"name"`
	MTU     int64  `json:"mtu"` // bytes
	State   string `json:"state"`
	Changes int64  `json:"carrier_changes"` // how often its link came or went since it is there
}

// Device is a device that reads and writes the memory of other hosts, by its first port.
type Device struct {
	Name     string  `json:"name"`
	State    string  `json:"state"`      // "ACTIVE"
	Layer    string  `json:"link_layer"` // "Ethernet" or "InfiniBand"
	Rate     float64 `json:"rate"`       // Gb/s
	NUMA     int64   `json:"numa_node"`  // -1: not known
	Firmware string  `json:"firmware,omitempty"`
	PKey     string  `json:"pkey,omitempty"` // of its first partition: "0xffff"
	NIC      string  `json:"nic,omitempty"`  // the network interface that is the same port
	GIDs     []GID   `json:"gids,omitempty"`
}

// GID is an address of an RDMA device's port.
type GID struct {
	Index int64  `json:"index"`
	GID   string `json:"gid"`
	Type  string `json:"type,omitempty"` // "RoCE v2", "IB/RoCE v1"
}

//go:embed fabric.sh
var script string

// read finds out what a host has of a network between hosts. It changes nothing, and sends nothing.
func read(ctx context.Context, c *reach.Conn) (Facts, error) {
	said, err := look.Ask(ctx, c, script, "/sys")
	if err != nil {
		return Facts{}, fmt.Errorf("look at the fabric: %w", err)
	}
	return parse(said), nil
}

func parse(said reach.Answers) Facts {
	f := Facts{
		Addresses: map[string][]string{}, Verbs: len(said["uverbs"]),
		PeerMem: said.One("peermem") == "yes", OwnAddress: said.One("hostname"),
		ACS: said["acs"],
	}
	for _, line := range said["address"] {
		if name, at, ok := strings.Cut(line, " "); ok {
			f.Addresses[name] = append(f.Addresses[name], at)
		}
	}
	for _, line := range said["net"] {
		w := append(strings.Split(line, " "), "", "", "")
		f.Interfaces = append(f.Interfaces, NIC{Name: w[0], MTU: number(w[1]), State: w[2], Changes: number(w[3])})
	}
	of := func(answer, name string) string {
		for _, line := range said[answer] {
			if value, ok := strings.CutPrefix(line, name+" "); ok {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	for _, line := range said["device"] {
		w := append(strings.Split(line, " "), "", "", "", "")
		rate, _ := strconv.ParseFloat(w[3], 64)
		d := Device{
			Name: w[0], State: w[1], Layer: w[2], Rate: rate, NUMA: -1,
			Firmware: of("firmware", w[0]), PKey: of("pkey", w[0]), NIC: of("netdev", w[0]),
		}
		if w[4] != "" {
			d.NUMA = number(w[4])
		}
		for _, line := range said["gid"] {
			g := strings.SplitN(line, " ", 4)
			if len(g) == 4 && g[0] == d.Name {
				d.GIDs = append(d.GIDs, GID{Index: number(g[1]), GID: g[2], Type: strings.TrimSpace(g[3])})
			}
		}
		f.Devices = append(f.Devices, d)
	}
	return f
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n
}

// active are the devices that carry something.
func (f Facts) active() []Device {
	return slices.DeleteFunc(slices.Clone(f.Devices), func(d Device) bool { return d.State != "ACTIVE" })
}

// Rate is what an RDMA device carries, in Gb/s; 0: not known.
func (f Facts) Rate(name string) float64 {
	for _, d := range f.Devices {
		if d.Name == name {
			return d.Rate
		}
	}
	return 0
}

// v4 is the least index of the port's addresses that RoCE v2 has for IPv4; -1: it has none.
// Those of VLANs come later.
func (d Device) v4() int64 {
	least := int64(-1)
	for _, g := range d.GIDs {
		v4 := g.Type == "RoCE v2" && strings.HasPrefix(g.GID, "0000:0000:0000:0000:0000:ffff:")
		if v4 && (least < 0 || g.Index < least) {
			least = g.Index
		}
	}
	return least
}

// limited reports whether the device reaches only full members of its partition.
func (d Device) limited() bool {
	key, err := strconv.ParseUint(d.PKey, 0, 16)
	return err == nil && key&0x8000 == 0
}

// has reports whether one of the addresses of an interface is meant.
func (f Facts) has(name, at string) bool {
	ip := net.ParseIP(at)
	return ip != nil && slices.ContainsFunc(f.Addresses[name], func(own string) bool { return ip.Equal(net.ParseIP(own)) })
}

// Complete fills in what a host's block does not say of its fabric. The problems are those
// that keep the host from taking part.
func (f Facts) Complete(h *provision.Host) (full provision.Fabric, problems []string) {
	full = h.Fabric
	at := h.Inside()
	if full.Interface == "" {
		for _, name := range slices.Sorted(maps.Keys(f.Addresses)) {
			if f.has(name, at) {
				full.Interface = name
			}
		}
	} else if _, has := f.Addresses[full.Interface]; !has {
		problems = append(problems, fmt.Sprintf("it has no network interface %s with an address", full.Interface))
	}
	if full.Interface == "" && net.ParseIP(at) != nil {
		problems = append(problems, fmt.Sprintf("none of its network interfaces has the address %s", at))
	}
	ip := net.ParseIP(f.OwnAddress)
	if full.Interface == "" && ip != nil && ip.IsLoopback() && !h.Local() { // else it is told the interface
		problems = append(problems, fmt.Sprintf("its name means %s on it, which is no address for others: Gloo takes it", ip))
	}
	if full.RDMA == nil {
		full.RDMA = []string{}
		for _, d := range f.active() {
			full.RDMA = append(full.RDMA, d.Name)
		}
	}
	var indexes []int
	for _, name := range full.RDMA {
		i := slices.IndexFunc(f.Devices, func(d Device) bool { return d.Name == name })
		switch {
		case i < 0:
			problems = append(problems, "it has no RDMA device "+name)
		case f.Devices[i].State != "ACTIVE":
			state := strings.ToLower(cmp.Or(f.Devices[i].State, "silent"))
			problems = append(problems, fmt.Sprintf("its RDMA device %s is %s", name, state))
		case f.Devices[i].limited():
			const limited = "its RDMA device %s is a limited member of its partition, and cannot reach its like"
			problems = append(problems, fmt.Sprintf(limited, name))
		case f.Devices[i].Layer == "Ethernet":
			if v4 := int(f.Devices[i].v4()); v4 >= 0 && !slices.Contains(indexes, v4) {
				indexes = append(indexes, v4)
			}
		}
	}
	if full.GIDIndex == nil && len(indexes) == 1 { // of several NCCL finds each device's
		full.GIDIndex = &indexes[0]
	}
	if len(full.RDMA) > 0 && f.Verbs == 0 {
		problems = append(problems, "there is nothing in /dev/infiniband: the drivers of its RDMA devices are not whole")
	}
	return full, problems
}

// mtu is how long a packet of a network interface may be, as text; "" where it is not known.
func (f Facts) mtu(name string) string {
	for _, n := range f.Interfaces {
		if n.Name == name && n.MTU > 0 {
			return strconv.FormatInt(n.MTU, 10)
		}
	}
	return ""
}

// fabricTraits are those in which hosts of one engine should be alike, in the order in which they are told.
var fabricTraits = []string{
	"MTU of the interface", "MTU of RDMA devices", "RDMA devices that are up", "firmware of RDMA devices", "GID index for IPv4",
	"nvidia_peermem",
}

// Traits are what of a host in a fabric may be otherwise on another, or another day, and changes numbers. full
// is what its engines use of it.
func (f Facts) Traits(full provision.Fabric) map[string]string {
	devices := func(of func(Device) string) string {
		counts := map[string]int{}
		for _, d := range f.active() {
			counts[cmp.Or(of(d), "not known")]++
		}
		var parts []string
		for _, value := range slices.Sorted(maps.Keys(counts)) {
			parts = append(parts, fmt.Sprintf("%d × %s", counts[value], value))
		}
		return cmp.Or(strings.Join(parts, " and "), "none")
	}
	return map[string]string{
		"interface":                cmp.Or(full.Interface, "none"),
		"RDMA devices":             cmp.Or(strings.Join(full.RDMA, " "), "none"),
		"MTU of the interface":     cmp.Or(f.mtu(full.Interface), "none"),
		"MTU of RDMA devices":      devices(func(d Device) string { return f.mtu(d.NIC) }),
		"RDMA devices that are up": devices(func(d Device) string { return fmt.Sprintf("%s %g Gb/s", d.Layer, d.Rate) }),
		"firmware of RDMA devices": devices(func(d Device) string { return d.Firmware }),
		"GID index for IPv4": devices(func(d Device) string {
			return strings.Replace(strconv.FormatInt(d.v4(), 10), "-1", "none", 1)
		}),
		"nvidia_peermem": map[bool]string{true: "loaded", false: "not loaded"}[f.PeerMem],
	}
}

// compare says in what hosts of one engine are not alike, first of all against the
// most of them: what nobody sees until it is slow. Both are by the hosts' names, and so is the
// order of what is said.
func compare(facts map[string]Facts, full map[string]provision.Fabric) (differences []string) {
	traits := map[string]map[string]string{}
	for name, f := range facts {
		traits[name] = f.Traits(full[name])
	}
	for _, what := range fabricTraits {
		by := map[string][]string{}
		for _, name := range slices.Sorted(maps.Keys(facts)) {
			by[traits[name][what]] = append(by[traits[name][what]], name)
		}
		if len(by) < 2 {
			continue
		}
		var parts []string
		for _, value := range slices.SortedFunc(maps.Keys(by), func(a, b string) int {
			return cmp.Or(len(by[b])-len(by[a]), strings.Compare(a, b))
		}) {
			parts = append(parts, value+" on "+strings.Join(by[value], ", "))
		}
		differences = append(differences, what+": "+strings.Join(parts, "; "))
	}
	return differences
}
