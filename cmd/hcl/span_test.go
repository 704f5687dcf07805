package main

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "90m": 90 * time.Minute, "0d": 0, "-5m": -5 * time.Minute,
		"d": -1, "1d2d": -1, "x": -1, "": 0, "999999999999d": -1,
	} {
		var s span
		err := s.Set(text)
		if want == -1 && err == nil || want != -1 && (err != nil || time.Duration(s) != want) {
			t.Errorf("%q: %v, %v, want %v", text, time.Duration(s), err, want)
		}
	}
}
