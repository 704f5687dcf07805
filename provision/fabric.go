package provision

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Fabric is the network between hosts that run one engine together. What is not said is
// found out on the host, see [FabricFacts].
type Fabric struct {
	Address   string   // IP address in that network; empty: the host's own
	Interface string   // network interface that has the address
	RDMA      []string // RDMA devices, "mlx5_0"; nil: not said; empty: it has none
	GIDIndex  *int     // of the devices' ports: RoCE v2 and IPv4
}

// Inside is the address at which other hosts of the same engine find it.
func (h *Host) Inside() string {
	switch {
	case h.Fabric.Address != "":
		return h.Fabric.Address
	case h.Cluster != nil: // until it runs nobody knows its address
		return h.Name
	case h.Local():
		return "127.0.0.1"
	}
	if host, _, err := net.SplitHostPort(h.Address); err == nil {
		return host
	}
	return h.Address
}

// FabricFacts is what a host has of a fabric.
type FabricFacts struct {
	Addresses  map[string][]string `json:"addresses,omitempty"` // of each network interface
	Interfaces []NIC               `json:"interfaces,omitempty"`
	Devices    []RDMADevice        `json:"devices,omitempty"`
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

// RDMADevice is a device that reads and writes the memory of other hosts, by its first port.
type RDMADevice struct {
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

// active are the devices that carry something.
func (f FabricFacts) active() []RDMADevice {
	return slices.DeleteFunc(slices.Clone(f.Devices), func(d RDMADevice) bool { return d.State != "ACTIVE" })
}

// Rate is what an RDMA device carries, in Gb/s; 0: not known.
func (f FabricFacts) Rate(name string) float64 {
	for _, d := range f.Devices {
		if d.Name == name {
			return d.Rate
		}
	}
	return 0
}

// v4 is the least index of the port's addresses that RoCE v2 has for IPv4; -1: it has none.
// Those of VLANs come later.
func (d RDMADevice) v4() int64 {
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
func (d RDMADevice) limited() bool {
	key, err := strconv.ParseUint(d.PKey, 0, 16)
	return err == nil && key&0x8000 == 0
}

// has reports whether one of the addresses of an interface is meant.
func (f FabricFacts) has(name, at string) bool {
	ip := net.ParseIP(at)
	return ip != nil && slices.ContainsFunc(f.Addresses[name], func(own string) bool { return ip.Equal(net.ParseIP(own)) })
}

// Complete fills in what a host's block does not say of its fabric. The problems are those
// that keep the host from taking part.
func (f FabricFacts) Complete(h *Host) (full Fabric, problems []string) {
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
		i := slices.IndexFunc(f.Devices, func(d RDMADevice) bool { return d.Name == name })
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
func (f FabricFacts) mtu(name string) string {
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
func (f FabricFacts) Traits(full Fabric) map[string]string {
	devices := func(of func(RDMADevice) string) string {
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
		"MTU of RDMA devices":      devices(func(d RDMADevice) string { return f.mtu(d.NIC) }),
		"RDMA devices that are up": devices(func(d RDMADevice) string { return fmt.Sprintf("%s %g Gb/s", d.Layer, d.Rate) }),
		"firmware of RDMA devices": devices(func(d RDMADevice) string { return d.Firmware }),
		"GID index for IPv4": devices(func(d RDMADevice) string {
			return strings.Replace(strconv.FormatInt(d.v4(), 10), "-1", "none", 1)
		}),
		"nvidia_peermem": map[bool]string{true: "loaded", false: "not loaded"}[f.PeerMem],
	}
}

// CompareFabrics says in what hosts of one engine are not alike, first of all against the
// most of them: what nobody sees until it is slow. Both are by the hosts' names, and so is the
// order of what is said.
func CompareFabrics(facts map[string]FabricFacts, full map[string]Fabric) (differences []string) {
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
