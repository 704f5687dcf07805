// Package protocol is what hcl and the programs hcl-rent-NAME say to each other: one JSON value in, one out, for each run of the
// program. docs/rent.md describes it for those who write such a program. The package knows no provider, and starts nothing.
package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Version is of the protocol. A program answers in the version that it is asked in, or says that it does not know it.
const Version = 1

// The verbs, which are the program's only argument.
const (
	Capable = "capabilities" // what the provider can do, for a Spec where one is meant
	Offers  = "offers"       // what there is for a Spec, with its price
	Create  = "create"       // make a box: Request, Offer, Labels, Deadline, MaxSpend, PublicKey, UserData, Spec
	Status  = "status"       // of a box, by ID, or by Request where nobody knows its ID
	Delete  = "delete"       // end a box, likewise; to delete what is gone is no error. A Box may be told, with BilledUntil
	List    = "list"         // all boxes of the account, ours or not, with their labels
	Extend  = "extend"       // set a box's Deadline and Labels anew, later or earlier
	Cost    = "cost"         // what a box has cost so far
)

// The labels of each box that hcl has made.
const (
	LabelLab     = "hcl-lab"
	LabelRun     = "hcl-run"
	LabelRequest = "hcl-request"
	LabelExpires = "hcl-expires" // RFC 3339, UTC: from then on anybody may delete it
)

// Request is what the program reads from its standard input. A verb's members are named beside it; others are empty.
type Request struct {
	Protocol  int               `json:"protocol"`
	Verb      string            `json:"verb"`
	ID        string            `json:"id,omitempty"`      // of a box, as the provider names it
	Request   string            `json:"request,omitempty"` // of a create, as hcl names it: letters, digits and "-"
	Offer     string            `json:"offer,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Deadline  time.Time         `json:"deadline,omitzero"`    // by the provider's clock
	MaxSpend  float64           `json:"max_spend,omitempty"`  // USD: what the box may cost until its deadline
	PublicKey string            `json:"public_key,omitempty"` // that is to be let in, as in authorized_keys
	UserData  string            `json:"user_data,omitempty"`  // for cloud-init, where there is one
	Spec      map[string]string `json:"spec,omitempty"`
}

// Answer is what the program writes to its standard output, whatever it exits with. Without an Error, the exit code is 0.
type Answer struct {
	Protocol     int           `json:"protocol"`
	Now          time.Time     `json:"now,omitzero"` // the provider's clock, where it tells it
	Capabilities *Capabilities `json:"capabilities,omitempty"`
	Offers       []Offer       `json:"offers,omitempty"`
	Box          *Box          `json:"box,omitempty"` // of create, status and extend; where it is known until when it is billed, of delete too
	Boxes        []Box         `json:"boxes,omitempty"`
	Cost         *float64      `json:"cost,omitempty"` // USD
	Error        *Error        `json:"error,omitempty"`
}

// Capabilities are what a provider can do; what it cannot, hcl does without, and says so in the plan.
type Capabilities struct {
	Deadline  bool `json:"deadline"`    // it ends a box at its deadline, whoever is alive then
	OffIsFree bool `json:"off_is_free"` // a box that has shut itself down costs nothing any more
	List      bool `json:"list"`        // it can tell of all boxes, with labels
	Extend    bool `json:"extend"`
	Cost      bool `json:"cost"`
	// Account is what the provider calls the account that the key is of: no secret. Where it is told, a box is believed to be gone
	// only by the account that it was rented in.
	Account string `json:"account,omitempty"`
}

// Offer is a box that can be had.
type Offer struct {
	ID           string    `json:"id"`
	Region       string    `json:"region,omitempty"`
	GPUs         string    `json:"gpus,omitempty"`          // "8xH200"; empty: none, or not told
	PricePerHour float64   `json:"price_per_hour"`          // USD, of the whole box
	From         time.Time `json:"from,omitzero"`           // when it can be had; zero: now
	Minimum      float64   `json:"minimum_hours,omitempty"` // that are billed even if it is deleted before
	Spot         bool      `json:"spot,omitempty"`          // it may be taken away
}

// State is how far a box is.
type State string

// The states of a box. Only [Gone] says that it costs nothing any more.
const (
	Pending State = "pending"
	Running State = "running"
	Ending  State = "ending"
	Failed  State = "failed" // it will never run, and may cost money until it is deleted
	Gone    State = "gone"
)

// Box is a machine that somebody pays for.
type Box struct {
	ID           string            `json:"id"`
	Request      string            `json:"request,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	State        State             `json:"state"`
	Address      string            `json:"address,omitempty"`         // "host" or "host:port"; empty: it has none yet
	Private      string            `json:"private_address,omitempty"` // an IP address at which other boxes of the account reach it; empty: not told
	User         string            `json:"user,omitempty"`
	HostKeys     []string          `json:"host_keys,omitempty"` // as in known_hosts, without the host; empty: not told
	PricePerHour float64           `json:"price_per_hour,omitempty"`
	BilledFrom   time.Time         `json:"billed_from,omitzero"`
	BilledUntil  time.Time         `json:"billed_until,omitzero"` // of one that is ending or gone; zero: not told
	Deadline     time.Time         `json:"deadline,omitzero"`     // at which the provider ends it; zero: it does not
	Odd          string            `json:"-"`                     // what a program has told of it that cannot be used, and is left out; hcl's own
}

// IsPrivate reports whether a text may be a private_address: an IP address at which other hosts can find one.
func IsPrivate(text string) bool {
	ip := net.ParseIP(text)
	return ip != nil && !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsMulticast()
}

// Error is why a verb was not done.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// The codes of errors. Any other says that nobody knows what came of it: after a create hcl then looks for the box.
const (
	NotFound = "not_found" // there is no such box (any more)
	Refused  = "refused"   // nothing was done, and nothing will be until something is changed: a quota, a key, a price
	Busy     = "busy"      // nothing was done, and later it may be: no stock, too many requests
)

// Serve is the main function of a program hcl-rent-NAME: it reads the request, has it answered, and returns the exit code.
func Serve(args []string, in io.Reader, out io.Writer, answer func(Request) (Answer, error)) int {
	var q Request
	a, err := Answer{}, json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&q)
	switch {
	case err != nil:
		err = &Error{Refused, fmt.Sprintf("the request cannot be read: %v", err)}
	case q.Protocol != Version:
		err = &Error{Refused, fmt.Sprintf("this program speaks version %d of the protocol, and was asked in version %d", Version, q.Protocol)}
	case len(args) != 1 || args[0] != q.Verb:
		err = &Error{Refused, "the verb is the only argument, and stands in the request too"}
	default:
		a, err = answer(q)
	}
	a.Protocol = Version
	if err != nil {
		if !errors.As(err, &a.Error) {
			a.Error = &Error{"unknown", err.Error()}
		}
	}
	if json.NewEncoder(out).Encode(a) != nil || err != nil {
		return 1
	}
	return 0
}

// Main is [Serve] of this process.
func Main(answer func(Request) (Answer, error)) {
	os.Exit(Serve(os.Args[1:], os.Stdin, os.Stdout, answer))
}
