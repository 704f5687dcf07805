package fabric

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hclbench/flow"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/reach"
)

// Spot is a host on which something is measured, with what the image of its engine has, in containers that may do what
// the engine's may. Each measures for seconds, ends by itself, and is taken down.
type Spot struct {
	Host   *provision.Host
	Fabric provision.Fabric // whole; without RDMA devices where engines get none
	Facts  Facts
	Ports  []int               // that others reach
	Like   provision.Container // an engine's, of an image that is there
	GPUs   int                 // that engines have there
	IDs    []string            // of these; nil: all of the host's

	Runtime Runtime
	Stop    func(context.Context, provision.Container) error // and proves that it is gone, also where ctx has ended
}

// Runtime is how programs are started on a spot and looked at, in containers or as processes.
type Runtime interface {
	Start(context.Context, provision.Container) (id string, err error)
	State(ctx context.Context, id string) (provision.State, error)
	Logs(ctx context.Context, id string, follow bool, tail int) (io.ReadCloser, error)
}

// What is measured: bytes of an all-reduce, as published floors have them; where the first process
// of it is found, unless engines have a port that others come to; and how long a program may take.
const (
	reducedBytes = 8 << 30
	reducePort   = 29500
	railPort     = 18515 // of the first pair of devices
	railWithin   = time.Minute
	railRetry    = time.Second
	stateAgain   = 200 * time.Millisecond
	reduceWithin = 5 * time.Minute
)

// Measure finds out what engines get of a fabric; the hosts are the caller's alone meanwhile. say tells what is done.
func Measure(ctx context.Context, spots []*Spot, say func(what string)) (found []provision.Finding, err error) {
	say("measuring RDMA")
	rails, err := measureRails(ctx, spots)
	if err != nil {
		return nil, err
	}
	found = judgeRails(rails)
	say("measuring an all-reduce")
	reduced, err := reductions(ctx, spots)
	if err != nil {
		return found, err
	}
	return append(found, judgeReductions(reduced, wideRails(spots))...), nil
}

// Add takes a member's container, which may have a part of the host's GPUs.
func (s *Spot) Add(ct provision.Container, ids []string) {
	if s.GPUs == 0 {
		s.Like = ct
		if !ct.Privileged && !slices.ContainsFunc(ct.Devices, isRDMA) {
			s.Fabric.RDMA = nil
		}
	}
	switch {
	case len(ids) == 0:
		s.IDs, s.GPUs = nil, s.Host.GPUs.Count
	case s.GPUs < s.Host.GPUs.Count:
		s.IDs = append(s.IDs, ids...)
		s.GPUs = len(s.IDs)
	}
}

func isRDMA(device string) bool { return strings.HasPrefix(device, "/dev/infiniband") }

// Program is something that runs in a container, or a process, of its own.
type Program struct {
	Suffix string // of its name
	GPUs   bool
	Files  []provision.File
	Words  []string
}

// container is one for a program.
func (s *Spot) container(p Program) provision.Container {
	ct := s.Like.MayAs("-" + p.Suffix)
	ct.Network, ct.IPC, ct.ShmSize, ct.Ulimits = "host", s.Like.IPC, s.Like.ShmSize, s.Like.Ulimits
	ct.Init, ct.StopSignal, ct.StopGrace = true, "SIGTERM", s.Like.StopGrace
	ct.Files = p.Files
	for _, d := range s.Like.Devices {
		if p.GPUs || isRDMA(d) {
			ct.Devices = append(ct.Devices, d)
		}
	}
	switch {
	case !p.GPUs:
	case s.Host.GPUs.Vendor == provision.AMD:
		ct.HostGroups = s.Like.HostGroups
		if s.IDs != nil {
			ids := provision.Plain(strings.Join(s.IDs, ","))
			ct.Env = append(ct.Env, provision.EnvVar{Name: "HIP_VISIBLE_DEVICES", Value: ids})
		}
	case s.IDs != nil:
		ct.GPUIDs = s.IDs
	default:
		ct.GPUs = -1
	}
	ct.Env = append(ct.Env, provision.EnvVar{Name: "NCCL_DEBUG", Value: provision.Plain("INFO")})
	for _, v := range s.Like.Env { // and no secrets
		kind, _, _ := strings.Cut(v.Name, "_")
		isPath := v.Name == "PATH" || v.Name == "LD_LIBRARY_PATH"
		if isPath || v.Name != "NCCL_DEBUG" && slices.Contains([]string{"NCCL", "RCCL", "GLOO", "HSA"}, kind) {
			ct.Env = append(ct.Env, v)
		}
	}
	ct.Entrypoint = []provision.Text{provision.Plain(p.Words[0])}
	for _, w := range p.Words[1:] {
		ct.Command = append(ct.Command, provision.Plain(w))
	}
	return ct
}

