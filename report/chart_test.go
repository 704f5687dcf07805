package report

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

	"hclbench/load"
	"hclbench/report/number"
	"hclbench/results"
)

// Every chart is a file that others can read: SVG that is XML with nothing of the
// page in it, a picture with something on it, and data.
func TestFiles(t *testing.T) {
	rows := measured()
	about := aboutMeasured(rows)
	dir := t.TempDir()
	vectors, err := SVG(dir, rows, about)
	pixels, failed := PNG(dir, rows, about)
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	if *pictures != "" {
		if _, err := PNG(*pictures, rows, about); err != nil {
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
	if _, err := SVG(dir, rows, about); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(elsewhere); err != nil || string(b) != "mine" {
		t.Errorf("the link's target is %q, %v", b, err)
	}
}

// A series has one colour and one marker in all charts, whichever of them it is in.
func TestSeries(t *testing.T) {
	rows := dstack(t)
	labels := func(all *seriesOf) (labels []string) {
		for i, s := range all.all {
			if s.Index != i {
				t.Errorf("%s has the index %d at %d", s.Label, s.Index, i)
			}
			labels = append(labels, s.Label)
		}
		return labels
	}
	want := []string{"MI300X · vLLM", "MI300X · SGLang", "H200 · SGLang", "H200 · vLLM", "H200 · TensorRT-LLM"}
	check(t, "series", want, labels(newSeries(rows, nil)))

	// What differs is in the name: the number of GPUs, an axis of the engine, the
	// engine's own name where several are of a kind.
	rows = matrix()
	for i := range rows {
		rows[i].Deployment.GPUs = []string{"4xH200", "8xH200"}[i/3]
		rows[i].Axes = append(rows[i].Axes, results.Axis{Name: "attention", Value: []string{"flash", "mla"}[i/5]})
		rows[i].Deployment.Kind = "vllm"
	}
	rows[4].Deployment.Engine = "vllm.tuned"
	want = []string{"4×H200 · vLLM, attention flash", "8×H200 · vLLM h200, attention flash",
		"8×H200 · vLLM tuned, attention flash", "8×H200 · vLLM h200, attention mla"}
	check(t, "series", want, labels(newSeries(rows, nil)))

	// In a rehearsal the simulated engine stands in for each; the first are sglang.h200.
	want[0] = "4×H200 · SGLang, attention flash"
	for i := range rows {
		rows[i].Deployment.Kind = "sim"
	}
	check(t, "labels of a rehearsal", want, labels(newSeries(rows, nil)))
}

// A reason against all cells sets none of them apart.
func TestSharedReasons(t *testing.T) {
	rows := matrix()
	for i := range rows {
		rows[i].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("it was published")}
	}
	rows[1].Summary.Verdict.Reasons = append(rows[1].Summary.Verdict.Reasons, load.Because("percentiles are out of order")...)
	rows[2].Summary.Verdict = load.Verdict{Verdict: load.Void, Reasons: load.Because("all requests failed")}
	check(t, "shared", []string{"it was published"}, sharedReasons(rows))
	doubts := func() (n int) {
		for _, s := range samples(rows, newSeries(rows, nil)) {
			if d, _ := s.value(outputThroughput); d.Doubt {
				n++
			}
		}
		return n
	}
	if n := doubts(); n != 1 {
		t.Errorf("%d cells are in doubt for reasons of their own, want 1", n)
	}
	rows[0].Summary.Verdict = load.Verdict{Verdict: load.Valid}
	if n := doubts(); n != 4 {
		t.Errorf("beside a valid cell %d are in doubt, want 4", n)
	}
}

// TestBoxes: it is said which letters a PNG does not show.
func TestBoxes(t *testing.T) {
	about := About{Layout: Layout{Automatic: []string{},
		Charts: []Chart{{Title: "Ждать ≥ 待つ待", X: "concurrency", Y: []string{"output_throughput"}}}}}
	made, err := PNG(t.TempDir(), matrix(), about)
	if err != nil || made.Boxes != "待つ" || len(made.Names) != 3 {
		t.Errorf("%q are boxes in %q, %v", made.Boxes, made.Names, err)
	}
}

// TestNames: no name of a benchmark takes the place of another's, of the page's own, or of a file.
func TestNames(t *testing.T) {
	var rows []results.Row
	for _, name := range []string{"cells", "rest", "filter", "count", "more", "theme", "tip", "summary", "a_b", "a-b",
		"A B", "日本", "中国", "charts", "across"} {
		for _, c := range []int64{1, 4} {
			r := row("vllm.h200", c, 100, 20)
			r.Benchmark = name
			rows = append(rows, r)
		}
	}
	dir := t.TempDir()
	made, err := SVG(dir, rows, About{})
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
	page := written(t, func(w io.Writer) error { return HTML(w, rows, About{}) })
	seen := map[string]bool{}
	for _, part := range strings.Split(page, ` id="`)[1:] {
		id, _, _ := strings.Cut(part, `"`)
		if seen[id] {
			t.Errorf("the page has two elements %q", id)
		}
		seen[id] = true
	}
}

// drawn are the charts that a layout asks for of the dstack study, each as its
// title, what is under it, and its lines or groups; then why others are missing.
func drawn(t *testing.T, l Layout) (charts, missing []string) {
	t.Helper()
	rows := dstack(t)
	l.Automatic = []string{}
	sections := sections(rows, newSeries(rows, l.Series), About{Layout: l})
	if len(sections) != 1 {
		t.Fatalf("%d sections, want the lab's own alone", len(sections))
	}
	for _, f := range sections[0].Figures {
		for _, c := range f.Charts {
			var of []string
			for _, x := range c.Lines {
				of = append(of, x.Series.Label)
			}
			for _, g := range c.Groups {
				labels := []string{}
				for _, b := range g.Bars {
					labels = append(labels, b.Label)
				}
				of = append(of, g.Label+": "+strings.Join(labels, " "))
			}
			charts = append(charts, strings.Join([]string{f.ID, c.Title, f.Under, strings.Join(of, "; ")}, " | "))
		}
	}
	return charts, sections[0].Left
}

func TestLayoutCharts(t *testing.T) {
	charts, missing := drawn(t, Layout{Charts: []Chart{
		{Title: "Waiting", X: "concurrency", Y: []string{"median_ttft_ms", "p99_tpot_ms"},
			Where: "benchmark = '*online*' and output_tokens = 800 and dataset = 'random' and kind != 'vllm'"},
		{Title: "Throughput against latency", X: "median_e2el_ms", Y: []string{"output_throughput"},
			Where: "output_tokens = 800 and gpus = '*H200*' and dataset = random"},
		{Title: "By kind", X: "kind", Y: []string{"output_throughput"},
			Where: "concurrency = 128 and output_tokens = 800 and dataset = random and gpus = '*H200*'"},
		{Title: "Money", X: "concurrency", Y: []string{"usd_per_million_output_tokens"}},
		{Title: "Nothing", X: "rate", Y: []string{"output_throughput"}},
		{Title: "Nobody", X: "rate", Y: []string{"output_throughput"}, Where: "kind = 'none'"},
	}})
	check(t, "charts", []string{
		"chart-1-waiting | Median time to first token | 3,200 tokens in, 800 tokens out, random | " +
			"MI300X · SGLang; H200 · SGLang; H200 · TensorRT-LLM",
		"chart-1-waiting | P99 time per output token | 3,200 tokens in, 800 tokens out, random | " +
			"MI300X · SGLang; H200 · SGLang; H200 · TensorRT-LLM",
		"chart-2-throughput-against-latency | Output throughput | 3,200 tokens in, 800 tokens out, random | " +
			"H200 · SGLang; H200 · vLLM; H200 · TensorRT-LLM",
		"chart-3-by-kind | Output throughput |  | dataset random, concurrency 128, input tokens 3200, output tokens 800: sglang vllm trtllm",
	}, charts)
	check(t, "missing", []string{
		"Money: no result has its figures.",
		"Nothing: no series was measured at two places along it.",
		"Nobody: no result meets its condition.",
	}, missing)

	charts, _ = drawn(t, Layout{Series: []string{"gpus"}, Charts: []Chart{
		{Title: "Waiting", X: "concurrency", Y: []string{"median_ttft_ms"}, Where: "output_tokens = 800 and dataset = 'random'"},
	}})
	check(t, "charts of series that are said", []string{
		"chart-1-waiting | Median time to first token | 3,200 tokens in, 800 tokens out, random | MI300X; H200",
	}, charts)
}

func TestLayoutTables(t *testing.T) {
	rows := matrix()
	for i := range rows {
		rows[i].Deployment.PricePerHour = 20
	}
	l := Layout{Title: "A_title", Description: "What.", Headline: "SGLang_wins.", Notes: []string{"First."},
		Columns: []string{"p99_ttft_ms", "output_throughput", "usd_per_million_output_tokens"}}
	for _, prices := range []bool{true, false} {
		l.NoPrices = !prices
		shown, about := l.Apply(rows, About{Spending: []Spending{{}}})
		holds(t, written(t, func(w io.Writer) error { return Markdown(w, shown, about) }), "## A\\_title\n\nWhat.\n\nFirst.\n\n",
			"\nSGLang\\_wins.\n\nH200 · SGLang has",
			"| engine | concurrency | TTFT ms p99 | tok/s output | USD per million output |")
		holds(t, written(t, func(w io.Writer) error { return HTML(w, shown, about) }), ">SGLang_wins.</h1>")
		if (about.Spending != nil) != prices {
			t.Errorf("spending %v, prices %v", about.Spending, prices)
		}
		if _, ok := costOutput.value(&shown[0]); ok != prices {
			t.Errorf("a price is known: %v, prices %v", ok, prices)
		}
	}
	if rows[0].Deployment.PricePerHour != 20 {
		t.Error("the caller's rows have lost their price")
	}
}

// TestPublishedAlways: what others published is drawn in every chart where its cell has a place, also
// of a cell that was not measured or is void, and leads nothing. A void cell is bridged by no line.
func TestPublishedAlways(t *testing.T) {
	rows := matrix()
	rows[1].Summary.Verdict = load.Verdict{Verdict: load.Void, Reasons: load.Because("all requests failed")}
	var planned []Planned
	for i := range rows {
		r := rows[i]
		r.Deployment.GPUCount, rows[i].Deployment.GPUCount = 8, 8
		r.Summary = nil
		planned = append(planned, Planned{ID: r.ID, Benchmark: r.Benchmark, Axes: r.Axes, Row: &r})
	}
	var published []map[string]any
	for _, c := range []int64{4, 16, 128} {
		published = append(published, map[string]any{"engine": "sglang.h200", "concurrency": c, "output_throughput": 10_000 * c,
			"median_ttft_ms": 1, "median_tpot_ms": 1000 / float64(c), "median_e2el_ms": 50})
	}
	of := []Reference{{Benchmark: "online", Name: "them", Source: "https://example.com", Rows: published}}
	for name, rows := range map[string][]results.Row{"measured": rows, "unmeasured": nil} {
		about := About{Planned: planned, References: Compare(rows, of)}
		found := sections(rows, about.series(rows), about)
		var got []string
		for _, s := range found {
			for _, f := range s.Figures {
				if note := "Crosses: published by them, https://example.com."; f.ID != "distributions" && !slices.Contains(f.Notes, note) {
					t.Errorf("%s: %s has the notes %q", name, f.ID, f.Notes)
				}
				for _, c := range f.Charts {
					for _, l := range c.Lines {
						if l.Published && len(l.Dots) == 3 {
							got = append(got, f.ID+": "+c.Title)
						}
						if !l.Published && !l.Tail && l.Series != nil && l.Series.Engine == "sglang.h200" && c.X.Ticks != nil &&
							(len(l.Gaps) != 1 || l.Gaps[0].X != 16 || !l.Dots[1].Apart) {
							t.Errorf("%s: the void cell in %s is at %v", name, c.Title, l.Gaps)
						}
					}
				}
			}
		}
		check(t, name, []string{"online-pareto: Output throughput per GPU", "online-latency: Output throughput",
			"online-concurrency: Output throughput", "online-concurrency: Median time to first token",
			"online-concurrency: Median time per output token", "online-concurrency: Median end-to-end latency"}, got)
	}
}

// TestRankedBars: the best bar is first, and the others say by how much they differ from the baseline.
func TestRankedBars(t *testing.T) {
	rows := []results.Row{row("vllm.start", 4, 100, 20), row("vllm.tuned", 4, 100, 10), row("sglang.h200", 4, 100, 40)}
	for layout, want := range map[string][]string{
		"":            {"H200 · vLLM tuned 371  +93 %", "H200 · vLLM start 192", "H200 · SGLang 98.1  −49 %"},
		"sglang.h200": {"H200 · vLLM tuned 371  ×3.78", "H200 · vLLM start 192  +96 %", "H200 · SGLang 98.1"},
	} {
		about := About{Layout: Layout{Baseline: layout}}
		found := sections(rows, about.series(rows), about)
		var got []string
		for _, b := range found[0].Figures[0].Charts[0].Groups[0].Bars {
			got = append(got, strings.TrimSpace(b.Label+" "+number.Text(b.Value)+"  "+b.After))
		}
		check(t, "bars against "+layout, want, got)
	}
}
