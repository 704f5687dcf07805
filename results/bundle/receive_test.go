package bundle

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"hclbench/load"
	"hclbench/results"
	"hclbench/testhost"
)

// packed is a file of a bundle.
type packed struct {
	header  tar.Header
	content []byte
}

func unpackBundle(t *testing.T, b []byte) (files []packed) {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(b))
	check(t, err)
	defer z.Close()
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if err == io.EOF {
			return files
		}
		check(t, err)
		content, err := io.ReadAll(in)
		check(t, err)
		files = append(files, packed{*h, content})
	}
}

func packBundle(t *testing.T, files []packed) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	check(t, err)
	out := tar.NewWriter(z)
	for _, f := range files {
		h := f.header
		h.Size = int64(len(f.content))
		check(t, out.WriteHeader(&h))
		_, err := out.Write(f.content)
		check(t, err)
	}
	check(t, out.Close())
	check(t, z.Close())
	return b.Bytes()
}

// zstdOf is a text, compressed.
func zstdOf(t *testing.T, text string) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	check(t, err)
	return z.EncodeAll([]byte(text), nil)
}

// edits are what can be done to a good bundle.
type edits struct {
	*testing.T
	files []packed
}

// file is a file of the bundle.
func (e *edits) file(name string) *packed {
	e.Helper()
	for i := range e.files {
		if e.files[i].header.Name == name {
			return &e.files[i]
		}
	}
	e.Fatalf("the bundle has no %s", name)
	return nil
}

func (e *edits) add(name string, content []byte) {
	e.files = append(e.files, packed{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content})
}

// index changes bundle.json, whose things are maps and lists of the JSON.
func (e *edits) index(change func(index map[string]any)) {
	e.Helper()
	f := e.file(indexName)
	var index map[string]any
	d := json.NewDecoder(bytes.NewReader(f.content))
	d.UseNumber()
	check(e.T, d.Decode(&index))
	change(index)
	var text bytes.Buffer
	// The version and the run go first.
	write := func(key string) {
		b, err := json.Marshal(index[key])
		check(e.T, err)
		fmt.Fprintf(&text, "%s%q:%s", map[bool]string{true: "{", false: ","}[text.Len() == 0], key, b)
		delete(index, key)
	}
	write("bundle_version")
	write("run")
	for key := range index {
		write(key)
	}
	f.content = append(text.Bytes(), '}')
}

// set sets a member of bundle.json, by its path: "cells.1.summary.duration_s".
func (e *edits) set(path string, value any) {
	e.Helper()
	e.index(func(index map[string]any) {
		var at any = index
		steps := strings.Split(path, ".")
		for i, step := range steps {
			switch x := at.(type) {
			case map[string]any:
				if i == len(steps)-1 {
					x[step] = value
					return
				}
				at = x[step]
			case []any:
				at = x[step[0]-'0']
			default:
				e.Fatalf("%s: there is no %s", path, step)
			}
		}
	})
}

// cell is where the cell with records stands in bundle.json.
const cell = "cells.1."

// records stand for the file of the records of that cell.
const recordsOfCell = recordsDir + bundledCell + results.RecordsSuffix

