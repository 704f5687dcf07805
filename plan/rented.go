package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/provision"
	"hclbench/provision/rent/protocol"
)

// Rented is what a plan rents, and what that costs. Who carries plans out fills it in, see [Plan.Rented].
type Rented struct {
	Hosts []RentedHost `json:"hosts,omitempty"`
	Left  []RentedBox  `json:"left,omitempty"`      // by earlier runs, of no use to this one: apply gives them back first
	Least float64      `json:"least_usd,omitempty"` // of all hosts; 0: not known of each
	Most  float64      `json:"most_usd"`            // likewise, until their hard ends, with Unsure
	// Unsure is what may go to earlier requests of which nobody knows whether they made a box: apply rents beside them.
	Unsure float64 `json:"unsure_usd,omitempty"`
}

// RentedHost is a host that has to be rented.
type RentedHost struct {
	Host     string           `json:"host"`
	Plugin   string           `json:"plugin"`
	TTL      float64          `json:"ttl_seconds"`         // from when it is asked for to its hard end
	MaxPrice float64          `json:"max_price"`           // USD an hour
	Box      *RentedBox       `json:"box,omitempty"`       // that is there: it is used again, if it fits
	Offers   []protocol.Offer `json:"offers"`              // the cheapest until its hard end first
	Chosen   string           `json:"chosen,omitempty"`    // the ID of the one that would be taken now
	None     string           `json:"none,omitempty"`      // why it is none of them
	Ends     []string         `json:"ends,omitempty"`      // what ends it, the surest first: see [Ends]
	Least    float64          `json:"least_usd,omitempty"` // by the cheapest offer and the plan's estimate, kept time in it; 0: not known
	Most     float64          `json:"most_usd"`            // until its hard end
	Error    string           `json:"error,omitempty"`     // why the provider could not be asked
}

// RentedBox is a box that somebody pays for.
type RentedBox struct {
	Box     string    `json:"box,omitempty"`     // as its provider calls it; empty: nobody knows whether there is one
	Request string    `json:"request,omitempty"` // that it was made for, or may have been
	Plugin  string    `json:"plugin"`
	Host    string    `json:"host"`
	Run     string    `json:"run"`            // which has it, or has left it
	Kept    bool      `json:"kept,omitempty"` // for the next run
	Price   float64   `json:"price_per_hour"` // USD
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`                       // its hard end
	Cost    float64   `json:"cost_usd"`                    // so far, by price and time
	Off     float64   `json:"off_after_seconds,omitempty"` // so long after a lease on it that nobody renews it shuts itself down; 0: it does not
}

// The ends that a box can have.
const (
	EndProvider = "provider" // the provider ends it at its deadline
	EndItself   = "itself"   // it shuts itself down, also if nobody renews its lease, and costs nothing any more
	EndHere     = "here"     // this machine gives it back
	EndSweep    = "sweep"    // hcl sweep does, wherever it runs
)

var endWords = map[string]string{
	EndProvider: "the provider ends it", EndItself: "it shuts itself down, at its hard end or when nobody renews its lease", EndHere: "this machine gives it back", EndSweep: "`hcl sweep` deletes it, anywhere",
}

// AtLeast is what a host costs at least in USD, at an offer, by how long it is expected to be at work; 0: nobody knows.
func (p *Plan) AtLeast(h *provision.Host, o protocol.Offer) float64 {
	var hours float64
	if e := p.Estimate(); e != nil {
		if i := slices.IndexFunc(e.Hosts, func(x HostEstimate) bool { return x.Host == h.Name }); i >= 0 {
			hours = e.Hosts[i].Seconds/3600 + h.Rent.Keep.Hours()
		}
	}
	return min(o.PricePerHour*max(hours, o.Minimum), h.Rent.MostMoney())
}

// rented writes what is rented.
func (t *printer) rented(r *Rented) {
	t.printf("\nRented:\n")
	for _, b := range r.Left {
		if b.Box == "" {
			t.printf("  %s, by run %s for host %s, at $%.2f an hour: the next apply looks for it first\n", b, b.Run, b.Host, b.Price)
			continue
		}
		t.printf("  %s, which run %s left of host %s, at $%.2f an hour: the next apply gives it back first\n", b, b.Run, b.Host, b.Price)
	}
	for _, h := range r.Hosts {
		t.printf("  host %s: until %s after it is asked for, at most $%.2f", h.Host, Rough(time.Duration(h.TTL*float64(time.Second))), h.Most)
		if h.Least > 0 {
			t.printf(", at least $%.2f", h.Least)
		}
		t.printf("\n")
		if b := h.Box; b != nil && b.Box == "" {
			t.printf("    %s, by run %s at %s: the next apply looks for it first, and uses it if it fits\n", b, b.Run, b.Since.Local().Format(time.DateTime))
		} else if b != nil {
			t.printf("    %s of run %s is there since %s and has cost $%.2f so far: it is used again if it fits\n", b, b.Run, b.Since.Local().Format(time.DateTime), b.Cost)
		}
		if h.Error != "" {
			t.printf("    not known what there is: %s\n", h.Error)
			continue
		}
		more := 0
		for i, o := range h.Offers {
			if i >= 3 && o.ID != h.Chosen {
				more++
				continue
			}
			t.printf("    $%.2f an hour: %s\n", o.PricePerHour, described(o, h))
		}
		if more > 0 {
			t.printf("    and %d more\n", more)
		}
		if h.None != "" {
			t.printf("    nothing would be rented now: %s\n", h.None)
		}
		var ends []string
		for _, end := range h.Ends {
			ends = append(ends, endWords[end])
		}
		t.printf("    what ends it: %s\n", strings.Join(ends, "; "))
	}
	if len(r.Hosts) == 0 {
		return
	}
	t.printf("  Until their hard ends they cost at most $%.2f, loading and idling in it.", r.Most)
	if r.Unsure > 0 {
		t.printf(" $%.2f of that may go to earlier requests of which nobody knows whether they made a box.", r.Unsure)
	}
	if r.Least > 0 {
		t.printf(" At least it is $%.2f: the offers that would be taken now, for the estimated time.", r.Least)
	} else {
		t.printf(" What they cost at least is not known.")
	}
	t.printf("\n")
}

func (b RentedBox) String() string {
	if b.Box == "" {
		return "request " + b.Request + " of " + b.Plugin + ", of which nobody knows whether it made a box"
	}
	return "box " + b.Box + " of " + b.Plugin
}

// described is an offer in words.
func described(o protocol.Offer, h RentedHost) string {
	words := []string{o.ID}
	for _, s := range []string{o.GPUs, o.Region} {
		if s != "" {
			words = append(words, s)
		}
	}
	if o.From.After(time.Now()) {
		words = append(words, "from "+o.From.Local().Format(time.DateTime)+" on")
	}
	if o.Minimum > 0 {
		words = append(words, fmt.Sprintf("%g hours are billed at least", o.Minimum))
	}
	if o.Spot {
		words = append(words, "may be taken away")
	}
	if o.PricePerHour > h.MaxPrice {
		words = append(words, "above max_price")
	}
	if o.ID == h.Chosen {
		words = append(words, "would be taken now")
	}
	return strings.Join(words, ", ")
}
