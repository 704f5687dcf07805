package testhost

import (
	"embed"
	"fmt"
	"io/fs"
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

// gpuHosts are the values of Options.GPU: the folder of tools, and the vendor.
var gpuHosts = map[string]struct{ folder, vendor string }{
	"nvidia":   {"8xH200", "nvidia"},
	"8xH200":   {"8xH200", "nvidia"},
	"amd":      {"8xMI300X", "amd"},
	"8xMI300X": {"8xMI300X", "amd"},
}

// vendorOf is who made the GPUs; empty for none.
func vendorOf(gpu string) string { return gpuHosts[gpu].vendor }

// installTools fills the host's own bin, which logins find first, and sbin,
// which its daemon finds first.
func (h *Host) installTools() error {
	bin, sbin := filepath.Join(h.Dir, "bin"), filepath.Join(h.Dir, "sbin")
	for _, dir := range []string{bin, sbin} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if h.opt.GPU == "" {
		return nil
	}
	gpu, ok := gpuHosts[h.opt.GPU]
	if !ok {
		return fmt.Errorf("Options.GPU is %q; known are 8xH200 and 8xMI300X", h.opt.GPU)
	}
	folder, err := fs.Sub(hosts, "testdata/hosts/"+gpu.folder)
	if err != nil {
		return fmt.Errorf("find tools: %w", err)
	}
	tools, err := fs.ReadDir(folder, ".")
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	for _, tool := range tools {
		text, err := fs.ReadFile(folder, tool.Name())
		if err != nil {
			return fmt.Errorf("read tool: %w", err)
		}
		if err := h.Install(tool.Name(), string(text)); err != nil {
			return err
		}
	}
	if gpu.vendor == "nvidia" {
		// dockerd grants GPU requests when it finds this hook, and leaves all the
		// rest to it.
		if err := os.WriteFile(filepath.Join(sbin, "nvidia-container-runtime-hook"), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
			return fmt.Errorf("write hook: %w", err)
		}
	}
	return nil
}

// GPUUse is something that the host's GPU tools tell of.
type GPUUse struct {
	GPU  int    // index
	PID  int    // as the host sees it; 0: memory that no process holds
	MiB  int64  // in use beyond what an idle GPU has
	Name string // of the process, one word
}

// UseGPUs has the host's GPU tools tell of these uses from now on, and of no
// others.
func (h *Host) UseGPUs(uses ...GPUUse) error {
	var text strings.Builder
	for _, u := range uses {
		fmt.Fprintf(&text, "%d %d %d %s\n", u.GPU, u.PID, u.MiB, u.Name)
	}
	// Renamed into place: a tool reads the old or the new.
	path := filepath.Join(h.Dir, "gpu-use")
	if err := os.WriteFile(path+".new", []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write what uses the GPUs: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write what uses the GPUs: %w", err)
	}
	return nil
}

// Install puts an executable script where logins on the host find it first,
// before the system's own of that name.
func (h *Host) Install(name, script string) error {
	if err := os.WriteFile(filepath.Join(h.Dir, "bin", name), []byte(script), 0o755); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	return nil
}
