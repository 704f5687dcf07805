package page

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hclbench/report/draw"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/report/table"
	"hclbench/results"
)

// Every chart is a file that others can read: SVG that is XML with nothing of the
// page in it, a picture with something on it, and data.
func TestFiles(t *testing.T) {
	rows := reporttest.Measured()
	about := aboutMeasured(rows)
	dir := t.TempDir()
	vectors, err := draw.SVG(dir, rows, about)
	pixels, failed := draw.PNG(dir, rows, about)
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	if *reporttest.Pictures != "" {
		if _, err := draw.PNG(*reporttest.Pictures, rows, about); err != nil {
			t.Fatal(err)
		}
	}
	if len(vectors.Names) != len(pixels.Names) || len(vectors.Names) < 20 {
		t.Errorf("%d files with SVG, %d with PNG", len(vectors.Names), len(pixels.Names))
	}
	if pixels.Boxes != "" {
		t.Errorf("the font lacks %q", pixels.Boxes)
	}
	for _, want := range []string{"online-latency.svg", "online-latency.csv", "online-concurrency-output-throughput.svg", "online-pareto.svg",
		"distributions-time-to-first-token-share-of-requests-within.svg", "time-line-h200-vllm-kv-cache-in-use.svg"} {
		if !slices.Contains(vectors.Names, want) {
			t.Errorf("no %s among %q", want, vectors.Names)
		}
	}
	for _, name := range slices.Concat(vectors.Names, pixels.Names) {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		switch filepath.Ext(name) {
		case ".svg":
			b, err := io.ReadAll(f)
			if err != nil {
				t.Fatal(err)
			}
			if text := string(b); strings.Contains(text, "var(") || strings.Contains(text, "NaN") ||
				strings.Contains(text, `fill="#ffffff"`) == strings.Contains(name, "-dark") {
				t.Errorf("%s is not a file of its own:\n%s", name, text)
			}
			for d := xml.NewDecoder(strings.NewReader(string(b))); ; {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Errorf("%s: %v", name, err)
					break
				}
			}
		case ".csv":
			if lines, err := csv.NewReader(f).ReadAll(); err != nil || len(lines) < 2 {
				t.Errorf("%s has %d lines, %v", name, len(lines), err)
			}
		case ".png":
			img, err := png.Decode(f)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			seen := map[any]bool{}
			b := img.Bounds()
			for y := b.Min.Y; y < b.Max.Y; y += 3 {
				for x := b.Min.X; x < b.Max.X; x += 3 {
					seen[img.At(x, y)] = true
				}
			}
			if len(seen) < 20 {
				t.Errorf("%s has %d colours", name, len(seen))
			}
		}
	}

	// What is there already is replaced, and a link is not followed.
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	link := filepath.Join(dir, "online-latency.svg")
	if err := errors.Join(os.WriteFile(elsewhere, []byte("mine"), 0o644), os.Remove(link),
		os.Symlink(elsewhere, link)); err != nil {
		t.Fatal(err)
	}
	if _, err := draw.SVG(dir, rows, about); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(elsewhere); err != nil || string(b) != "mine" {
		t.Errorf("the link's target is %q, %v", b, err)
	}
}

// TestNames: no name of a benchmark takes the place of another's, of the page's own, or of a file.
func TestNames(t *testing.T) {
	var rows []results.Row
	for _, name := range []string{"cells", "rest", "filter", "count", "more", "theme", "tip", "summary", "a_b", "a-b",
		"A B", "日本", "中国", "charts", "across"} {
		for _, c := range []int64{1, 4} {
			r := reporttest.Row("vllm.h200", c, 100, 20)
			r.Benchmark = name
			rows = append(rows, r)
		}
	}
	dir := t.TempDir()
	made, err := draw.SVG(dir, rows, figure.About{})
	if err != nil {
		t.Fatal(err)
	}
	names := made.Names
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(names) {
		t.Errorf("%d files of %d names, %v", len(entries), len(names), err)
	}
	for _, want := range []string{"a-b-latency.svg", "a-b-latency-2.svg", "a-b-latency-3.svg", "x-latency.svg", "x-latency-2.svg"} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no %s", want)
		}
	}
	page := reporttest.Written(t, func(w io.Writer) error { return HTML(w, rows, figure.About{}) })
	seen := map[string]bool{}
	for _, part := range strings.Split(page, ` id="`)[1:] {
		id, _, _ := strings.Cut(part, `"`)
		if seen[id] {
			t.Errorf("the page has two elements %q", id)
		}
		seen[id] = true
	}
}

func TestLayoutTables(t *testing.T) {
	rows := reporttest.Matrix()
	for i := range rows {
		rows[i].Deployment.PricePerHour = 20
	}
	l := figure.Layout{Title: "A_title", Description: "What.", Headline: "SGLang_wins.", Notes: []string{"First."},
		Columns: []string{"p99_ttft_ms", "output_throughput", "usd_per_million_output_tokens"}}
	for _, prices := range []bool{true, false} {
		l.NoPrices = !prices
		shown, about := l.Apply(rows, figure.About{Spending: []figure.Spending{{}}})
		reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return table.Markdown(w, shown, about) }), "## A\\_title\n\nWhat.\n\nFirst.\n\n",
			"\nSGLang\\_wins.\n\nH200 · SGLang has",
			"| engine | concurrency | TTFT s p99 | tok/s output | USD per million output |")
		reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return HTML(w, shown, about) }), ">SGLang_wins.</h1>")
		if (about.Spending != nil) != prices {
			t.Errorf("spending %v, prices %v", about.Spending, prices)
		}
		if _, ok := figure.CostOutput.Value(&shown[0]); ok != prices {
			t.Errorf("a price is known: %v, prices %v", ok, prices)
		}
	}
	if rows[0].Deployment.PricePerHour != 20 {
		t.Error("the caller's rows have lost their price")
	}
}
