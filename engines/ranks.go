package engines

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/provision"
)

// joins reports whether a member of an instance of so many hosts uses the network between hosts.
func (e *Engine) joins(span int, f provision.Fabric) bool {
	return (span > 1 || e.transfer() != "") && (e.wide() || len(f.RDMA) > 0)
}

// joinFabric gives a member what it needs to talk to ranks or roles on other hosts: the network
// interface by name, which differs from host to host, and RDMA devices, without which
// NCCL takes sockets and says nothing (vllm-project/vllm#42075).
func joinFabric(e *Engine, s *spot) {
	f := e.Host().Fabric
	overUCX := s.transfer == "nixl" || s.transfer == "ucx"
	if overUCX && !s.whole.wide() && e.Host().GPUs.Count == 0 && len(f.RDMA) == 0 {
		e.setVariable("UCX_NET_DEVICES", "lo") // else it takes all there are, and ends when one of others' goes away
	}
	if !s.whole.joins(s.ranks(), f) {
		return
	}
	e.setVariable("GLOO_SOCKET_IFNAME", f.Interface)
	e.setVariable("NCCL_SOCKET_IFNAME", f.Interface)
	gid := ""
	if f.GIDIndex != nil {
		gid = strconv.Itoa(*f.GIDIndex)
	}
	e.setVariable("NCCL_IB_GID_INDEX", gid)
	if len(f.RDMA) > 0 {
		e.setVariable("NCCL_IB_HCA", "="+strings.Join(f.RDMA, ",")) // without "=" mlx5_1 is mlx5_10 too
	}
	switch s.transfer { // which do not read NCCL's
	case "mori":
		e.setVariable("MORI_SOCKET_IFNAME", f.Interface)
		e.setVariable("MORI_IB_GID_INDEX", gid)
	case mooncake:
		e.setVariable("MC_GID_INDEX", gid)
	case "nixl", "ucx": // and no other device: TCP would be taken in silence
		if len(f.RDMA) > 0 {
			e.setVariable("UCX_NET_DEVICES", strings.Join(f.RDMA, ":1,")+":1")
		}
	}
	if e.speaksAs() == TRTLLM {
		e.setVariable("TRTLLM_UCX_INTERFACE", f.Interface)
	}
	if f.RDMA != nil && len(f.RDMA) == 0 { // devices that are there all the same are not to be used
		e.setVariable("NCCL_IB_DISABLE", "1")
		switch s.transfer {
		case mooncake:
			e.setVariable("MC_FORCE_TCP", "1")
		case "nixl", "ucx":
			e.setVariable("UCX_TLS", "^ib")
			e.setVariable("UCX_NET_DEVICES", f.Interface)
		}
		return
	}
	if Runtime(e) != provision.Docker || e.Host().GPUs.Count == 0 {
		return
	}
	// An RDMA device registers memory, more of it than Docker lets a container lock.
	e.Container.Devices = union([]string{"/dev/infiniband"}, e.Container.Devices)
	e.Container.CapAdd = union([]string{"IPC_LOCK"}, e.Container.CapAdd)
	openMany(e)
}

// openMany lets an engine's container have more files open than Docker does by itself, unless the lab says
// how many: a connection is one.
func openMany(e *Engine) {
	files := int64(1 << 20)
	e.Container.Ulimits = append([]Ulimit{{Name: "nofile", Value: &files}}, e.Container.Ulimits...)
}

// shared reports whether another instance of the group has the same host.
func (s *spot) shared() bool {
	n := 0
	for _, r := range s.whole.workers() {
		for _, in := range r.instances {
			if slices.Contains(in.Hosts, s.in.Hosts[s.rank]) {
				n++
			}
		}
	}
	return n > 1
}

// sglangRank is the part of a rank of SGLang (docs/references/multi_node_deployment). The
// servers of ranks above 0 answer that they are healthy and nothing else.
func sglangRank(e *Engine, s *spot) (answers bool) {
	if s.wide { // else it takes the address by which it would go to the internet
		e.setVariable("SGLANG_HOST_IP", e.Host().Inside())
	}
	if s.ranks() > 1 {
		e.say("nnodes", strconv.Itoa(s.ranks()))
		e.say("node-rank", strconv.Itoa(s.rank))
		e.say("dist-init-addr", net.JoinHostPort(s.headAddress(), s.headPort("dist", distPort)))
	}
	if s.ranks() > 1 || s.shared() { // else it takes one that is free, and two may take the same (sgl-project/sglang#37215)
		e.say("nccl-port", s.headPort("nccl", ncclPort))
	}
	return s.rank == 0
}

// ownRank tells a command of the lab's which rank it is, and in a role where to listen.
func ownRank(e *Engine, s *spot) (answers bool) {
	if s.grouped() {
		e.setVariable("HCL_PORT", strconv.Itoa(e.port()))
	}
	if s.ranks() > 1 {
		e.setVariable("HCL_RANK", strconv.Itoa(s.rank))
		e.setVariable("HCL_RANKS", strconv.Itoa(s.ranks()))
		e.setVariable("HCL_HEAD_ADDRESS", s.headAddress())
		e.setVariable("HCL_DIST_PORT", s.headPort("dist", distPort))
	}
	return s.rank == 0
}

// headless makes a rank of vLLM one without a server.
func (s *spot) headless(e *Engine) {
	e.say("headless")
	s.silent = true
}

// vllmRank is the part of a rank of vLLM: of data parallel where the lab asks for more than
// one replica (docs/serving/data_parallel_deployment), and else of tensors and stages
// (docs/serving/parallelism_scaling).
func vllmRank(e *Engine, s *spot) (answers bool) {
	if s.wide {
		e.setVariable("VLLM_HOST_IP", e.Host().Inside())
	}
	if s.ranks() == 1 {
		return true
	}
	replicas := e.wholeNumber(1, setting.DataParallel)
	if replicas == 1 {
		if s.rank > 0 {
			s.headless(e)
		}
		e.say("nnodes", strconv.Itoa(s.ranks()))
		e.say("node-rank", strconv.Itoa(s.rank))
		e.say("master-addr", s.headAddress())
		e.say("master-port", s.headPort("dist", distPort))
		return s.rank == 0
	}
	local := replicas / s.ranks()
	everyHost := e.isOn(setting.EveryHost)
	if everyHost && s.wide { // requests go to all of them
		e.say("host", everywhere(e.Host()))
	}
	if s.rank > 0 {
		e.say("data-parallel-start-rank", strconv.Itoa(s.rank*local))
		if !everyHost {
			s.headless(e)
		}
	}
	e.say("data-parallel-size-local", strconv.Itoa(local))
	e.say("data-parallel-address", s.headAddress())
	e.say("data-parallel-rpc-port", s.headPort("data parallel", rpcPort))
	return s.rank == 0 || everyHost
}
