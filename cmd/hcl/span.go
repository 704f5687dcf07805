package main

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// span is a flag's duration that may be said in days: "30d", "1d12h", "90m".
type span time.Duration

var withDays = regexp.MustCompile(`^([0-9]+)d(.*)$`)

func (s *span) Set(text string) error {
	rest := text
	var sum time.Duration
	if m := withDays.FindStringSubmatch(text); m != nil {
		const day, most = 24 * time.Hour, 100_000
		n, err := strconv.Atoi(m[1])
		if err != nil || n > most {
			return fmt.Errorf("%s is more than %d days", text, most)
		}
		sum, rest = time.Duration(n)*day, m[2]
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil {
			return fmt.Errorf("%q is no duration; write 30d, 12h or 1h30m", text)
		}
		sum += d
	}
	*s = span(sum)
	return nil
}

func (s *span) String() string { return time.Duration(*s).String() }

// Type is what help shows for it.
func (s *span) Type() string { return "duration" }
