package plan

import (
	"strings"
	"testing"
	"time"

	"hclbench/provision/rent/protocol"
)

// TestChosenIsShown: the offer that would be taken is among those that are printed, also where many cheaper ones come later.
func TestChosenIsShown(t *testing.T) {
	p := New(lab(), Options{})
	h := RentedHost{Host: "box", MaxPrice: 30, Chosen: "now"}
	for range 5 {
		h.Offers = append(h.Offers, protocol.Offer{ID: "later", PricePerHour: 10, From: time.Now().Add(time.Hour)})
	}
	h.Offers = append(h.Offers, protocol.Offer{ID: "now", PricePerHour: 20})
	p.Rented = &Rented{Hosts: []RentedHost{h}}
	got := printed(t, p, false)
	if want := "    $20.00 an hour: now, would be taken now\n    and 2 more\n"; !strings.Contains(got, want) || strings.Count(got, ": later") != 3 {
		t.Errorf("the plan is\n%s\nwithout\n%s", got, want)
	}
}
