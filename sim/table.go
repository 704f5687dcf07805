package sim

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Point says how fast an engine is at one concurrency.
type Point struct {
	Concurrency int
	TTFT, ITL   time.Duration
}

// Table says how fast an engine is by concurrency: straight lines between its
// points, constant outside them. Points are in ascending order of concurrency.
type Table []Point

// At is the engine's speed with n requests in flight.
func (t Table) At(n int) Point {
	i, found := slices.BinarySearchFunc(t, n, func(p Point, n int) int { return cmp.Compare(p.Concurrency, n) })
	switch {
	case found || i == 0:
		return Point{n, t[i].TTFT, t[i].ITL}
	case i == len(t):
		return Point{n, t[i-1].TTFT, t[i-1].ITL}
	}
	a, b := t[i-1], t[i]
	f := float64(n-a.Concurrency) / float64(b.Concurrency-a.Concurrency)
	between := func(x, y time.Duration) time.Duration { return x + time.Duration(f*float64(y-x)) }
	return Point{n, between(a.TTFT, b.TTFT), between(a.ITL, b.ITL)}
}

// ParseTable reads "1:20ms/5ms,64:90ms/12ms": concurrency, TTFT, ITL.
func ParseTable(s string) (Table, error) {
	var t Table
	for part := range strings.SplitSeq(s, ",") {
		n, times, ok := strings.Cut(strings.TrimSpace(part), ":")
		ttft, itl, ok2 := strings.Cut(times, "/")
		if !ok || !ok2 {
			return nil, fmt.Errorf("%q is not a point of a table: write concurrency:ttft/itl, such as 64:90ms/12ms", part)
		}
		p, err := point(n, ttft, itl, time.ParseDuration)
		if err != nil {
			return nil, err
		}
		t = append(t, p)
	}
	return t.sorted()
}

// ReadTable reads CSV whose header names the columns "concurrency", "ttft_ms"
// and "itl_ms", in any order and among others. Times are in milliseconds.
func ReadTable(r io.Reader) (Table, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	if len(rows) == 0 {
		return nil, errors.New("read table: it is empty")
	}
	column := func(name string) (int, error) {
		i := slices.Index(rows[0], name)
		if i < 0 {
			return 0, fmt.Errorf("read table: no column %q in its header", name)
		}
		return i, nil
	}
	n, err1 := column("concurrency")
	ttft, err2 := column("ttft_ms")
	itl, err3 := column("itl_ms")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	var t Table
	for i, row := range rows[1:] {
		p, err := point(row[n], row[ttft], row[itl], milliseconds)
		if err != nil {
			return nil, fmt.Errorf("read table, line %d: %w", i+2, err)
		}
		t = append(t, p)
	}
	return t.sorted()
}

func milliseconds(s string) (time.Duration, error) {
	f, err := strconv.ParseFloat(s, 64)
	return time.Duration(f * float64(time.Millisecond)), err
}

func point(n, ttft, itl string, parse func(string) (time.Duration, error)) (p Point, err error) {
	if p.Concurrency, err = strconv.Atoi(strings.TrimSpace(n)); err != nil || p.Concurrency < 1 {
		return p, fmt.Errorf("%q is not a concurrency", n)
	}
	if p.TTFT, err = parse(strings.TrimSpace(ttft)); err != nil || p.TTFT < 0 {
		return p, fmt.Errorf("%q is not a TTFT", ttft)
	}
	if p.ITL, err = parse(strings.TrimSpace(itl)); err != nil || p.ITL < 0 {
		return p, fmt.Errorf("%q is not an ITL", itl)
	}
	return p, nil
}

func (t Table) sorted() (Table, error) {
	if len(t) == 0 {
		return nil, errors.New("the table has no points")
	}
	slices.SortFunc(t, func(a, b Point) int { return cmp.Compare(a.Concurrency, b.Concurrency) })
	for i := 1; i < len(t); i++ {
		if t[i].Concurrency == t[i-1].Concurrency {
			return nil, fmt.Errorf("the table has concurrency %d twice", t[i].Concurrency)
		}
	}
	return t, nil
}
