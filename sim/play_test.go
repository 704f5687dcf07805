package sim

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestPlay: of a closed loop every request finds as many in flight as there are, and times are spread as they are drawn; of an open
// one whose answers take a second it finds as many as come in a second, itself beside them (Little's law).
func TestPlay(t *testing.T) {
	table := Table{{1, 100 * time.Millisecond, time.Millisecond}, {100, 199 * time.Millisecond, time.Millisecond}}
	replies, err := Config{Table: table, Spread: 0.3, TokensPerChunk: 2, FailEvery: 10}.Play(Loop{InFlight: 11, Tokens: 5}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	late, failed := 0, 0
	bound := time.Millisecond + time.Duration(110*math.Exp(0.3*1.2816)*float64(time.Millisecond)) // of the first chunk, for 90 of 100
	for _, r := range replies {
		switch {
		case r.Failed:
			failed++
		case r.Tokens != 5 || r.Last != r.First+3*time.Millisecond:
			t.Fatalf("%+v", r)
		case r.First > bound:
			late++
		}
	}
	if failed != 1000 || late < 890 || late > 910 {
		t.Errorf("of 10,000 requests %d failed, and %d of the others are late: want 1,000 and 900", failed, late)
	}

	table = Table{{1, time.Microsecond, time.Second}, {1000, 1000 * time.Microsecond, time.Second}}
	replies, err = Config{Table: table}.Play(Loop{Gap: func(rng *rand.Rand) time.Duration { return time.Duration(rng.ExpFloat64() * 1e9 / 50) }, Tokens: 2}, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	sum := time.Duration(0)
	for _, r := range replies {
		sum += r.First
	}
	if mean := float64(sum) / 100_000 / float64(time.Microsecond); mean < 50 || mean > 52 {
		t.Errorf("a request finds %.1f in flight, want 51", mean)
	}
	for why, c := range map[string]Config{"hangs": {HangAfter: 3}, "no text": {Embeds: true}, "split": {LoseKV: 1}} {
		if _, err := c.Play(Loop{InFlight: 1, Tokens: 1}, 10); err == nil {
			t.Errorf("%s: its times are known", why)
		}
	}
}