// Run runs a program to its end, and takes it down. The error is that it is not down; why it has not ended well is told as
// soon as it is known, with its exit code where it has one.
func (s *Spot) Run(ctx context.Context, p Program, failed func(code int, why string)) (said string, err error) {
	ct := s.container(p)
	defer func() { err = errors.Join(err, s.Stop(ctx, ct)) }()
	id, ran := s.Runtime.Start(ctx, ct)
	code := 0
	if ran == nil {
		said, code, ran = s.ended(ctx, id)
	}
	switch {
	case ran != nil && ctx.Err() != nil:
		failed(0, context.Cause(ctx).Error())
	case ran != nil:
		failed(0, plain.Line(ran.Error()))
	case code != 0:
		failed(code, reach.LastLines(said, 2))
	}
	return said, nil
}

// ended waits for the end of a program, and returns what it has said.
func (s *Spot) ended(ctx context.Context, id string) (said string, code int, err error) {
	state, err := s.Runtime.State(ctx, id)
	for ; err == nil && state.Running; state, err = s.Runtime.State(ctx, id) {
		if !flow.Pause(ctx, stateAgain) {
			return "", 0, context.Cause(ctx)
		}
	}
	if err != nil {
		return "", 0, err
	}
	logs, err := s.Runtime.Logs(ctx, id, false, -1)
	if err != nil {
		return "", 0, err
	}
	defer logs.Close()
	text, err := io.ReadAll(io.LimitReader(logs, 4<<20))
	return string(text), state.ExitCode, err
}

// Lacks reports whether a program has not run as the image does not have it.
func Lacks(code int, said string) bool {
	const notFound = 127
	return code == notFound || strings.Contains(said, "executable file not found")
}

// reductions measures an all-reduce over the GPUs of each host, and then over those of all.
func reductions(ctx context.Context, spots []*Spot) (all []Reduction, err error) {
	alone := make([]*Reduction, len(spots))
	err = flow.Each(spots, func(i int, s *Spot) (err error) {
		if s.GPUs > 1 {
			alone[i], err = reduce(ctx, s)
		}
		return err
	})
	for _, r := range alone {
		if r != nil {
			all = append(all, *r)
		}
	}
	if err != nil {
		return nil, err
	}
	wide, err := reduce(ctx, spots...)
	if err == nil {
		all = append(all, *wide)
	}
	return all, err
}

// reduce measures an all-reduce over all GPUs of these hosts. What did not go is told in the answer.
func reduce(ctx context.Context, spots ...*Spot) (*Reduction, error) {
	late := fmt.Errorf("it has not ended within %s", reduceWithin)
	within, cancel := context.WithTimeoutCause(ctx, reduceWithin, late)
	defer cancel()
	r := &Reduction{Bytes: reducedBytes, Model: spots[0].Host.GPUs.Model}
	first := make([]int, len(spots))
	for i, s := range spots {
		first[i] = r.GPUs
		r.GPUs += s.GPUs
		r.Hosts = append(r.Hosts, s.Host.Name)
	}
	var failure sync.Once // the first: others fail as it has, and as they are then ended
	at := meetAt(spots)
	err := flow.Each(spots, func(i int, s *Spot) error {
		all := Program{Suffix: "all-reduce", GPUs: true, Files: []provision.File{{Name: "allreduce.py", Text: provision.Plain(allReduce)}}}
		all.Words = []string{"python3", provision.FilesDir + "/allreduce.py", strconv.Itoa(s.GPUs), strconv.Itoa(r.GPUs),
			strconv.Itoa(first[i]), at, strconv.Itoa(reducedBytes)}
		said, err := s.Run(within, all, func(code int, why string) {
			failure.Do(func() {
				if code != 0 {
					why = fmt.Sprintf("exit status %d: %s", code, why)
				}
				r.Failed = fmt.Sprintf("on %s: %s", s.Host.Name, why)
				cancel() // the others would wait for it
			})
		})
		if i == 0 {
			r.Seconds, r.Network, _ = reduced(said)
		}
		return err
	})
	if r.Failed == "" && r.Seconds == 0 {
		r.Failed = "it has ended without a result"
	}
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	return r, err
}

// meetAt is where the processes of an all-reduce find the first of them.
func meetAt(spots []*Spot) string {
	at, port := "127.0.0.1", reducePort
	if first := spots[0]; len(spots) > 1 {
		at = first.Host.Inside()
		if len(first.Ports) > 0 {
			port = first.Ports[0] // which others surely reach
		}
	}
	return net.JoinHostPort(at, strconv.Itoa(port))
}

// wideRails is how many devices of 400 Gb/s the hosts use, one for a GPU: the fewest of all.
func wideRails(spots []*Spot) int {
	fewest := -1
	for _, s := range spots {
		n := 0
		for _, name := range s.Fabric.RDMA {
			if s.Facts.Rate(name) >= 400 {
				n++
			}
		}
		if n = min(n, s.GPUs); fewest < 0 || n < fewest {
			fewest = n
		}
	}
	return fewest
}
