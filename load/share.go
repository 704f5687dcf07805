package load

import (
	"fmt"
	"slices"
)

// Share is the part of a load that one of several clients sends; the zero value is all of it.
// There is one sequence of requests, and each belongs to one client: together they send what one
// client alone would.
type Share struct {
	Client  int `json:"client"` // from 0
	Clients int `json:"clients"`
}

// Whole reports whether nobody else has a part.
func (s Share) Whole() bool { return s.Clients < 2 }

// Part is how many of n things are the client's, of which each has every so many: slots of a
// closed loop, or arrivals of an open one.
func (s Share) Part(n int) int {
	if s.Whole() {
		return n
	}
	return (max(0, n-s.Client) + s.Clients - 1) / s.Clients
}

// Slice is a share of a workload's sequence. Slot k of a closed loop of c belongs to client
// k mod n, and request i to the client that has slot i mod c, so that all have done their part at
// about the same time, also where they have not equally many slots. Arrival i of an open loop
// belongs to client i mod n.
type Slice struct {
	Share
	round int // requests, after which it is the same clients' turn again
}

// Slice is the job's part of its workload.
func (j Job) Slice() Slice {
	s := Slice{j.Share, j.Share.Clients}
	if w := j.Workload; len(w.Stages) == 0 && (w.Rate == 0 || w.Rate == Inf) && !w.Dataset.Timed() {
		s.round = max(s.round, w.Concurrency)
	}
	return s
}

// Owns reports whether a thing of the sequence is the client's, from 0.
func (s Slice) Owns(i int) bool { return s.Whole() || i%s.round%s.Clients == s.Client }

// Nth is the place in the whole sequence of the client's own m-th, from 0.
func (s Slice) Nth(m int) int {
	if s.Whole() {
		return m
	}
	own := s.Part(s.round)
	return m/own*s.round + m%own*s.Clients + s.Client
}

// Count is how many of the first n of the sequence are the client's.
func (s Slice) Count(n int) int {
	if s.Whole() {
		return n
	}
	return n/s.round*s.Part(s.round) + s.Part(n%s.round)
}

// Workload is the client's own: what its figures are held against.
func (s Slice) Workload(w Workload) Workload {
	if s.Whole() {
		return w
	}
	rate := func(r Rate) Rate { return r / Rate(s.Clients) }
	w.Requests, w.Warmup = s.Count(w.Requests), s.Count(w.Warmup)
	w.Concurrency, w.Rate = s.Part(w.Concurrency), rate(w.Rate)
	w.Stages = slices.Clone(w.Stages)
	for i, x := range w.Stages {
		w.Stages[i].Rate, w.Stages[i].Concurrency = rate(x.Rate), s.Part(x.Concurrency)
	}
	return w
}

// ShareProblems are the rules that a workload breaks when so many clients send it: each has to
// have something to do, all the time.
func (w Workload) ShareProblems(clients int) []FieldError {
	var all problems
	each := func(field string, n int) {
		all.add(n > 0 && n < clients, field, "%s %d cannot be shared by %d hosts: write at least %d, or send from fewer",
			field, n, clients, clients)
	}
	each("requests", w.Requests)
	each("concurrency", w.Concurrency)
	for i, s := range w.Stages {
		all.add(s.Concurrency > 0 && s.Concurrency < clients, "stages",
			"stage %d: a concurrency of %d cannot be shared by %d hosts: write at least %d, or send from fewer",
			i+1, s.Concurrency, clients, clients)
	}
	return all
}

// NothingToSend is the error of a client that has no part in a sequence of so many.
func (s Slice) NothingToSend(of int) error {
	return fmt.Errorf("client %d of %d has nothing to send: there are %d requests in all. Ask for more, or send from "+
		"fewer hosts", s.Client+1, s.Clients, of)
}