// TestHostileBundle: whatever is changed in a good bundle, what cannot be is refused
// with a reason, nothing of it is kept, and the good copy that was there stays.
func TestHostileBundle(t *testing.T) {
	_, good := bundled(t, t.TempDir())
	stores := []*results.Store{open(t, t.TempDir()), open(t, t.TempDir())}
	_, err := importInto(t.Context(), stores[1], bytes.NewReader(good))
	check(t, err)
	escape := "\x1b]0;owned\a"
	for name, c := range map[string]struct {
		edit func(e *edits)
		want string
	}{
		"run id with a path":        {func(e *edits) { e.set("run.id", "../20261121-120000-k3f9") }, "is not the id of a run"},
		"run id of another form":    {func(e *edits) { e.set("run.id", "20261121-120000-k3f9\n") }, "is not the id of a run"},
		"no run":                    {func(e *edits) { e.index(func(x map[string]any) { delete(x, "run") }) }, "is not the id of a run"},
		"command":                   {func(e *edits) { e.set("run.command", "measured") }, "command"},
		"outcome of an import":      {func(e *edits) { e.set("run.outcome", results.Importing) }, "not whole"},
		"lab of 5 KB":               {func(e *edits) { e.set("run.lab", strings.Repeat("x", 5000)) }, "a name has 5000 bytes"},
		"time before time":          {func(e *edits) { e.set("run.started", "0000-01-01T00:00:00Z") }, "in the year 0"},
		"time after time":           {func(e *edits) { e.set(cell+"finished", "9999-12-31T23:59:59-23:00") }, "in the year 10000"},
		"no time":                   {func(e *edits) { e.set("run.started", "noon") }, "noon"},
		"version":                   {func(e *edits) { e.set("bundle_version", 2) }, "version 2 of the format"},
		"no version":                {func(e *edits) { e.set("bundle_version", nil) }, "version 0 of the format"},
		"deployment id":             {func(e *edits) { e.set("deployments.0.id", "../../d1") }, "is not the id of a deployment"},
		"deployment of another run": {func(e *edits) { e.set("deployments.0.run_id", "20261121-120000-aaaa") }, "it is of run"},
		"deployment twice":          {twice("deployments"), "twice"},
		"GPUs":                      {func(e *edits) { e.set("deployments.0.gpu_count", -8) }, "number of GPUs"},
		"more GPUs than there are":  {func(e *edits) { e.set("deployments.0.gpu_count", 1<<40) }, "GPUs"},
		"price":                     {func(e *edits) { e.set("deployments.0.price_per_hour", -1) }, "price"},
		"cell id":                   {func(e *edits) { e.set(cell+"id", "x/y") }, "is not the id of a cell"},
		"cell of another run":       {func(e *edits) { e.set(cell+"run_id", "20261121-120000-aaaa") }, "it is of run"},
		"cell of no deployment":     {func(e *edits) { e.set(cell+"deployment_id", "d'1") }, "is not the id of a deployment"},
		"cell twice":                {twice("cells"), "twice"},
		"repetition":                {func(e *edits) { e.set(cell+"repetition", 1<<40) }, "repetition"},
		"verdict with script":       {func(e *edits) { e.set(cell+"summary.verdict.verdict", `x"><script>alert(1)</script>`) }, "verdict"},
		"verdict of none":           {func(e *edits) { e.set(cell+"summary.verdict.verdict", "") }, "verdict"},
		"verdict of a part": {func(e *edits) {
			e.set(cell+"summary.steady", map[string]any{"verdict": map[string]any{"verdict": "good"}})
		}, "verdict"},
		"level":                     {func(e *edits) { e.set("events.0.level", "<b>") }, "level"},
		"origin":                    {func(e *edits) { e.set(cell+"origin.format", "<b>") }, "origin"},
		"origin that is no object":  {func(e *edits) { e.set(cell+"origin.fields", []int{1}) }, "origin"},
		"duration":                  {func(e *edits) { e.set(cell+"summary.duration_s", -1) }, "duration"},
		"completed":                 {func(e *edits) { e.set(cell+"summary.completed", -1) }, "number of requests"},
		"completed as text":         {func(e *edits) { e.set(cell+"summary.completed", "many") }, "completed"},
		"latency":                   {func(e *edits) { e.set(cell+"summary.ttft_ms.mean", -1) }, "latency"},
		"latency beyond numbers":    {func(e *edits) { e.set(cell+"summary.ttft_ms.mean", json.Number("1e999")) }, "ttft_ms"},
		"percentile":                {func(e *edits) { e.set(cell+"summary.ttft_ms.percentiles", map[string]int{"ninety": 1}) }, "is no percentile"},
		"series of two lengths":     {func(e *edits) { e.set(cell+"summary.series", map[string]any{"every": "1s", "in_flight": []int{1}}) }, "lists over time"},
		"telemetry of two lengths":  {func(e *edits) { e.set(cell+"telemetry.series.0.value", []int{1}) }, "2 times and 1 values"},
		"axis that is a list":       {func(e *edits) { e.set(cell+"axes", map[string]any{"x": []int{1}}) }, "axis x"},
		"recorded that is no cell":  {func(e *edits) { e.set("recorded", []string{"0123456789ff"}) }, "are missing"},
		"recorded twice":            {func(e *edits) { e.set("recorded", []string{bundledCell, bundledCell}) }, "it says of"},
		"recorded without records":  {func(e *edits) { e.set("recorded", []string{bundledCell, bundledVoid}) }, "are missing"},
		"records that are not told": {func(e *edits) { e.set("recorded", nil) }, "there are records of"},
		"records that are empty":    {func(e *edits) { e.file(recordsOfCell).content = nil }, "no record"},
		"records cut off":           {func(e *edits) { f := e.file(recordsOfCell); f.content = f.content[:len(f.content)/2] }, recordsOfCell},
		"records of something else": {func(e *edits) { e.file(recordsOfCell).content = zstdOf(t, "[1]") }, recordsOfCell},
		"records of times past":     {func(e *edits) { e.file(recordsOfCell).content = zstdOf(t, `{"sent":-5}`) }, "request 0: its time cannot be"},
		"events that are an object": {func(e *edits) { e.set("events", map[string]int{}) }, "in place of a list"},
		"index cut off":             {func(e *edits) { f := e.file(indexName); f.content = f.content[:len(f.content)-9] }, indexName},
		"index with text behind it": {func(e *edits) { f := e.file(indexName); f.content = append(f.content, "{}"...) }, "more behind its end"},
		"index of something else":   {func(e *edits) { e.file(indexName).content = []byte("[]") }, "in place of {"},
		"index with a member twice": {func(e *edits) {
			f := e.file(indexName)
			f.content = append([]byte(`{"bundle_version":1,`), f.content[1:]...)
		}, "twice"},
		"no index":                 {func(e *edits) { e.files = e.files[1:] }, "there is no bundle.json"},
		"ledger of something else": {func(e *edits) { e.add("inputs/tune/x.json", []byte("[]")) }, "inputs/tune/x.json"},
		"ledger with a fate":       {func(e *edits) { e.add("inputs/tune/x.json", []byte(`{"summary":{"candidates":[{"fate":"<b>"}]}}`)) }, "fate"},
		"ledger with a phase":      {func(e *edits) { e.add("inputs/tune/x.json", []byte(`{"starts":[{"phase":"lunch"}]}`)) }, "phase"},
		"winner that nobody knows": {func(e *edits) {
			e.add("inputs/tune/x.json", []byte(`{"summary":{"floor":0.1,"winner":{"options":["a"]}}}`))
		}, "has a ahead"},
		"two indexes": {func(e *edits) { e.files = append(e.files, e.files[0]) }, "twice"},
		"upwards":     {func(e *edits) { e.add("inputs/../../x", nil) }, "is not the name of a plain file"},
		"name":        {func(e *edits) { e.add("inputs/lab/"+escape, nil) }, "is not the name of a plain file"},
		"link": {func(e *edits) {
			e.files = append(e.files, packed{tar.Header{Typeflag: tar.TypeSymlink, Name: "inputs/x", Linkname: "/etc/passwd"}, nil})
		}, "is not the name of a plain file"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			e := &edits{t, unpackBundle(t, good)}
			c.edit(e)
			for _, s := range stores {
				refused(t, s, packBundle(t, e.files), c.want)
			}
		})
	}
}

