package hcl

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"hclbench/hcl/lang"
)

// seed adds the texts of files, and the labs of archives.
func seed(f *testing.F, patterns ...string) {
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			if filepath.Ext(name) != ".txtar" {
				f.Add(text)
			}
			for _, file := range txtar.Parse(text).Files { // of another text: none
				if filepath.Ext(file.Name) == ".hcl" {
					f.Add(file.Data)
				}
			}
		}
	}
}

// FuzzLoad holds Load to its promises on any text: it does not panic, a Config
// comes if and only if there is no error, and every problem points into a file.
func FuzzLoad(f *testing.F) {
	seed(f, "../examples/*/[a-z]*.hcl", "../testdata/labs/*.txtar")
	for _, s := range []string{
		"", "\xff", "a = 0..0", "locals {", `locals { a = "${`, "host \"h\" {\n  address = <<E\nx\nE\n}\n",
		`variable "x" { validation { condition = var.x } }`,
		`engine "vllm" "a" { inherits = engine.vllm.a }`,
		`benchmark "b" { matrix { a = range(0, 1e300, 1) } }`,
		"locals { a = format(\"%099999d\", 1) }",
		"locals { a = setproduct(range(1000), range(1000), range(1000)) }",
		"locals { a = [for x in range(3): host[x]] }",
		"host \"h\" {\n  for_each = [1, \"a\"]\n  address = each.value\n  jump = host.h[each.key]\n}\nengine \"sim\" \"e\" {\n  for_each = host.h\n  host = each.value\n}",
		"benchmark \"b\" {\n  zip {\n    a = [1, 2]\n    b = matrix.a\n  }\n  matrix {\n    zip { c = [matrix.a] }\n  }\n  include { a = 1 }\n  reference \"r\" { rows = [{ a = 1 }] }\n}",
		"variable\"A\"{\ntype=strin( $0",
		"locals { a = matrix }\nlocals { b = engine }\nlocals { c = engine.vllm[*].x }",
	} {
		f.Add([]byte(s))
	}
	for _, s := range []string{
		"host = host.p\n  service = \"a:80\"", "host = host.m\n  files = [\"web.yaml\"]\n  service = \"a:80\"",
		"host = host.p\n  files = [\"web.yaml\"]\n  values = { x = sensitive(\"y\") }\n  service = \"a:80\"",
	} {
		f.Add([]byte(strings.Replace(operatedFrom, "%s", s, 1)))
	}
	files := map[string]string{
		"web.yaml":   "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n",
		"rows.csv":   "engine,concurrency,ttft\nsim.a,1,2\n",
		"lab.txt":    "${x}",
		"model.yaml": "kind: ${x}\n",
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		src := &lang.Source{Dir: dir, Files: map[string][]byte{"lab.hcl": text}, Open: func(path string) ([]byte, error) {
			if text, ok := files[filepath.Base(path)]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}}
		c, p := Load(src, lang.Vars{})
		if (c == nil) != p.HasErrors() {
			t.Errorf("Config is nil: %v; errors: %v", c == nil, p.HasErrors())
		}
		lines := bytes.Count(text, []byte("\n")) + 1
		for _, x := range p.List() {
			if files[filepath.Base(x.File)] != "" {
				continue
			}
			if x.File != "lab.hcl" || x.Start.Byte < 0 || x.Start.Byte > x.End.Byte || x.End.Byte > len(text) ||
				x.Start.Line < 1 || x.End.Line > lines {
				t.Errorf("problem points outside of the file (%d bytes, %d lines): %+v", len(text), lines, x)
			}
			if strings.TrimSpace(x.Summary) == "" || strings.TrimSpace(x.Detail) == "" {
				t.Errorf("problem says nothing: %+v", x)
			}
		}
		if err := p.Write(io.Discard, 80, true); err != nil {
			t.Error(err)
		}
	})
}
