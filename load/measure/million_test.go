package measure

import (
	"runtime"
	"testing"
	"time"

	"hclbench/load"
)

// BenchmarkMillion is the summary of a cell of a million requests; the aim is two
// seconds and 300 MB beside the records themselves.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	records := make([]load.Record, n)
	gaps := make([]time.Duration, 4*n) // of four million: more are not kept
	for i := range gaps {
		gaps[i] = time.Duration(10+i%23) * time.Millisecond
	}
	for i := range records {
		at := time.Duration(i) * 600 * time.Microsecond
		first := at + time.Duration(50+i*7919%400)*time.Millisecond
		records[i] = load.Record{Seq: i, Scheduled: at, Ready: at, Sent: at, First: first, Last: first + 80*time.Millisecond, End: first + 81*time.Millisecond,
			Gaps: gaps[4*i : 4*i+4], InputTokens: 512, OutputTokens: 5, AskedInput: 512, AskedOutput: 5, Finish: "length"}
	}
	w := load.Workload{Requests: n, Concurrency: 512, OutputTokens: 5}
	runtime.GC()
	b.ReportAllocs()
	for b.Loop() {
		if s := Summarize(w, nil, time.Now(), 11*time.Minute, records); s.Completed != n {
			b.Fatal("not all are completed")
		}
	}
}
