// Package provider is a provider of rented boxes for the tests: a program hcl-rent-NAME whose account is a file, and which
// does wrong what real ones do wrong. A test binary is such a program where its environment says so: see [Program].
package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hclbench/provision/rent/protocol"
)

// The variables that make a test binary such a program.
const (
	EnvAccount = "PROVIDER_ACCOUNT" // the file; it has to be there
	EnvFaults  = "PROVIDER_FAULTS"  // names with a comma between, see [Fault]
	EnvToken   = "PROVIDER_TOKEN"   // which the account wants, if it has one
)

// Account is what the provider knows.
type Account struct {
	Token    string
	Ahead    time.Duration // its clock, before this machine's
	Address  string        // of the boxes that run; of more than one, the addresses with commas between, given to one box after the other
	Private  string        // likewise, in a network between them; empty: not told
	User     string
	HostKeys []string
	LetIn    string // a file of authorized_keys, which gets the key of each box; empty: none does; of more than one box, as Address
	GPUs     string
	Price    float64
	Minimum  float64       // hours that are billed at least
	Slow     time.Duration // so long its program takes for an answer: half of it before anything is done, and half after
	Forgets  bool          // it knows nothing of a box that is gone; else it tells until when that was billed
	Boots    int           // so many questions for its status it takes until a box runs
	Can      protocol.Capabilities
	Boxes    []Box
	Asked    map[string]int // verbs
}

// Box is a box with what only the provider knows.
type Box struct {
	protocol.Box
	UserData  string    // that it was made with
	Questions int       // for its status
	Deletes   int       // that were asked for
	Hard      time.Time // the deadline that was asked for last, also where the provider keeps none
	OffAt     time.Time // when it shuts itself down, as its user data says; zero: never
	GoneAt    time.Time // zero: it costs money
}

// The faults.
const (
	LostBefore    = "create answers nothing and makes nothing"
	LostAfter     = "create answers nothing and makes a box"
	RefusedMade   = "create says refused and makes a box"
	Twice         = "create makes two boxes"
	Late          = "a box is in the list only when it was looked for twice"
	Quota         = "create says refused"
	Dearer        = "a box is dearer than its offer"
	DearerLater   = "a box is dearer once it runs"
	LaterEnd      = "the deadline of a box is another once it runs"
	NoEnd         = "a box has no deadline"
	NoLabels      = "a box has its request and no labels"
	NeverBoots    = "a box stays pending"
	BootFails     = "a box fails"
	Lies          = "status says gone after the first delete, which does nothing"
	Ignored       = "the first two deletes do nothing"
	DeleteRefused = "the first two deletes are refused"
	Garbage       = "the answers are no JSON"
	Megabytes     = "the answers are megabytes"
	StatusFails   = "every second status fails"
	Dies          = "the program is killed now and then, before it has done what was asked, or after"
)

