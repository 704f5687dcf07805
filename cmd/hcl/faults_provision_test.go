package main

import (
	"fmt"
	"time"

	"hclbench/testhost"
)

// hostFaults are what becomes of hosts and of the way to them.
var hostFaults = []fault{
	{name: "host key changed in mid-cell", at: midCell, lease: 5 * time.Second, says: "the host key of", strike: func(s *scene) {
		s.loseCaller(func() {
			s.must(s.host.ChangeHostKeys(true))
			s.host.Cut()
		})
		s.end(time.Minute)
		s.must(s.host.ChangeHostKeys(false))
	}},
	{name: "jump host away for 5 s in mid-cell", whole: true, strike: func(s *scene) {
		gate := testhost.New(s.T, testhost.Options{Name: "gate"})
		s.knows(gate)
		s.edit(`host "box" {`, fmt.Sprintf("host \"gate\" {\n  address = %q\n  user = %q\n  identity_file = %q\n  runtime = \"process\"\n}\nhost \"box\" {\n  jump = host.gate", gate.Addr, gate.User, gate.IdentityFile))
		s.reach(midCell)
		if open, _ := gate.Connections(); open == 0 {
			s.Errorf("nobody goes by way of the jump host")
		}
		gate.Refuse(true)
		gate.Cut()
		<-time.After(5 * time.Second)
		gate.Refuse(false)
	}},
	{name: "kill -9 of the caller, Docker by sudo", at: midCell, lease: 5 * time.Second, opt: testhost.Options{Login: "someone", Sudo: true}, strike: (*scene).abandon},
}
