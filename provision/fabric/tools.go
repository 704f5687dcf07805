package fabric

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// allReduce is a program for the Python of an engine's image, which has PyTorch: it measures an
// all-reduce over GPUs of one host, or of several on each of which it runs. It takes how many GPUs
// are here, how many in all, the number of the first one here, where the first host is found, and bytes.
//
//go:embed allreduce.py
var allReduce string

// writeGbits reads what ib_write_bw has measured, with --report_gbits.
func writeGbits(said string) (gbits float64, ok bool) {
	header := false
	for line := range strings.Lines(said) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "#bytes"):
			header = true
		case header && len(fields) >= 4:
			gbits, err := strconv.ParseFloat(fields[3], 64)
			return gbits, err == nil && gbits > 0
		}
	}
	return 0, false
}

var perIteration = regexp.MustCompile(`= ([0-9.]+) usec/iter`)

// pingPongMicros reads what ibv_rc_pingpong has measured.
func pingPongMicros(said string) (micros float64, ok bool) {
	m := perIteration.FindStringSubmatch(said)
	if m == nil {
		return 0, false
	}
	micros, err := strconv.ParseFloat(m[1], 64)
	return micros, err == nil
}

var network = regexp.MustCompile(`NCCL INFO Using network (\w+)`)

// reduced reads what [allReduce] has said: how long one took, and by which network.
func reduced(said string) (seconds float64, by string, ok bool) {
	if m := network.FindStringSubmatch(said); m != nil {
		by = m[1]
	}
	for line := range strings.Lines(said) {
		var answer struct{ Seconds float64 }
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &answer) == nil && answer.Seconds > 0 {
			return answer.Seconds, by, true
		}
	}
	return 0, by, false
}