// Program is the main function of the program, if the environment says that this process is one: it does not return then.
func Program() {
	path := os.Getenv(EnvAccount)
	if path == "" {
		return
	}
	faults := strings.Split(os.Getenv(EnvFaults), ",")
	has := func(fault string) bool { return slices.Contains(faults, fault) }
	if has(Garbage) {
		fmt.Println("<html>502 Bad Gateway</html>")
		os.Exit(0)
	}
	if has(Megabytes) {
		for range 6 << 10 {
			fmt.Println(strings.Repeat("x", 1<<10))
		}
		os.Exit(0)
	}
	protocol.Main(func(q protocol.Request) (a protocol.Answer, told error) {
		die := func() {
			if has(Dies) && rand.IntN(15) == 0 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		die()
		defer die()
		var slow time.Duration
		err := Change(path, func(acc *Account) { slow = acc.Slow })
		time.Sleep(slow / 2)
		err = errors.Join(err, Change(path, func(acc *Account) { a, told = acc.answer(q, has) }))
		time.Sleep(slow / 2)
		return a, errors.Join(told, err)
	})
}

// New writes an account, and returns the environment of its program.
func New(path string, acc Account, faults ...string) (env map[string]string, err error) {
	text, err := json.Marshal(acc)
	if err != nil {
		return nil, err
	}
	return map[string]string{EnvAccount: path, EnvFaults: strings.Join(faults, ","), EnvToken: acc.Token}, os.WriteFile(path, text, 0o600)
}

// Change has an account changed, or looked at, by one process at a time. Who is killed meanwhile has changed all or nothing.
func Change(path string, how func(*Account)) (err error) {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var acc Account
	if err := json.Unmarshal(text, &acc); err != nil {
		return err
	}
	how(&acc)
	if text, err = json.Marshal(acc); err != nil {
		return err
	}
	if err := os.WriteFile(path+".next", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".next", path)
}

func (acc *Account) answer(q protocol.Request, has func(fault string) bool) (a protocol.Answer, err error) {
	now := time.Now().Add(acc.Ahead)
	a.Now = now
	if token := os.Getenv(EnvToken); acc.Token != token {
		return a, &protocol.Error{Code: protocol.Refused, Message: "the token " + token + " is not valid"}
	}
	if acc.Asked == nil {
		acc.Asked = map[string]int{}
	}
	acc.Asked[q.Verb]++
	for i := range acc.Boxes { // who has a deadline ends by it
		if b := &acc.Boxes[i]; b.GoneAt.IsZero() && acc.Can.Deadline && !b.Deadline.IsZero() && now.After(b.Deadline) {
			b.End(b.Deadline)
		} else if b.GoneAt.IsZero() && !b.OffAt.IsZero() && now.After(b.OffAt) {
			b.State = protocol.Failed
		}
	}
	at := slices.IndexFunc(acc.Boxes, func(b Box) bool {
		return (q.ID != "" && b.ID == q.ID || q.ID == "" && q.Request != "" && b.Request == q.Request) && !(acc.Forgets && b.State == protocol.Gone && q.Verb != protocol.Cost)
	})
	if slices.Contains([]string{protocol.Status, protocol.Delete, protocol.Extend, protocol.Cost}, q.Verb) && at < 0 {
		return a, &protocol.Error{Code: protocol.NotFound, Message: "no such box"}
	}
	var b *Box
	if at >= 0 {
		b = &acc.Boxes[at]
	}
	switch q.Verb {
	case protocol.Capable:
		a.Capabilities = &acc.Can
	case protocol.Offers:
		a.Offers = []protocol.Offer{
			{ID: "dear", GPUs: acc.GPUs, PricePerHour: 100 * acc.Price}, {ID: "cheap", GPUs: acc.GPUs, PricePerHour: acc.Price, Minimum: acc.Minimum, Region: "here"},
			{ID: "later", GPUs: acc.GPUs, PricePerHour: acc.Price / 2, From: now.Add(time.Hour)},
		}
		if acc.GPUs != "" {
			a.Offers = append(a.Offers, protocol.Offer{ID: "other", GPUs: "1xA100", PricePerHour: acc.Price / 100})
		}
	case protocol.Create:
		return acc.create(q, a, now, has)
	case protocol.Status:
		b.Questions++
		switch {
		case has(StatusFails) && b.Questions%2 == 1:
			return a, errors.New("502 Bad Gateway")
		case has(Lies) && b.Deletes == 1 && b.GoneAt.IsZero():
			gone := b.Box
			gone.State, a.Box = protocol.Gone, &gone
			return a, nil
		case b.State == protocol.Pending && has(BootFails):
			b.State = protocol.Failed
		case b.State == protocol.Pending && b.Questions > acc.Boots && !has(NeverBoots):
			b.State, b.User, b.HostKeys = protocol.Running, acc.User, acc.HostKeys
			if has(DearerLater) {
				b.PricePerHour *= 2
			}
			if has(LaterEnd) {
				b.Deadline = b.Deadline.Add(24 * time.Hour)
			}
			b.Address, b.Private = of(acc.Address, at), of(acc.Private, at)
		}
		a.Box = &b.Box
	case protocol.Delete:
		b.Deletes++
		switch {
		case has(DeleteRefused) && b.Deletes <= 2:
			return a, &protocol.Error{Code: protocol.Refused, Message: "the box is locked"}
		case has(Ignored) && b.Deletes <= 2, has(Lies) && b.Deletes <= 1:
		case b.GoneAt.IsZero():
			b.End(now)
		}
	case protocol.List:
		if !acc.Can.List {
			return a, &protocol.Error{Code: protocol.Refused, Message: "no list"}
		}
		for i := range acc.Boxes {
			if b := &acc.Boxes[i]; b.GoneAt.IsZero() && (!has(Late) || acc.Asked[protocol.List] > 2) {
				a.Boxes = append(a.Boxes, b.Box)
			}
		}
	case protocol.Extend:
		b.Hard, b.Labels = q.Deadline, q.Labels
		if acc.Can.Deadline {
			b.Deadline = q.Deadline
		}
		a.Box = &b.Box
	case protocol.Cost:
		end := b.GoneAt
		if end.IsZero() {
			end = now
		}
		cost := end.Sub(b.BilledFrom).Hours() * b.PricePerHour
		a.Cost = &cost
	}
	return a, nil
}

// End ends a box at a time. One that was off before has cost nothing since.
func (b *Box) End(at time.Time) {
	if !b.OffAt.IsZero() && at.After(b.OffAt) {
		at = b.OffAt
	}
	b.State, b.GoneAt, b.BilledUntil = protocol.Gone, at, at
}

// offAfter is how long after its start a box shuts itself down, as its user data has it; 0: it does not.
func offAfter(userData string) (time.Duration, error) {
	if userData == "" {
		return 0, nil
	}
	machine, err := os.MkdirTemp("", "box")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(machine)
	minutes, err := exec.Command("sh", "-c", "shutdown() { echo \"${2}m\"; }\n"+strings.ReplaceAll(userData, "/var/", machine+"/")).Output()
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(strings.TrimSpace(string(minutes)))
}

// of is what of a list with commas is given to a box.
func of(list string, box int) string {
	all := strings.Split(list, ",")
	return all[box%len(all)]
}

func (acc *Account) create(q protocol.Request, a protocol.Answer, now time.Time, has func(string) bool) (protocol.Answer, error) {
	silent := errors.New("read tcp 127.0.0.1: connection reset by peer")
	switch {
	case has(Quota):
		return a, &protocol.Error{Code: protocol.Refused, Message: "your quota of 8 GPUs is used up"}
	case has(LostBefore):
		return a, silent
	}
	if letIn := of(acc.LetIn, len(acc.Boxes)); letIn != "" {
		f, err := os.OpenFile(letIn, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString("\n" + q.PublicKey + "\n")
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return a, err
		}
	}
	b := Box{Box: protocol.Box{
		ID: "box-" + strconv.Itoa(len(acc.Boxes)+1), Request: q.Request, Labels: q.Labels, State: protocol.Pending, PricePerHour: acc.Price,
		BilledFrom: now, Deadline: q.Deadline,
	}, UserData: q.UserData, Hard: q.Deadline}
	if has(Dearer) {
		b.PricePerHour *= 3
	}
	if off, err := offAfter(q.UserData); err != nil {
		return a, err
	} else if off > 0 {
		b.OffAt = now.Add(off)
	}
	if has(NoEnd) || !acc.Can.Deadline {
		b.Deadline = time.Time{}
	}
	if has(NoLabels) {
		b.Labels = nil
	}
	acc.Boxes = append(acc.Boxes, b)
	if has(Twice) {
		b.ID = "box-" + strconv.Itoa(len(acc.Boxes)+1)
		acc.Boxes = append(acc.Boxes, b)
	}
	a.Box = &b.Box
	switch {
	case has(LostAfter), has(Twice), has(Late):
		return protocol.Answer{}, silent
	case has(RefusedMade):
		return protocol.Answer{}, &protocol.Error{Code: protocol.Refused, Message: "there is no stock"}
	}
	return a, nil
}
