// Package provision has the nouns of the places where engines run: a host with its
// GPUs and its contract, a container, an image, what was seen of them, and what may go
// wrong. It is pure.
//
// The rooms below it do the work: reach connects to hosts, docker runs containers
// there, look finds out what hosts are. None of them knows of engines, benchmarks,
// labs or results: a container is an image, a command and settings, and labels are
// opaque pairs.
package provision

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
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
// the model: MI… and Radeon are AMD's, everything else NVIDIA's.
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
	if upper := strings.ToUpper(g.Model); strings.HasPrefix(upper, "MI") || strings.HasPrefix(upper, "RADEON") {
		g.Vendor = AMD
	}
	return g, nil
}

// Host is a machine as a host block describes it.
type Host struct {
	Name         string
	Description  string
	Address      string // "host", "host:port", or [LocalAddress]
	User         string // empty: the caller's own name
	IdentityFile string // private key; empty: the SSH agent, then the usual files in ~/.ssh
	HostKey      string // pinned public key, "ssh-ed25519 AAAA…"; empty: known_hosts decides
	Jump         *Host  // connect through this host; nil: directly
	GPUs         GPUs
	Runtime      Runtime   // empty means [Docker]
	Docker       string    // path of its socket, or an address such as "tcp://127.0.0.1:2375"; empty: it is looked for
	ImageFrom    ImageFrom // empty means [FromRegistry]
	Fabric       Fabric    // how other hosts of the same engine reach it
	PricePerHour float64   // USD; 0: not said
	Require      *Require  // nil: nothing more
	Prepare      *Prepare  // what is set while engines run there; nil: nothing
	Pos          string    // where the block stands, "lab.hcl:12"
}

// Local reports whether the host is the machine that hcl runs on.
func (h *Host) Local() bool { return h.Address == LocalAddress }

// String names the host in messages: "host h200 (lab.hcl:12)".
func (h *Host) String() string {
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