// twice has a list of bundle.json begin with its first thing twice.
func twice(list string) func(*edits) {
	return func(e *edits) {
		e.index(func(x map[string]any) { x[list] = append([]any{x[list].([]any)[0]}, x[list].([]any)...) })
	}
}

// refused holds that a bundle is refused with a reason, and that the store is
// afterwards as it was, whether it has a good copy of the bundle or not.
func refused(t *testing.T, s *results.Store, bad []byte, want string) {
	t.Helper()
	before := holds(t, s)
	_, err := importInto(t.Context(), s, bytes.NewReader(bad))
	if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\x1b\a") {
		t.Errorf("it was let in: %q, want %q", err, want)
	}
	if diff := cmp.Diff(before, holds(t, s)); diff != "" {
		t.Errorf("the store was changed (-want +got):\n%s", diff)
	}
}

// holds is all that a folder's store has, in its database and beside it.
func holds(t *testing.T, s *results.Store) (all []any) {
	t.Helper()
	runs, err := s.Runs(t.Context())
	check(t, err)
	for _, r := range runs {
		all = append(all, everything(t, s, r.ID))
	}
	check(t, filepath.WalkDir(s.Path(), func(path string, e os.DirEntry, err error) error {
		all = append(all, path)
		return err
	}))
	return all
}

// TestBundleOfOthers: what is harmless is let in, with its texts made printable.
func TestBundleOfOthers(t *testing.T) {
	_, good := bundled(t, t.TempDir())
	const escape = "\x1b]52;c;cm0gLXJm\a\x1b[2J"
	e := &edits{t, unpackBundle(t, good)}
	e.set("run.lab", "quick"+escape+"start")
	e.set("deployments.0.model", escape+"deepseek-ai/DeepSeek-R1")
	e.set("deployments.0.command", []string{"vllm", escape + "serve", "it's"})
	e.set("deployments.0.facts", map[string]string{escape + "os": "li\u202enux" + escape})
	e.set(cell+"summary.error_samples", []string{"no byte" + escape + " for 5m"})
	e.set(cell+"summary.errors", map[string]int{load.ClassStall + escape: 1})
	e.set("cells.0.error", "the engine"+escape+" died")
	e.set("events.0.message", "gpu"+escape+" throttled")
	e.set("added_later", map[string]any{"x": []int{1}})
	e.file("logs/vllm.h200-1.log").content = []byte(escape + "loading\n")
	e.file(recordsOfCell).content = zstdOf(t, `{"seq":0,"error":"\u001b]0;x\u0007busy","class":"status"}`)
	// Packed again by hand: folders, another order, other names of the same.
	for i := range e.files {
		e.files[i].header.Name = "./" + e.files[i].header.Name
	}
	e.files = append(e.files[1:], e.files[0], packed{tar.Header{Typeflag: tar.TypeDir, Name: "./records/", Mode: 0o755}, nil})

	for name, place := range map[string]string{"folder": t.TempDir(), "postgres": testhost.Database(t)} {
		t.Run(name, func(t *testing.T) {
			s := open(t, place)
			_, err := importInto(t.Context(), s, bytes.NewReader(packBundle(t, e.files)))
			check(t, err)
			text := fmt.Sprintf("%q", everything(t, s, bundledRun))
			for _, bad := range []string{`\x1b`, `\u001b`, `\u202e`, `\a`, "52;c"} {
				if strings.Contains(text, bad) {
					t.Errorf("the store has %s:\n%s", bad, text)
				}
			}
			for _, want := range []string{"quickstart", "the engine died", "gpu throttled", "no byte for 5m", "busy", "loading"} {
				if !strings.Contains(text, want) {
					t.Errorf("the store lacks %q:\n%s", want, text)
				}
			}
		})
	}
}

