package measure

import (
	"slices"
	"testing"
	"time"

	"hclbench/load"
)

// TestTally: with less memory than gaps, a run keeps those of every so many
// requests, the whole run is known to three digits, and what is counted is exact.
func TestTally(t *testing.T) {
	w, few := run1()
	var want, records []load.Record
	for i := range 400 {
		r := few[i%len(few)]
		r.Seq, r.Gaps = i, nil
		r.Last = r.First
		for j := range 10 {
			r.Gaps = append(r.Gaps, time.Duration(1+(i*7+j*13)%97)*msec)
			r.Last += r.Gaps[j]
		}
		want = append(want, r)
	}
	small := tally{limit: 600}
	for i := len(want) - 1; i >= 0; i-- {
		r := want[i]
		r.Gaps = slices.Clone(r.Gaps)
		small.settle(&r)
		if small.count > small.limit {
			t.Fatalf("%d gaps are kept", small.count)
		}
		records = append(records, r)
	}
	slices.Reverse(records)
	small.giveBack(records)
	kept := 0
	for _, r := range records {
		if len(r.Gaps)+r.Dropped != 10 {
			t.Fatalf("request %d: %d gaps, %d dropped", r.Seq, len(r.Gaps), r.Dropped)
		}
		kept += len(r.Gaps)
	}
	if kept != 500 { // of every eighth request
		t.Errorf("%d gaps kept, want 500", kept)
	}
	exact := Summarize(w, nil, time.Time{}, duration(want), want)
	got := Summarize(w, nil, time.Time{}, duration(records), records)
	if got.ITLFrom != load.FromSample || got.ITL.Count != 4000 || !near(got.ITL.Mean, exact.ITL.Mean, 1e-9) || !near(got.ITL.Median, exact.ITL.Median, 0.15) {
		t.Errorf("from a sample (%q): %+v, exactly: %+v", got.ITLFrom, got.ITL, exact.ITL)
	}
	complete(&got, small.dropped())
	if got.ITLFrom != load.FromHistogram || got.ITL.Count != 4000 || !near(got.ITL.Std, exact.ITL.Std, 1e-6) || !near(got.ITL.Percentiles["99"], exact.ITL.Percentiles["99"], 1e-3) || got.ITL.Max != exact.ITL.Max {
		t.Errorf("from the histogram (%q): %+v, exactly: %+v", got.ITLFrom, got.ITL, exact.ITL)
	}
}

// TestTallyKeepsNoRoom: room that was made for all the tokens asked for is not kept
// with the gaps of a short answer.
func TestTallyKeepsNoRoom(t *testing.T) {
	k := tally{limit: maxGaps}
	for i := range 10 {
		k.settle(&load.Record{Seq: i, Gaps: append(make([]time.Duration, 0, 8191), 1, 2, 3)})
	}
	for _, g := range k.kept {
		if len(g.gaps) != 3 || cap(g.gaps) > 8 {
			t.Fatalf("%d gaps in the room of %d", len(g.gaps), cap(g.gaps))
		}
	}
}
