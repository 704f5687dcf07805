package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"hclbench/hcl/lang"
)

type fmtOptions struct{ check, diff, recursive bool }

func fmtVerb(t *console) *cobra.Command {
	var o fmtOptions
	c := verb("fmt", nil, func(_ context.Context, args []string) error { return runFmt(t, o, args) })
	c.Flags().BoolVar(&o.check, "check", false, "write nothing; exit with 3 when something would change")
	c.Flags().BoolVar(&o.diff, "diff", false, "show what changes")
	c.Flags().BoolVarP(&o.recursive, "recursive", "r", false, "also directories below")
	return c
}

func runFmt(t *console, o fmtOptions, paths []string) error {
	files, err := formattable(paths, o.recursive)
	if err != nil {
		return err
	}
	changed, code := false, exitDone
	for _, name := range files {
		differs, err := o.format(t, name)
		changed = changed || differs
		e := new(exit)
		switch {
		case errors.As(err, &e):
			code = e.code // it has been printed
		case err != nil:
			fmt.Fprintf(t.stderr, "%s %v\n", t.red("Error:"), err)
			code = max(code, exitFailed)
		}
	}
	if code == exitDone && o.check && changed {
		code = exitCells
	}
	if code != exitDone {
		return &exit{code: code}
	}
	return nil
}

// formattable lists the files that paths mean, each once.
func formattable(paths []string, recursive bool) ([]string, error) {
	switch {
	case len(paths) == 0:
		paths = []string{"."}
	case len(paths) > 1 && slices.Contains(paths, "-"):
		return nil, usage("- is standard input, and stands alone")
	case paths[0] == "-":
		return paths, nil
	}
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, &exit{exitUsage, err}
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			hidden := strings.HasPrefix(e.Name(), ".") && name != path
			if e.IsDir() {
				if name != path && (hidden || !recursive) {
					return fs.SkipDir
				}
				return nil
			}
			if ext := filepath.Ext(name); !hidden && e.Type().IsRegular() && (ext == ".hcl" || ext == ".hclvars") {
				files = append(files, name)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for files: %w", err)
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(files, func(name string) bool {
		clean := filepath.Clean(name)
		defer func() { seen[clean] = true }()
		return seen[clean]
	}), nil
}

// format brings one text into canonical form, and reports whether that differs. The text
// of standard input is printed, a file's is written to it.
func (o fmtOptions) format(t *console, name string) (differs bool, err error) {
	stdin := name == "-"
	read := func() ([]byte, error) { return os.ReadFile(name) }
	if stdin {
		name, read = "<stdin>", func() ([]byte, error) { return io.ReadAll(t.in) }
	}
	text, err := read()
	if err != nil {
		return false, err
	}
	out, problems := lang.Format(name, text)
	if err := problems.Write(t.stderr, t.width(100), t.colours()); err != nil {
		return false, err
	}
	if problems.HasErrors() {
		return false, &exit{code: exitUsage}
	}
	differs = !bytes.Equal(text, out)
	print := []byte(name + "\n")
	switch {
	case o.diff:
		print = diff.Diff(name, text, name, out)
	case stdin && o.check:
		print = nil
	case stdin:
		print = out
	}
	if differs || stdin {
		_, err = t.stdout.Write(print)
	}
	if differs && !o.check && !stdin {
		err = errors.Join(err, rewrite(name, out))
	}
	return differs, err
}

// rewrite replaces a file whole or not at all; a link stays one.
func rewrite(name string, text []byte) error {
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	return writeWhole(target, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
