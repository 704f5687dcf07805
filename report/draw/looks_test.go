package draw

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/results"
	"hclbench/telemetry"
)

// TestMarks: every chart and its data say what they show, and bars have room.
func TestMarks(t *testing.T) {
	for command, want := range map[string]string{"rehearse": "rehearsal", "import": "imported", "apply": "valid"} {
		rows := reporttest.Matrix()
		bars := reporttest.Matrix()[:1] // of one cell there are bars
		for i := range 20 {
			r := reporttest.Row(fmt.Sprintf("vllm.of-a-very-long-name-that-fills-a-legend-%d", i), 4, 100, 20)
			bars = append(bars, r)
		}
		for _, rows := range [][]results.Row{rows, bars} {
			for i := range rows {
				rows[i].Run.Command = command
			}
			found := Sections(rows, figure.NewSeries(rows, nil), figure.About{})
			for _, s := range found {
				for _, f := range s.Figures {
					if data := f.CSV(); !strings.Contains(data, ","+want+"\n") || want != "valid" && strings.Contains(data, ",valid\n") {
						t.Errorf("%s: %s has the data\n%.300s", command, f.ID, data)
					}
					for _, c := range f.Charts {
						d := f.picture(c, SourceOf(rows, figure.About{}))
						if got := strings.Contains(d.SVG(chart.Light), "Rehearsal") || strings.Contains(d.SVG(chart.Light), "Imported"); got != (want != "valid") {
							t.Errorf("%s: %s is marked: %t", command, f.ID, got)
						}
						for _, at := range heights.FindAllStringSubmatch(hovers.ReplaceAllString(d.SVG(chart.OfPage), ""), -1) {
							if y, err := strconv.ParseFloat(at[1], 64); err != nil || y < -1 || y > d.Height+1 {
								t.Fatalf("%s: %s %s: something is at %s of %.0f", command, f.ID, c.Title, at[1], d.Height)
							}
						}
					}
				}
			}
		}
	}
}

// TestSuspects: what is suspect is on no front and leads nothing, and that is said.
func TestSuspects(t *testing.T) {
	rows := []results.Row{
		reporttest.Row("a.x", 4, 100, 20), reporttest.Row("b.x", 4, 100, 18), reporttest.Row("c.x", 4, 100, 10),
		reporttest.Row("a.x", 16, 100, 20), reporttest.Row("b.x", 16, 100, 18), reporttest.Row("c.x", 16, 100, 10),
	}
	for i := range rows {
		rows[i].Deployment.GPUCount = 8
		rows[i].Deployment.Kind = reporttest.KindIn(rows[i].Deployment.Engine)
		if rows[i].Deployment.Kind == "c" {
			rows[i].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "hot")}
		}
	}
	all := figure.NewSeries(rows, nil)
	found := Sections(rows, all, figure.About{})
	front := 0
	for _, s := range found {
		for _, f := range s.Figures {
			for _, c := range f.Charts {
				if len(c.Lines) > 0 && c.Lines[0].Front {
					front += len(c.Lines[0].Dots)
					for _, p := range c.Lines[0].Dots {
						if v := 1000 / (rows[2].Summary.TPOT.Median); p.X > v*0.99 {
							t.Errorf("the suspect point at %v is on the front", p.X)
						}
					}
				}
			}
		}
	}
	if front == 0 {
		t.Error("there is no front")
	}
}

// TestWindow: curves are of the requests that the figures are of.
func TestWindow(t *testing.T) {
	r := reporttest.Row("vllm.h200", 4, 100, 20)
	r.Summary.Window = &load.Window{From: 10e9, To: 20e9}
	var records []load.Record
	for i := range 30 {
		at := load.Record{OutputTokens: 1, Sent: 5*time.Second + time.Duration(i)*time.Second}
		at.First, at.Last = at.Sent+50e6, at.Sent+1e8
		if i < 10 || i >= 20 {
			at.Last = at.Sent + 9e9
		}
		records = append(records, at)
	}
	about := figure.About{Records: func(*results.Row) ([]load.Record, error) { return records, nil }}
	got, err := curvesOf(about, &r)
	if err != nil || len(got["e2el"]) != 10 || got["e2el"][9].X != 100 {
		t.Errorf("curves of the window: %v, %v", got["e2el"], err)
	}
}

// TestGathered: a source that lost a reading shifts nothing.
func TestGathered(t *testing.T) {
	one := telemetry.Series{Name: telemetry.Power, At: []float64{0, 1, 2, 3}, Value: []float64{10, 20, 30, 40}}
	two := telemetry.Series{Name: telemetry.Power, At: []float64{0.1, 2.1, 3.1}, Value: []float64{1, 3, 4}}
	l := gathered([]telemetry.Series{one, two}, telemetry.Power, 1, true)
	var got []string
	for _, d := range l.Dots {
		got = append(got, fmt.Sprintf("%g:%g", d.X, d.Y))
	}
	if want := "0:11 2:33 3:44"; strings.Join(got, " ") != want {
		t.Errorf("gathered = %s, want %s", got, want)
	}
}

// hovers are what stands in a drawing without being drawn.
var hovers = regexp.MustCompile(`<title>[^<]*</title>|>[^<]*</text>`)

// heights are those of texts, circles, and corners of everything else in a drawing.
var heights = regexp.MustCompile(`(?: c?y="|[\d.],)(-?[\d.]+)`)
