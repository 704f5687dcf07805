package load

import (
	"reflect"
	"slices"
	"testing"
)

// TestShares: of every sequence each request has one owner, whose own count of them is the same
// however it is asked, and clients with more slots have more requests.
func TestShares(t *testing.T) {
	for _, c := range []int{0, 3, 4, 10} {
		for _, rate := range []Rate{0, 2.5, Inf} {
			for clients := 1; clients <= 3; clients++ {
				for total := range 40 {
					w := Workload{Concurrency: c, Rate: rate, Requests: total}
					var all []int
					slots := 0
					for i := range clients {
						s := Job{Workload: w, Share: Share{i, clients}}.Slice()
						own := s.Workload(w)
						slots += own.Concurrency
						for m := range own.Requests {
							if n := s.Nth(m); s.Owns(n) {
								all = append(all, n)
							}
						}
						if s.Owns(s.Nth(own.Requests)) && s.Nth(own.Requests) < total {
							t.Errorf("client %d of %d has another request below %d", i, clients, total)
						}
					}
					slices.Sort(all)
					for i := range total {
						if len(all) != total || all[i] != i {
							t.Fatalf("%d clients, concurrency %d, rate %v: of %d requests they send %v", clients, c, rate, total, all)
						}
					}
					if slots != c {
						t.Errorf("%d clients have %d slots of %d", clients, slots, c)
					}
				}
			}
		}
	}
	four := Job{Workload: Workload{Concurrency: 4}, Share: Share{0, 3}}.Slice()
	if own := four.Count(400); own != 200 {
		t.Errorf("the client with two slots of four sends %d of 400 requests", own)
	}
}

func TestShareProblems(t *testing.T) {
	w := Workload{Requests: 2, Concurrency: 1, Stages: []Stage{{Rate: 1}, {Concurrency: 2}}}
	want := []FieldError{
		{Field: "requests", Text: "requests 2 cannot be shared by 3 hosts: write at least 3, or send from fewer"},
		{Field: "concurrency", Text: "concurrency 1 cannot be shared by 3 hosts: write at least 3, or send from fewer"},
		{Field: "stages", Text: "stage 2: a concurrency of 2 cannot be shared by 3 hosts: write at least 3, or send from fewer"},
	}
	if got := w.ShareProblems(3); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := w.ShareProblems(1); got != nil {
		t.Errorf("of one client: %q", got)
	}
}
