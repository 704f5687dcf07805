package testhost

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// hosts are the tools that hosts with GPUs have. What they print has the shape
// that the vendors document for their own tools; no machine with such GPUs was
// there when they were written.
//
//go:embed testdata/hosts
var hosts embed.FS

// gpuVendors has who made the GPUs of a host, by the value of Options.GPU, which is the
// folder of its tools as well.
var gpuVendors = map[string]string{"8xH200": "nvidia", "8xMI300X": "amd", "": ""}

// gpus is the folder in a host's directory of what its GPU tools are told.
const gpus = "gpus"

// installTools fills the host's own bin, which logins find first, and sbin,
// which its daemon finds first.
func (h *Host) installTools(gpu string) error {
	for _, dir := range []string{"bin", "sbin", gpus} {
		if err := os.Mkdir(filepath.Join(h.Dir, dir), 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	vendor, known := gpuVendors[gpu]
	if !known {
		return fmt.Errorf("Options.GPU is %q; known are 8xH200 and 8xMI300X", gpu)
	}
	if vendor == "" {
		return nil
	}
	folder := "testdata/hosts/" + gpu
	tools, err := hosts.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	for _, tool := range tools {
		text, err := hosts.ReadFile(folder + "/" + tool.Name())
		if err != nil {
			return fmt.Errorf("read tool: %w", err)
		}
		if err := h.Install(tool.Name(), string(text)); err != nil {
			return err
		}
	}
	if vendor == "nvidia" {
		return h.HandOutGPUs(true)
	}
	return nil
}

// hook is what dockerd grants GPU requests with when it finds it, and leaves all the
// rest to: it gets the container's state as JSON, and makes the devices in it.
const hook = `#!/bin/sh
state=$(cat)
pid=$(echo "$state" | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p')
config=$(echo "$state" | sed -n 's/.*"bundle": *"\([^"]*\)".*/\1/p')/config.json
root=$(sed -n 's/.*"root": *{ *"path": *"\([^"]*\)".*/\1/p' "$config")
ids=$(grep -o 'NVIDIA_VISIBLE_DEVICES=[^"]*' "$config" | head -n 1 | cut -d= -f2 | tr , ' ')
[ "$ids" != all ] || ids="0 1 2 3 4 5 6 7"
exec nsenter --target "$pid" --mount -- sh -c 'for n in $1; do mknod -m 666 "$0/dev/nvidia$n" c 1 3; done' "$root" "$ids"
`

// HandOutGPUs has the host's daemon put the devices of its NVIDIA GPUs into the
// containers that ask for them, or, as a broken container toolkit does, none.
func (h *Host) HandOutGPUs(on bool) error {
	script := hook
	if !on {
		script = "#!/bin/sh\nexit 0\n"
	}
	return os.WriteFile(filepath.Join(h.Dir, "sbin", "nvidia-container-runtime-hook"), []byte(script), 0o755)
}

// GPUUse is something that the host's GPU tools tell of.
type GPUUse struct {
	GPU  int    // index
	PID  int    // as the host sees it; 0: memory that no process holds
	MiB  int64  // in use beyond what an idle GPU has
	Name string // of the process, one word
}

// UseGPUs has the host's GPU tools tell of these uses from now on, and of no others.
func (h *Host) UseGPUs(uses ...GPUUse) error {
	var text strings.Builder
	for _, u := range uses {
		fmt.Fprintf(&text, "%d %d %d %s\n", u.GPU, u.PID, u.MiB, u.Name)
	}
	return h.toTools("use", text.String())
}

// GPUField is what a GPU of a host with nvidia-smi says of itself.
type GPUField struct {
	GPU   int    // index
	Field string // as --query-gpu has it: "power.draw"
	Value string
}

// SayGPUs has the host's nvidia-smi give these values from now on, and otherwise
// those of an idle GPU.
func (h *Host) SayGPUs(fields ...GPUField) error {
	var text strings.Builder
	for _, f := range fields {
		fmt.Fprintf(&text, "%d %s %s\n", f.GPU, f.Field, f.Value)
	}
	return h.toTools("say", text.String())
}

// toTools renames a file into place: a tool reads the old or the new.
func (h *Host) toTools(name, text string) error {
	path := filepath.Join(h.Dir, gpus, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Install puts an executable script where logins on the host find it first,
// before the system's own of that name.
func (h *Host) Install(name, script string) error {
	return os.WriteFile(filepath.Join(h.Dir, "bin", name), []byte(script), 0o755)
}
