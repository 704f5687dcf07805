package measure

import (
	"fmt"

	"hclbench/load"
)

type doubt struct {
	code    string
	metrics []string // that it concerns; nil: all
	text    string   // a format
}

func (d doubt) reason(value, limit float64, args ...any) load.Reason {
	return load.Reason{Code: d.code, Text: fmt.Sprintf(d.text, args...), Value: value, Limit: limit, Metrics: d.metrics}
}

func void(d doubt, args ...any) load.Verdict {
	return load.Verdict{Verdict: load.Void, Reasons: []load.Reason{d.reason(0, 0, args...)}}
}

// The metrics that go wrong together.
var (
	ofChunks  = []string{"ttft", "tpot", "itl"}
	ofTimes   = append([]string{"e2el", "normalized_latency"}, ofChunks...)
	ofLengths = []string{"tpot", "normalized_latency", "input_throughput", "output_throughput", "total_throughput",
		"peak_output_throughput"}
)

// Why a measurement is void.
var (
	nothingSent   = doubt{"nothing-sent", nil, "no request was sent"}
	noneCompleted = doubt{"none-completed", nil, "none of %d requests completed: %s"}
	noOutput      = doubt{"no-output", nil, "no output tokens"}
	noWindow      = doubt{"nothing-left", nil, "nothing is left of the run without its warm-up and cool-down"}
	emptyWindow   = doubt{"empty-window", nil,
		"no request was sent from %v to %v of the run, which is the part that counts"}
)

// Why it is suspect.
var (
	requestsFailed = doubt{"requests-failed", nil, "%d of %d requests failed (%.1f %%): %s"}
	warmupFailed   = doubt{"warmup-failed", nil, "%d of %d warm-up requests failed"}
	otherOutputs   = doubt{"other-outputs", nil,
		"%d of %d requests did not bring the output tokens asked for (%d instead of %d in all)"}
	otherPrompts = doubt{"other-prompts", nil,
		"%d of %d prompts were not as long for the server as they were made (%d instead of %d tokens in all)"}
	noUsage = doubt{"no-usage", ofLengths,
		"%d of %d answers came without token counts: chunks were counted instead"}
	tooFew    = doubt{"too-few", nil, "%d completed requests cannot fill a concurrency of %d"}
	littleOff = doubt{"littles-law", nil,
		"Little's law is off by %.0f %%: %.2f requests were in flight on average, throughput times latency says %.2f"}
	fellBehind = doubt{"fell-behind", nil,
		"%.2f requests were in flight while there were more to send, not %d: the generator fell behind"}
	notFull    = doubt{"not-full", nil, "%.2f requests were in flight on average, not %d: the window is not full"}
	sentLate   = doubt{"send-lag", nil, "requests left up to %.1f ms late (p99; the limit here is %.1f ms)"}
	readLate   = doubt{"read-lag", ofTimes, "what had come was read up to %.1f ms late (p99; the limit is %.1f ms)"}
	paused     = doubt{"gc-pauses", ofTimes, "garbage collection stopped the generator for %.1f ms of %.3g s"}
	busy       = doubt{"client-cpu", nil, "the generator used %.0f %% of the %.0f cores that it may use"}
	sentBefore = doubt{"warmed", nil, "%d of the %d %s that were measured had been sent by the warm-up: a prefix cache knows them"}

	mergedChunks = doubt{"merged-chunks", ofChunks,
		"%.0f %% of chunks came together with the one before, %.1f ms after those before them: %s; " +
			"TTFT, TPOT and ITL may be off by as much, E2EL and throughput are not"}
	beyondStreams = doubt{"beyond-calibration", ofTimes,
		"%d requests were in flight, and this machine's generator was found to be right up to %d"}
	beyondEvents = doubt{"beyond-calibration", ofTimes,
		"%.0f chunks came in a second, and this machine's generator was found to be right up to %.0f"}
)

// Who may have held chunks back.
const (
	byOthers = "something between here and the engine buffers, such as a proxy, or the engine sends in bursts"
	byUs     = ", or the generator could not keep up"
)
