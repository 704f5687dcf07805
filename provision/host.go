// Package provision has the nouns of the places where engines run: a host with its GPUs and its
// contract, a container, an image, what was seen of them, and what may go wrong. It is pure.
//
// The rooms below it do the work: reach connects to hosts, docker runs containers there, look
// finds out what hosts are. None of them knows of engines, benchmarks, labs or results: a
// container is an image, a command and settings, and labels are opaque pairs.
package provision

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// LocalAddress is the address of the machine that hcl itself runs on.
const LocalAddress = "local"

// Runtime says how a host runs engines.
type Runtime string

const (
	// Docker runs each engine in a container.
	Docker Runtime = "docker"
	// Process runs each engine as a child of the agent, for rented boxes that
	// are themselves containers and have no Docker.
	Process Runtime = "process"
)

// Vendor is a maker of GPUs; empty where a host has none.
type Vendor string

const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
)

// GPUs is what a host block says must be there, such as "8xH200". The zero
// value means no GPUs are asked for.
type GPUs struct {
	Count  int
	Model  string // as written, without the count: "H200", "MI300X"
	Vendor Vendor
}

// String returns the form that users write, or "" for none.
func (g GPUs) String() string {
	if g.Count == 0 {
		return ""
	}
	return fmt.Sprintf("%dx%s", g.Count, g.Model)
}

// ParseGPUs reads "8xH200", "4xMI300X" or "H200" (one). The vendor follows from
// the model.
func ParseGPUs(s string) (GPUs, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return GPUs{}, nil
	}
	g := GPUs{Count: 1, Model: s}
	if n, model, ok := strings.Cut(s, "x"); ok {
		if count, err := strconv.Atoi(n); err == nil && strconv.Itoa(count) == n {
			g = GPUs{Count: count, Model: strings.TrimSpace(model)}
		}
	}
	const digits = "0123456789"
	named := strings.ContainsAny(g.Model, digits) && strings.Trim(g.Model, digits) != ""
	if g.Count < 1 || !named || strings.ContainsAny(g.Model, " \t\n") {
		return GPUs{}, fmt.Errorf("%q is not a count and a model, such as 8xH200 or 8xMI300X", s)
	}
	g.Vendor = NVIDIA
	if ofAMD.MatchString(g.Model) {
		g.Vendor = AMD
	}
	return g, nil
}

// ofAMD is how the names of AMD's GPUs begin, of data centres and of workstations: MI300X, Radeon, W7900, R9700.
var ofAMD = regexp.MustCompile(`(?i)^(MI\d|Radeon|RX\d|W[5-7][0-9]00|R9\d00)`)

// Same reports whether two host blocks ask for the same: "8xh200" is "8xH200".
func (g GPUs) Same(o GPUs) bool { return g.Count == o.Count && strings.EqualFold(g.Model, o.Model) }

// Host is a machine as a host block describes it.
type Host struct {
	Name         string
	Description  string
	Address      string   // "host", "host:port", or [LocalAddress]; empty: it is of a cluster
	Cluster      *Cluster // it is a pod there, for one start of an engine; nil: a machine
	Rent         *Rent    // it is bought for a time, and has no address before; nil: it is not
	User         string   // empty: the caller's own name
	IdentityFile string   // private key; empty: the SSH agent, then the usual files in ~/.ssh
	HostKey      string   // pinned public key, "ssh-ed25519 AAAA…"; empty: known_hosts decides
	Jump         *Host    // connect through this host; nil: directly
	GPUs         GPUs
	Requests     map[string]string // of a pod, what it is sure to get: "cpu", "memory"; as Kubernetes counts
	Limits       map[string]string // and the most that it gets
	Runtime      Runtime           // empty means [Docker]
	Docker       string            // path of its socket, or an address such as "tcp://127.0.0.1:2375"; empty: it is looked for
	ImageFrom    ImageFrom         // empty means [FromRegistry]
	Fabric       Fabric            // how other hosts of the same engine reach it
	PricePerHour float64           // USD; 0: not said
	Require      *Require          // nil: nothing more
	Prepare      *Prepare          // what is set while engines run there; nil: nothing
	Pos          string            // where the block stands, "lab.hcl:12"
}

// SameMachine reports whether two host blocks say one address: a machine that cannot be taken twice at once.
func (h *Host) SameMachine(o *Host) bool {
	if h == o || h == nil || o == nil {
		return h == o
	}
	at := func(h *Host) string { return strings.ToLower(strings.TrimSuffix(h.Address, ":22")) }
	return h.Cluster == nil && o.Cluster == nil && h.Rent == nil && o.Rent == nil && at(h) == at(o) && h.Jump.SameMachine(o.Jump)
}

