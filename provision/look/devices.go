package look

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"hclbench/provision"
	"hclbench/provision/reach"
)

// DevicesVerb is the verb of the hcl binary that prints its [Devices] as JSON. It
// runs in a container of an engine's image, with what the engine will get.
const DevicesVerb = "devices"

// AtDevices looks at what is here.
func AtDevices(ctx context.Context) Devices {
	nodes := func(pattern string) (found []DeviceNode) {
		paths, _ := filepath.Glob(pattern) // the patterns are good
		for _, path := range paths {
			n := DeviceNode{Path: path}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err == nil {
				err = f.Close()
			}
			if err != nil {
				n.Error = errors.Unwrap(err).Error()
			}
			found = append(found, n)
		}
		return found
	}
	d := Devices{NVIDIA: nodes("/dev/nvidia[0-9]*"), KFD: nodes("/dev/kfd"), DRI: nodes("/dev/dri/renderD*")}
	tool, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return d
	}
	out, err := exec.CommandContext(ctx, tool, "-L").CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "GPU ") {
			d.Listed = append(d.Listed, strings.TrimSpace(line))
		}
	}
	if err != nil || len(d.Listed) == 0 {
		d.Tool = "nvidia-smi -L: " + reach.LastLines(string(out), 1)
	}
	return d
}

// Devices are the GPUs that a program finds where it runs.
type Devices struct {
	NVIDIA []DeviceNode `json:"nvidia,omitempty"` // /dev/nvidia0 and so on
	KFD    []DeviceNode `json:"kfd,omitempty"`    // AMD's: /dev/kfd
	DRI    []DeviceNode `json:"dri,omitempty"`    // AMD's: /dev/dri/renderD128 and so on
	Listed []string     `json:"listed,omitempty"` // by nvidia-smi -L, a line each
	Tool   string       `json:"tool,omitempty"`   // what nvidia-smi -L has said instead; "" where it is not there
}

// DeviceNode is a device, and why it cannot be used.
type DeviceNode struct {
	Path  string `json:"path"`
	Error string `json:"error,omitempty"`
}

// Lacks says why these are not as many GPUs as are wanted; "" when they are.
func (d Devices) Lacks(v provision.Vendor, want int) string {
	for _, n := range slices.Concat(d.NVIDIA, d.KFD, d.DRI) {
		if n.Error != "" {
			return fmt.Sprintf("%s cannot be opened: %s", n.Path, n.Error)
		}
	}
	switch {
	case v == provision.AMD && len(d.KFD) == 0:
		return "there is no /dev/kfd"
	case v == provision.AMD && len(d.DRI) < want:
		return fmt.Sprintf("%d of %d GPUs are in /dev/dri", len(d.DRI), want)
	case v == provision.AMD, len(d.Listed) >= want:
		return ""
	case d.Tool != "":
		return d.Tool
	case len(d.Listed) > 0:
		return fmt.Sprintf("nvidia-smi lists %d of %d GPUs", len(d.Listed), want)
	case len(d.NVIDIA) < want:
		return fmt.Sprintf("%d of %d devices /dev/nvidiaN are there", len(d.NVIDIA), want)
	}
	return ""
}
