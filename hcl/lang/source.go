package lang

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// VarsFile is the file of a lab directory that holds values for its variables.
const VarsFile = "lab.hclvars"

// maxFileSize bounds what is read: more is a mistaken path, not a lab.
const maxFileSize = 64 << 20

// ErrNoLab is that of a directory without a lab.
var ErrNoLab = errors.New("no *.hcl files")

// Source is the text of a lab.
type Source struct {
	Dir   string            // file() and lab names are relative to it
	Files map[string][]byte // by name as shown to the user; *.hcl, and lab.hclvars
	// Locked are names in the text, such as an image's, whose meaning a lock file has fixed: nobody
	// is warned that they may come to mean something else.
	Locked map[string]bool

	Open func(path string) ([]byte, error) // reads another file that the text names; nil: this machine's
}

// ReadFile returns the text of a file that the lab names.
func (s *Source) ReadFile(path string) ([]byte, error) {
	if s.Open != nil {
		return s.Open(path)
	}
	return readRegular(path)
}

// Read reads a lab: a directory (all its *.hcl files and lab.hclvars) or one
// file, beside which a lab.hclvars counts too.
func Read(path string) (*Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read lab: %w", err)
	}
	src := &Source{Dir: path, Files: map[string][]byte{}}
	var names []string
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("read lab: %w", err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".hcl") && !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("read lab: %w in %s: name the directory or the file of a lab", ErrNoLab, path)
		}
	} else {
		src.Dir = filepath.Dir(path)
		names = []string{path}
	}
	for _, name := range names {
		if src.Files[name], err = readRegular(name); err != nil {
			return nil, fmt.Errorf("read lab: %w", err)
		}
	}
	vars := filepath.Join(src.Dir, VarsFile)
	if src.Files[vars], err = readRegular(vars); errors.Is(err, fs.ErrNotExist) {
		delete(src.Files, vars)
	} else if err != nil {
		return nil, fmt.Errorf("read lab: %w", err)
	}
	return src, nil
}

// labFiles returns the lab's own files, sorted, and its lab.hclvars ("" when there is none).
func (s *Source) labFiles() (names []string, vars string) {
	for name := range s.Files {
		if filepath.Base(name) == VarsFile {
			vars = name
		} else {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, vars
}

// readRegular refuses devices and pipes, which would block or never end.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() > maxFileSize {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxFileSize>>20)
	}
	return os.ReadFile(path)
}

// Vars are the values that a caller gives to a lab's variables.
type Vars struct {
	Files  []string // --var-file, weakest first
	Values []string // --var, raw: "name=value"
	Env    []string // as os.Environ; HCL_VAR_name=value, and what env() reads
}

// Lookup returns a variable of the environment.
func (v Vars) Lookup(name string) (string, bool) {
	for _, kv := range slices.Backward(v.Env) {
		if k, value, ok := strings.Cut(kv, "="); ok && k == name {
			return value, true
		}
	}
	return "", false
}

// AtHome expands a leading ~ to the caller's home directory.
func (v Vars) AtHome(path string) string {
	home, known := v.Lookup("HOME")
	if !known {
		home, _ = os.UserHomeDir()
	}
	if home == "" || path != "~" && !strings.HasPrefix(path, "~/") {
		return path
	}
	return filepath.Join(home, path[1:])
}
