package calibrate

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"hclbench/load"
)

const format = 1 // that of the file; another one is not read

// Machine is what a calibration is good for.
type Machine struct {
	CPU    string `json:"cpu"` // model name; the architecture, where the system does not say
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	HCL    string `json:"hcl"` // version
}

// ThisMachine is the one on which this process runs.
func ThisMachine(version string) Machine {
	m := Machine{CPU: runtime.GOARCH, Cores: runtime.NumCPU(), Kernel: runtime.GOOS, HCL: version}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	return m
}

// Calibration is what was found out about a machine.
type Calibration struct {
	Format   int             `json:"format"`
	Machine  Machine         `json:"machine"`
	Measured time.Time       `json:"measured"`
	Limits   load.Calibrated `json:"limits"`
	Steps    []Step          `json:"steps"`
}

// Of makes a calibration of what steps showed on this machine.
func Of(m Machine, measured time.Time, steps []Step) Calibration {
	return Calibration{format, m, measured.UTC().Truncate(time.Second), Limits(steps), steps}
}

// path is where a machine's calibration lies in the user's cache directory.
func (m Machine) path() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%+v", m))
	return filepath.Join(dir, "hcl", "calibration", fmt.Sprintf("%x.json", key[:8])), nil
}

// Narrower reports whether c says less than another of the same machine, because
// it did not try as much.
func (c Calibration) Narrower(than *Calibration) bool {
	return than != nil && !c.Limits.Bounded && c.Limits.Streams < than.Limits.Streams
}

// Keep writes the calibration below the user's cache directory, whole or not at
// all, and returns where.
func (c Calibration) Keep() (path string, err error) {
	if path, err = c.Machine.path(); err != nil {
		return "", fmt.Errorf("keep the calibration: %w", err)
	}
	b, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = renameio.WriteFile(path, append(b, '\n'), 0o644)
	}
	if err != nil {
		return "", fmt.Errorf("keep the calibration: %w", err)
	}
	return path, nil
}

// Kept is what is known of a machine; nil when it was never calibrated, or not with this version.
func Kept(m Machine) (*Calibration, error) {
	path, err := m.path()
	if err != nil {
		return nil, nil // no home, no calibration
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the calibration: %w", err)
	}
	var c Calibration
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("read the calibration %s (hcl calibrate makes it anew): %w", path, err)
	}
	if c.Format != format || c.Machine != m {
		return nil, nil
	}
	return &c, nil
}
