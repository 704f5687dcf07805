package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// network is what Linux below root says that network interfaces and RDMA devices have sent and
// received, as rates since it was read before.
type network struct {
	root   string
	names  []string
	before map[string]float64
	at     time.Time
}

func (n *network) source() Source {
	return polled(1, func(context.Context) ([]Reading, error) { return n.read(time.Now()) })
}

func (n *network) read(at time.Time) (readings []Reading, err error) {
	now := map[string]float64{}
	var there, lacking []string
	for _, name := range n.names {
		sent, received, err := n.transferred(name)
		if err != nil {
			lacking = append(lacking, fmt.Sprintf("read what %s has transferred: %v", name, err))
			continue
		}
		there = append(there, name)
		for what, total := range map[string]float64{Sent: sent, Received: received} {
			key := name + " " + what
			if was, known := n.before[key]; known && total >= was { // else it was counted anew
				readings = append(readings, reading(name, what, (total-was)/at.Sub(n.at).Seconds()))
			}
			now[key] = total
		}
	}
	n.names, n.before, n.at = there, now, at
	if len(lacking) > 0 { // told at once; the others are read on
		return nil, errors.New(strings.Join(lacking, "; "))
	}
	return readings, nil
}

// transferred are counts of bytes: of an RDMA device, whose transfers the kernel does not see, those of
// its first port, in words of four bytes, or where its driver has none its own in bytes; else those of the
// interface (proc_net(5)).
func (n *network) transferred(name string) (sent, received float64, err error) {
	for _, c := range []struct {
		sent, received string
		unit           float64
	}{
		{"counters/port_xmit_data", "counters/port_rcv_data", 4},
		{"hw_counters/tx_bytes", "hw_counters/rx_bytes", 1},
	} {
		port := filepath.Join(n.root, "sys/class/infiniband", name, "ports/1")
		if sent, err = readNumber(filepath.Join(port, c.sent)); err == nil {
			received, err = readNumber(filepath.Join(port, c.received))
			return c.unit * sent, c.unit * received, err
		}
		if !errors.Is(err, os.ErrNotExist) {
			return 0, 0, err
		}
	}
	table, err := os.ReadFile(filepath.Join(n.root, "proc/net/dev"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(table)) {
		is, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		if f := strings.Fields(rest); is == name && len(f) > 8 {
			received, err = strconv.ParseFloat(f[0], 64)
			sent, err2 := strconv.ParseFloat(f[8], 64)
			return sent, received, errors.Join(err, err2)
		}
	}
	return 0, 0, errors.New("there is no such device")
}

func readNumber(path string) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
}
