package docker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"hclbench/testhost"
)

// TestManyContainers: 64 containers at once on 8 hosts, whose sshd has its default
// limits: one connection per host carries everything, and none fails.
func TestManyContainers(t *testing.T) {
	const hosts, each = 8, 8
	type site struct {
		host   *testhost.Host
		daemon *Daemon
		ref    string
	}
	var sites []site
	for i := range hosts {
		h := testhost.New(t, testhost.Options{Name: fmt.Sprint("box", i), Docker: true, Registry: true, Namespace: true})
		ref := h.Registry + "/engine:1"
		h.PushEngine(t, ref, nil)
		sites = append(sites, site{h, connect(t, h), ref})
	}
	var all sync.WaitGroup
	for _, s := range sites {
		all.Go(func() {
			if _, err := s.daemon.Images.Pull(t.Context(), s.ref, nil); err != nil {
				t.Errorf("%s: %v", s.host.Name, err)
				return
			}
			var own sync.WaitGroup
			for i := range each {
				own.Go(func() {
					ct := server(fmt.Sprint("e", i))
					ct.Image, ct.Port, ct.StopGrace = s.ref, 8000+i, 10*time.Second
					ct.Command = plainTexts([]string{"serve", "m", "--port", fmt.Sprint(8000 + i)})
					id, err := s.daemon.Start(t.Context(), ct)
					if err != nil {
						t.Errorf("%s: %v", s.host.Name, err)
						return
					}
					if err := heard(t.Context(), s.daemon, id, "startup complete"); err != nil {
						t.Errorf("%s: container %d: %v", s.host.Name, i, err)
					}
					if st, err := s.daemon.State(t.Context(), id); err != nil || !st.Running {
						t.Errorf("%s: container %d: %+v, %v", s.host.Name, i, st, err)
					}
					if err := s.daemon.Stop(t.Context(), id, 10*time.Second); err != nil {
						t.Errorf("%s: %v", s.host.Name, err)
					}
				})
			}
			own.Wait()
			if left, err := s.daemon.List(t.Context(), map[string]string{"hcl.lab": "test"}); err != nil || len(left) > 0 {
				t.Errorf("%s: left %v, %v", s.host.Name, left, err)
			}
		})
	}
	all.Wait()
	for _, s := range sites {
		if _, accepted := s.host.Connections(); accepted != 1 {
			t.Errorf("%s: %d connections, want 1", s.host.Name, accepted)
		}
	}
}
