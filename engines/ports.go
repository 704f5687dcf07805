package engines

import (
	"cmp"
	"strconv"
)

// The ports of an engine of several members: a block for each member, at a place that
// follows from which of them it is, and all below 32768, where Linux begins to give ports
// away by itself. Two members never have one in common, so that they may share a host.
// SGLang takes port+13 and port+233 to port+239 for its own processes: those are free.
const (
	firstPort = 20000
	portBlock = 64
	// MaxMembers is how many members an engine may have: there are ports for no more.
	MaxMembers = (29000 - firstPort) / portBlock
)

// Where in its block a member has which port.
const (
	serverPort    = 0
	bootstrapPort = 1  // of SGLang's and Mooncake's prefill servers
	distPort      = 2  // PyTorch's store; with attention in data parallel SGLang takes the six after it
	ncclPort      = 9  // NCCL's, of SGLang
	rpcPort       = 10 // of vLLM's data parallel
	metricsPort   = 11 // of a router
	discoveryPort = 12 // where workers tell a router of themselves
	kvPort        = 13 // of P2pNccl
	sidePort      = 16 // NIXL's side channel, and one more for each rank of data parallel
	handshakePort = 32 // MoRIIO's, likewise
	notifyPort    = 48
)

// ports are those of one member.
type ports struct {
	block int         // its first
	open  bool        // others of the group come from other hosts
	used  []NamedPort // besides its server's
}

// portsOf are those of a member by its number.
func (e *Engine) portsOf(member int) ports {
	return ports{block: cmp.Or(e.FirstPort, firstPort) + portBlock*member, open: e.wide()}
}

func (p *ports) server() int { return p.block + serverPort }

// use notes that the member listens on a port of its block, and returns it.
func (p *ports) use(name string, at int) string {
	p.used = append(p.used, NamedPort{Name: name, Number: p.block + at, Open: p.open})
	return p.at(at)
}

// at is a port of the block that somebody else listens on.
func (p *ports) at(at int) string { return strconv.Itoa(p.block + at) }
