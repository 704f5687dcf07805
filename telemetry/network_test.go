package telemetry

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestNetwork: what an RDMA device counts in words and an interface in bytes become rates. What is
// counted anew is no rate, and what cannot be read is an error that names it.
func TestNetwork(t *testing.T) {
	n := &network{root: t.TempDir(), names: []string{"mlx5_0", "bnxt_re0", "eth1"}}
	for step, want := range [][]Reading{
		nil, // the first look
		{{"bnxt_re0", Received, "B/s", 1}, {"bnxt_re0", Sent, "B/s", 3}, {"eth1", Received, "B/s", 500}, {"eth1", Sent, "B/s", 50}, {"mlx5_0", Received, "B/s", 200}, {"mlx5_0", Sent, "B/s", 2000}},
		{{"bnxt_re0", Received, "B/s", 1}, {"bnxt_re0", Sent, "B/s", 3}, {"eth1", Sent, "B/s", 50}, {"mlx5_0", Received, "B/s", 200}, {"mlx5_0", Sent, "B/s", 2000}},
	} {
		const table = "Inter-|   Receive  |  Transmit\n face |bytes packets\n  eth1:%d 1 2 3 4 5 6 7 %d 9 9\n"
		received := []int{0, 1000, 7}[step]
		for path, text := range map[string]string{
			"sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data": fmt.Sprintln(1000 * step),
			"sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data":  fmt.Sprintln(100 * step),
			"sys/class/infiniband/bnxt_re0/ports/1/hw_counters/tx_bytes":  fmt.Sprintln(6 * step),
			"sys/class/infiniband/bnxt_re0/ports/1/hw_counters/rx_bytes":  fmt.Sprintln(2 * step),
			"proc/net/dev": fmt.Sprintf(table, received, 100*step),
		} {
			path = filepath.Join(n.root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := n.read(at(float64(2 * step)))
		slices.SortFunc(got, func(a, b Reading) int { return cmp.Compare(a.Of+a.Name, b.Of+b.Name) })
		if diff := gocmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("look %d: %v (-want +got):\n%s", step, err, diff)
		}
	}
	n.names = []string{"eth8", "mlx5_0", "eth9"}
	const want = "read what eth8 has transferred: there is no such device; " +
		"read what eth9 has transferred: there is no such device"
	if _, err := n.read(at(9)); err == nil || err.Error() != want {
		t.Errorf("of devices that are not there: %v", err)
	}
	if got, err := n.read(at(10)); err != nil || len(got) != 2 {
		t.Errorf("of the others then: %v, %v", got, err)
	}
}