// Local reports whether the host is the machine that hcl runs on.
func (h *Host) Local() bool { return h.Address == LocalAddress }

// String names the host in messages: "host h200 (lab.hcl:12)".
func (h *Host) String() string {
	if h.IsCluster() {
		return h.Cluster.String()
	}
	if h.Pos == "" {
		return "host " + h.Name
	}
	return fmt.Sprintf("host %s (%s)", h.Name, h.Pos)
}

// CheckHostKey says what is wrong with the text of a public key that is none: a type,
// and in base64 the type and numbers, each with its length before it.
func CheckHostKey(key string) error {
	fields := strings.Fields(key)
	if len(fields) < 2 {
		return errors.New("there is no type and key in it")
	}
	rest, err := base64.StdEncoding.DecodeString(fields[1])
	var parts []string
	for len(rest) >= 4 {
		end := 4 + uint64(binary.BigEndian.Uint32(rest))
		if end > uint64(len(rest)) {
			break
		}
		parts, rest = append(parts, string(rest[4:end])), rest[end:]
	}
	if err != nil || len(rest) > 0 || len(parts) < 2 || parts[0] != fields[0] {
		return errors.New("the key in it cannot be read")
	}
	return nil
}

// Require is what a host must be besides its GPUs' count and model. Zero values ask for nothing.
type Require struct {
	Driver        Versions // of the GPU driver
	ROCm          Versions // of ROCm, on hosts with AMD GPUs
	GPUMemory     int64    // bytes on each GPU
	Memory        int64    // bytes of the host's own
	DiskFree      int64    // bytes where images and model caches are kept
	IdleGPUs      bool     // nobody else uses them
	NUMABalancing *bool    // the kernel's automatic balancing is on, or off
}

// Versions bounds a version; the zero value allows every one.
type Versions []VersionBound

// VersionBound is one bound.
type VersionBound struct {
	Op      string // ">=", ">", "<=", "<" or "="
	Version string
}

// ParseVersions reads ">= 550.144" or ">= 550, < 580". A version alone is that version and no other.
func ParseVersions(s string) (Versions, error) {
	var v Versions
	for part := range strings.SplitSeq(s, ",") {
		b := VersionBound{Op: "=", Version: strings.TrimSpace(part)}
		for _, op := range []string{">=", "<=", ">", "<", "="} {
			if rest, ok := strings.CutPrefix(b.Version, op); ok {
				b = VersionBound{op, strings.TrimSpace(rest)}
				break
			}
		}
		if _, ok := versionNumbers(b.Version); !ok {
			return nil, fmt.Errorf("%q is not a version with a bound, such as \">= 550.144\"", s)
		}
		v = append(v, b)
	}
	return v, nil
}

// String is the form that users write.
func (v Versions) String() string {
	var parts []string
	for _, b := range v {
		parts = append(parts, b.Op+" "+b.Version)
	}
	return strings.Join(parts, ", ")
}

// Allow reports whether a version is within all bounds. Versions are compared number by number;
// what follows these, as in "6.3.1-48", does not count. One that begins with none is never allowed.
func (v Versions) Allow(version string) bool {
	have, ok := versionNumbers(version)
	for _, b := range v {
		want, _ := versionNumbers(b.Version)
		c := slices.Compare(have, want)
		if !ok || !map[string]bool{">=": c >= 0, ">": c > 0, "<=": c <= 0, "<": c < 0, "=": c == 0}[b.Op] {
			return false
		}
	}
	return true
}

// versionNumbers are those that a version begins with, without zeros at the end: 550, 144, 3.
func versionNumbers(s string) (numbers []int, ok bool) {
	for part := range strings.SplitSeq(s, ".") {
		digits := part[:len(part)-len(strings.TrimLeft(part, "0123456789"))]
		n, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		numbers = append(numbers, n)
		if digits != part {
			break
		}
	}
	known := len(numbers) > 0
	for len(numbers) > 0 && numbers[len(numbers)-1] == 0 {
		numbers = numbers[:len(numbers)-1]
	}
	return numbers, known
}

// Fabric is the network between hosts that run one engine together. What is not said is
// found out on the host.
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
	case h.Cluster != nil, h.Rent != nil && h.Address == "": // until it runs nobody knows its address
		return h.Name
	case h.Local():
		return "127.0.0.1"
	}
	if host, _, err := net.SplitHostPort(h.Address); err == nil {
		return host
	}
	return h.Address
}