// TestBundleBounds: a small file that unpacks to much is refused before it takes the
// memory.
func TestBundleBounds(t *testing.T) {
	_, good := bundled(t, t.TempDir())
	const mib = 1 << 20
	for name, c := range map[string]struct {
		edit   func(e *edits)
		limits func(*limits)
	}{
		"records of nothing": {func(e *edits) { e.file(recordsOfCell).content = zstdOf(t, strings.Repeat("{}\n", 8*mib)) }, func(l *limits) { l.records = mib }},
		"one long record": {func(e *edits) {
			e.file(recordsOfCell).content = zstdOf(t, `{"error":"`+strings.Repeat("x", 20*mib)+`"}`)
		}, func(l *limits) { l.element = mib }},
		"recorded without end":  {func(e *edits) { e.raw("recorded", "["+strings.Repeat(`"",`, 8*mib)+`""]`) }, func(l *limits) {}},
		"cells without end":     {func(e *edits) { e.raw("cells", "["+strings.Repeat(`{},`, 8*mib)+`{}]`) }, func(l *limits) {}},
		"events without end":    {func(e *edits) { e.raw("events", "["+strings.Repeat(event+",", mib/4)+event+"]") }, func(l *limits) { l.things = 1000 }},
		"one long cell":         {func(e *edits) { e.raw("cells", `[{"error":"`+strings.Repeat("x", 20*mib)+`"}]`) }, func(l *limits) { l.element = mib }},
		"a long unknown member": {func(e *edits) { e.raw("more", `"`+strings.Repeat("x", 20*mib)+`"`) }, func(l *limits) { l.element = mib }},
		"a long index":          {func(e *edits) { e.file(indexName).content = bytes.Repeat([]byte(" "), 20*mib) }, func(l *limits) { l.index = mib }},
		"a long input":          {func(e *edits) { e.add("inputs/x", make([]byte, 20*mib)) }, func(l *limits) { l.file = mib }},
		"much for people":       {func(e *edits) { e.add("report.html", make([]byte, 20*mib)) }, func(l *limits) { l.total = mib }},
		"many files": {func(e *edits) {
			for i := range 20 {
				e.add(fmt.Sprint("x", i), nil)
			}
		}, func(l *limits) { l.things = 10 }},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			e := &edits{t, unpackBundle(t, good)}
			c.edit(e)
			bad := packBundle(t, e.files)
			s := open(t, t.TempDir())
			before := holds(t, s)
			l := farAbove()
			c.limits(&l)
			e.files = nil
			runtime.GC()
			var at, then runtime.MemStats
			runtime.ReadMemStats(&at)
			if in, err := receive(t.Context(), bytes.NewReader(bad), s, l); err == nil {
				t.Errorf("it was let in: %+v", in.run)
			}
			runtime.ReadMemStats(&then)
			// What was ever allocated is more than what was needed at once.
			if took := then.TotalAlloc - at.TotalAlloc; took > 48*mib {
				t.Errorf("refusing %d bytes took %d MiB", len(bad), took>>20)
			}
			if diff := cmp.Diff(before, holds(t, s)); diff != "" {
				t.Errorf("the store was changed (-want +got):\n%s", diff)
			}
		})
	}
}

// event is the smallest that is one.
const event = `{"time":"2026-11-21T12:00:00Z","level":"info","message":""}`

// raw sets a member of bundle.json as text, in place of one of that name.
func (e *edits) raw(key, value string) {
	e.Helper()
	e.index(func(x map[string]any) { delete(x, key) })
	f := e.file(indexName)
	f.content = fmt.Appendf(bytes.TrimSuffix(f.content, []byte("}")), ",%q:%s}", key, value)
}
