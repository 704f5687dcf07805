package load

import (
	"encoding/json"
	"slices"
	"time"
)

// Client is one of the hosts that have sent a load together: what it has measured of its share,
// and how its clock stood to that of the caller, who said when all begin.
type Client struct {
	Host  string `json:"host"`
	Clock Clock  `json:"clock"`
	// Late is how long after the moment at which it was due its first request left, in
	// milliseconds.
	Late float64 `json:"late_ms"`
	Part
}

// Clock is what is known of a client's clock, by round trips before and after the load. All times
// are in milliseconds.
type Clock struct {
	Ahead  float64 `json:"ahead_ms"`  // of the caller's, before; both as they are set
	Within float64 `json:"within_ms"` // to which that is known: half of the shortest round trip
	Gained float64 `json:"gained_ms"` // until after the load, against the median of all clients, by clocks that nobody sets
}

// histogramJSON is a histogram as agents hand it over: its buckets less those at either end that
// are empty.
type histogramJSON struct {
	First   int           `json:"first"` // bucket
	Buckets []int64       `json:"buckets"`
	Count   int64         `json:"count"`
	Sum     time.Duration `json:"sum"`
	Squares float64       `json:"squares"`
	Least   time.Duration `json:"least"`
	Largest time.Duration `json:"largest"`
}

// MarshalJSON writes all that was counted.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	first := max(0, slices.IndexFunc(h.buckets, func(n int64) bool { return n > 0 }))
	return json.Marshal(histogramJSON{first, h.buckets[first:], h.count, h.sum, h.squares, h.least, h.largest})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (h *Histogram) UnmarshalJSON(b []byte) error {
	var in histogramJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	first := min(max(in.First, 0), bucket(1<<63)) // no time has a later one
	h.buckets = append(make([]int64, first), in.Buckets...)
	h.count, h.sum, h.squares, h.least, h.largest = in.Count, in.Sum, in.Squares, in.Least, in.Largest
	return nil
}
