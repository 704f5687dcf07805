package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/results/formats"
	"hclbench/testhost"
)

// published is a row of a study: what its engine did at one concurrency.
type published struct {
	name        string
	concurrency int
	outputs     int // tokens of each answer
	figures     load.Summary
	ttft, tpot  float64 // ms, mean
}

// latency is the mean, in seconds, and inFlight how many requests were on their way, by Little's law.
func (p published) latency() float64  { return p.figures.E2EL.Mean / 1e3 }
func (p published) inFlight() float64 { return p.figures.RequestThroughput * p.latency() }

func readPublished(t testing.TB) []published {
	t.Helper()
	f, err := os.Open("../../examples/dstack-deepseek-r1/published/online.csv")
	must(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	must(t, err)
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	var all []published
	for i, row := range rows[1:] {
		number := func(name string) float64 {
			v, err := strconv.ParseFloat(row[column[name]], 64)
			if err != nil {
				t.Fatalf("row %d: %s: %v", i+2, name, err)
			}
			return v
		}
		p := published{
			concurrency: int(number("max_concurrency")),
			outputs:     int(number("total_output_tokens") / number("completed")),
			figures: load.Summary{
				Part: load.Part{Figures: load.Figures{
					Duration: number("duration"), Completed: int(number("completed")),
					InputTokens: int64(number("total_input_tokens")), OutputTokens: int64(number("total_output_tokens")),
					RequestThroughput: number("request_throughput"), InputThroughput: number("input_throughput"), OutputThroughput: number("output_throughput"),
					MeanConcurrency: number("concurrency"), E2EL: load.Stats{Mean: number("mean_e2e_latency_ms")},
				}},
			},
			ttft: number("mean_ttft_ms"), tpot: number("mean_tpot_ms"),
		}
		p.name = fmt.Sprintf("%d %s %s %s c=%d out=%d", i+2, row[column["GPU"]], row[column["backend"]], row[column["dataset_name"]], p.concurrency, p.outputs)
		all = append(all, p)
	}
	return all
}

// requests is how few keep as many in flight, on average, as the row had: the
// last of them leave places empty, as the study's last ones did.
func (p published) requests() int {
	for waves := 1.0; ; waves++ {
		n := math.Round(p.inFlight() * waves)
		if math.Abs(n/waves-p.inFlight()) < 0.01*p.inFlight() && int(n) > p.concurrency*int(waves-1) && int(n) <= p.concurrency*int(waves) {
			return int(n)
		}
	}
}

// replay has a simulated engine play a row so many times faster, measures it as a user does, and returns what
// is off by more than 3 % after scaling. late, in milliseconds, is how much later than it should a first
// token may come for all that.
func replay(ctx context.Context, hcl string, p published, speed float64, perChunk int, late float64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ms := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) + "ms" }
	// The engine has a chunk's tokens one after the other and sends them when it
	// has the last: with these times the first and the last chunk of an answer
	// leave when the row's first and last token did.
	itl := p.tpot * float64(p.outputs-1) / float64(p.outputs-perChunk)
	engine := exec.CommandContext(ctx, hcl, "sim", "--ttft", ms(p.ttft-float64(perChunk-1)*itl), "--itl", ms(itl),
		"--speed", fmt.Sprint(speed), "--tokens-per-chunk", fmt.Sprint(perChunk), "--port", "0")
	out, err := engine.StderrPipe()
	if err != nil {
		return err
	}
	if err := engine.Start(); err != nil {
		return err
	}
	defer engine.Wait()
	defer cancel()
	line := bufio.NewReader(out)
	var url string
	for url == "" {
		text, err := line.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the engine does not start: %w", err)
		}
		url = regexp.MustCompile(`http://\S+`).FindString(text)
	}
	go io.Copy(io.Discard, line)

	bench := exec.CommandContext(ctx, hcl, "bench", url, "--concurrency", fmt.Sprint(p.concurrency), "--requests", fmt.Sprint(p.requests()),
		"--input-tokens", "100", "--output-tokens", fmt.Sprint(p.outputs), "--format", "json")
	var said strings.Builder
	bench.Stderr = &said
	text, err := bench.Output()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == exitCells) {
		return fmt.Errorf("hcl bench: %w: %s", err, said.String())
	}
	var got struct {
		Rows []struct {
			Summary load.Summary `json:"summary"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(text, &got); err != nil || len(got.Rows) != 1 {
		return fmt.Errorf("hcl bench: %d rows, %w", len(got.Rows), err)
	}
	s := got.Rows[0].Summary
	if s.Completed != p.requests() {
		return fmt.Errorf("%d of %d requests completed", s.Completed, p.requests())
	}
	var errs []error
	for _, f := range []struct {
		name            string
		got, want, more float64
	}{
		{"output throughput", s.OutputThroughput / speed, p.figures.OutputThroughput, 0},
		{"mean TTFT", s.TTFT.Mean * speed, p.ttft, late * speed / p.ttft},
		{"mean TPOT", s.TPOT.Mean * speed, p.tpot, 0},
	} {
		if off := f.got/f.want - 1; off < -0.03 || off > 0.03+f.more {
			errs = append(errs, fmt.Errorf("%s is %.5g, published %.5g: off by %.1f %%", f.name, f.got, f.want, 100*off))
		}
	}
	return errors.Join(errs...)
}

// TestPublishedRows has the generator measure rows of a published study, played by the simulated engine,
// and finds all of them that contradict themselves.
func TestPublishedRows(t *testing.T) {
	rows := readPublished(t)
	if len(rows) != 54 {
		t.Fatalf("%d rows, want the 54 of the study", len(rows))
	}
	var contradict []string
	for _, p := range rows {
		if len(formats.Contradictions(&p.figures, p.concurrency)) > 0 {
			contradict = append(contradict, p.name)
		}
	}
	want := []string{
		"26 h200 trt-llm random c=4 out=800", "27 h200 trt-llm random c=8 out=800", "28 h200 trt-llm random c=16 out=800",
		"29 h200 trt-llm random c=32 out=800", "30 h200 trt-llm random c=64 out=800", "31 h200 trt-llm random c=128 out=800",
		"53 h200 trt-llm random c=128 out=1600", "54 h200 trt-llm random c=128 out=3200", "55 h200 trt-llm random c=128 out=6400",
	}
	if diff := cmp.Diff(want, contradict); diff != "" {
		t.Errorf("rows that break Little's law (-want +got):\n%s", diff)
	}
	replayed(t, func(i int) bool { return i%5 == 0 })
}

// TestSlowPublishedRows has it measure all the others.
func TestSlowPublishedRows(t *testing.T) {
	replayed(t, func(i int) bool { return i%5 != 0 })
}

// replayed has rows measured, by their numbers. An answer takes five to ten seconds here, and a first token
// may be 20 ms late, for a busy machine takes that long to send a hundred requests at once;
// BenchmarkPublishedRows plays them at 20 times their speed with an event for each token, and allows nothing.
func replayed(t *testing.T, which func(int) bool) {
	hcl := testhost.HCL(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	todo := make(chan published)
	var playing sync.WaitGroup
	for range 8 { // they mostly wait
		playing.Go(func() {
			for p := range todo {
				// A machine that does something else for a moment disturbs a row.
				var err error
				for range 12 {
					if err = replay(ctx, hcl, p, p.latency()/(5+5*float64(p.outputs)/6400), 10, 20); err == nil || ctx.Err() != nil {
						break
					}
				}
				if err != nil {
					t.Errorf("row %s: %v", p.name, err)
				}
			}
		})
	}
	for i, p := range readPublished(t) {
		if which(i) {
			todo <- p
		}
	}
	close(todo)
	playing.Wait()
}

// BenchmarkPublishedRows plays the rows one after the other, at 20 times their
// speed, with an event for each token: some ten minutes.
func BenchmarkPublishedRows(b *testing.B) {
	hcl := testhost.HCL(b)
	rows := readPublished(b)
	for b.Loop() {
		off := 0
		for _, p := range rows {
			if err := replay(b.Context(), hcl, p, 20, 1, 0); err != nil {
				b.Logf("row %s: %v", p.name, err)
				off++
			}
		}
		b.ReportMetric(float64(len(rows)-off), "rows-within-3%")
		b.ReportMetric(float64(off), "rows-off")
	}
}
