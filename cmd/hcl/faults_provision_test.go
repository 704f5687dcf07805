package main

import "time"

// hostFaults are what becomes of hosts and of the way to them.
var hostFaults = []fault{
	{name: "host key changed in mid-cell", lease: 5 * time.Second, says: "the host key of", strike: func(s *scene) {
		s.begin()
		s.await("progress", "", 1)
		s.loseCaller(func() {
			s.must(s.host.ChangeHostKeys(true))
			s.host.Cut()
		})
		s.end(time.Minute)
		s.must(s.host.ChangeHostKeys(false))
	}},
}
