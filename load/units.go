package load

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Rate is in requests per second. Zero means "not set"; +Inf, written "inf", means all at once.
type Rate float64

// Inf is the rate at which every request is sent at once.
var Inf = Rate(math.Inf(1))

func (r Rate) String() string {
	if r == Inf {
		return "inf"
	}
	return strconv.FormatFloat(float64(r), 'g', -1, 64)
}

// ParseRate reads a number of requests per second or "inf".
func ParseRate(s string) (Rate, error) {
	if s == "inf" {
		return Inf, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%q is not a rate: write requests per second, such as 2.5, or \"inf\"", s)
	}
	return Rate(f), nil
}

// MarshalJSON writes a number, or "inf", which JSON has no number for.
func (r Rate) MarshalJSON() ([]byte, error) {
	if r == Inf {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(r))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Rate) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err == nil {
		*r = Rate(f)
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := ParseRate(s)
	*r = v
	return err
}

// Duration is a time.Duration that JSON writes as text, "1m30s".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes "1m30s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}
