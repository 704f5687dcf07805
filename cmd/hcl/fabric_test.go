package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"hclbench/testhost"
)

// givesRDMA has a host's kernel show a device for RDMA, as it shows all others.
const givesRDMA = `set -e
mkdir %[1]s/sys
mount --bind /sys %[1]s/sys
mount -t tmpfs class /sys/class
for c in %[1]s/sys/class/*; do ln -s "$c" /sys/class/; done
d=/sys/class/infiniband/mlx5_0
p=$d/ports/1
mkdir -p $p/pkeys $p/gids $p/gid_attrs/types /dev/infiniband
echo '4: ACTIVE' >$p/state
echo Ethernet >$p/link_layer
echo '400 Gb/sec (4X NDR)' >$p/rate
echo 0xffff >$p/pkeys/0
echo 28.39.1002 >$d/fw_ver
echo 0000:0000:0000:0000:0000:ffff:c000:0201 >$p/gids/3
echo 'RoCE v2' >$p/gid_attrs/types/3
mknod -m 666 /dev/infiniband/uverbs0 c 1 3`

// measured are what hcl check --fabric --measure finds, by what the tools in the images say.
func (n *nodes) measured(t *testing.T) {
	for _, h := range n.hosts {
		testhost.Do(t, h, fmt.Sprintf(givesRDMA, h.Dir))
	}
	type env = map[string]string
	for _, c := range []struct {
		name string
		env  [3]env // of the tools, by the hosts' number
		code int
		want []string
	}{
		{"slow device and TCP in silence", [3]env{
			{"FABRIC_NETWORK": "Socket", "FABRIC_SECONDS": "2"}, {"FABRIC_GBITS": "199.5"},
		}, exitDone, []string{
			"3 ways between devices: 200 to 392 Gb/s, 4.2 µs there and back",
			"mlx5_0 of n2 to n3 writes 200 Gb/s, where the median of its like is 392", "look at its cable",
			"501 GB/s over 8 GPUs of n2, 8.6 GB in 30.0 ms",
			"8 GB/s over 24 GPUs of n1, n2, n3, 8.6 GB in 2000.0 ms, by Socket", "it went over TCP"}},
		{"wrong GID", [3]env{1: {"FABRIC_FAULT": "Failed to modify QP to RTR"}}, exitContract, []string{
			"mlx5_0 of n2 to n3: ibv_rc_pingpong: ", "Failed to modify QP to RTR", "fabric { gid_index }",
			"412 GB/s over 24 GPUs of n1, n2, n3, 8.6 GB in 40.0 ms, by IB"}},
		{"the last host fails", [3]env{2: {"FABRIC_DIES": "CUDA out of memory"}}, exitContract, []string{
			"over 24 GPUs of n1, n2, n3: on n3: exit status 1: ", "CUDA out of memory"}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			n.T = t
			for i := range n.hosts {
				n.images(i, c.env[i])
			}
			n.tells("check --fabric --measure", c.code, c.want...)
			n.gone(0)
		})
	}
	n.images(0, map[string]string{"FABRIC_FAULT": "hang"})
	for name, signal := range map[string]os.Signal{"interrupted": os.Interrupt, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			n.T = t
			cmd := n.command("check", "--fabric", "--measure")
			must(t, cmd.Start())
			eventually(t, "something measures on the first host", time.Minute, func() bool {
				return slices.ContainsFunc(n.leftOn(n.host), func(name string) bool {
					return strings.HasPrefix(name, "hcl-nodes-fabric-")
				})
			})
			must(t, cmd.Process.Signal(signal))
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); signal == os.Interrupt && code != exitInterrupted {
				t.Errorf("interrupted: exit %d", code)
			}
			within := time.Duration(0)
			if signal == os.Kill {
				within = n.lease + faultGrace
			}
			n.gone(within)
		})
	}
}
