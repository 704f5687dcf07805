package rent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hclbench/provision/rent/protocol"
)

// Rental is a box that was asked for, with what is known of it.
type Rental struct {
	Request  string            `json:"request"` // as hcl names it, also at the provider
	Plugin   string            `json:"plugin"`
	Payer    string            `json:"account,omitempty"` // as the provider calls it; empty: not told
	Login    string            `json:"login,omitempty"`   // of [Plugin.login], that has made it, or has seen it last; empty: an earlier hcl has not noted it
	Host     string            `json:"host"`
	Lab      string            `json:"lab"`
	Run      string            `json:"run"`
	Spec     map[string]string `json:"spec,omitempty"`
	GPUs     string            `json:"gpus,omitempty"`          // as they were offered, else as they were asked for; empty: any, or an earlier hcl has not noted them
	Key      string            `json:"key,omitempty"`           // the public one that it was made to let in; empty: an earlier hcl has not noted it
	Asked    time.Time         `json:"asked"`                   // by this machine's clock
	Deadline time.Time         `json:"deadline"`                // its hard end, by the provider's clock
	Until    time.Time         `json:"-"`                       // likewise, by this machine's; of one that was just rented
	Price    float64           `json:"price"`                   // USD an hour, as it was offered
	Minimum  float64           `json:"minimum_hours,omitempty"` // that are billed at least
	Most     float64           `json:"most,omitempty"`          // USD that it can cost until its hard end
	Shares   []Share           `json:"shares,omitempty"`        // of the runs that have had it, one after the other
	Stage    Stage             `json:"stage"`

	// OffAfter is how long after a lease on it that nobody renews it shuts itself down, as it costs nothing when it is off; 0: it does not.
	OffAfter time.Duration `json:"off_after,omitempty"`

	// NoEnd says that nothing but hcl ends it: its provider does not, and it does not shut itself down.
	NoEnd bool `json:"no_end,omitempty"`

	Box   protocol.Box `json:"box,omitzero"`
	Hard  time.Time    `json:"hard,omitzero"`      // the hard end that was told, where Deadline is nearer, as it is kept
	Ended time.Time    `json:"ended,omitzero"`     // when it was seen to be gone
	Cost  float64      `json:"cost,omitempty"`     // USD, once it is gone
	ByUs  bool         `json:"computed,omitempty"` // the cost is price by time, as the provider tells none
	taken bool         // another box has its ID by now, as its request says
}

// Share is what one run has of a box. The time until the next run takes it, or it is gone, is of the run that has left it.
type Share struct {
	Run   string    `json:"run"`
	From  time.Time `json:"from"`            // since when it is billed, or when it was taken from the run before; all by this machine's clock
	Up    time.Time `json:"up,omitzero"`     // when it let the run in
	Ready time.Time `json:"ready,omitzero"`  // when it was checked, and could be worked on
	Price float64   `json:"price,omitempty"` // USD an hour, once the next run has it: the provider may tell another one since
	Until time.Time `json:"-"`               // see [Rental.Account]
	Cost  float64   `json:"-"`               // USD, by price and time
	Told  float64   `json:"-"`               // USD, of what the provider says that the box has cost; 0: it does not say it (yet)
}

// Last is the share of the run that has it now.
func (t *Rental) Last() *Share {
	if len(t.Shares) == 0 { // it was noted by an earlier hcl
		t.Shares = []Share{{Run: t.Run, From: t.Asked}}
	}
	return &t.Shares[len(t.Shares)-1]
}

// Since is when it began to cost money, as far as that is known.
func (t *Rental) Since() time.Time {
	t.Last()
	return t.Shares[0].From
}

// Costs is what it has cost at a time, in USD, by its price.
func (t *Rental) Costs(at time.Time) (usd float64) {
	for _, s := range t.until(at) {
		usd += s.Cost
	}
	return usd
}

// Account divides its time and its cost among the runs that have had it: until it was gone, or until now.
func (t *Rental) Account(now time.Time) []Share {
	end := cmp.Or(t.Ended, now)
	all, whole := t.until(end), t.Costs(end)
	for i := range all {
		if s := &all[i]; t.Stage == Over && !t.ByUs && whole > 0 {
			s.Told = t.Cost * s.Cost / whole
		}
	}
	return all
}

// until divides it as if it ended then. What is billed beyond the time that it was there is of the last run.
func (t *Rental) until(end time.Time) []Share {
	begin, last := t.Since(), len(t.Shares)-1
	all, beyond := slices.Clone(t.Shares), t.Minimum-max(0, end.Sub(begin).Hours())
	for i := last; i >= 0; i-- {
		s := &all[i]
		if i == last || s.Price == 0 {
			s.Price = t.PerHour()
		}
		if s.From.Before(begin) { // a clock was set meanwhile
			s.From = begin
		}
		if s.From.After(end) {
			s.From = end
		}
		s.Until, end = end, s.From
		s.Cost = s.Until.Sub(s.From).Hours() * s.Price
	}
	all[last].Cost += max(0, beyond) * all[last].Price
	return all
}

// PerHour is its price, in USD.
func (t *Rental) PerHour() float64 { return cmp.Or(t.Box.PricePerHour, t.Price) }

// String names it in messages.
func (t *Rental) String() string {
	if t.Box.ID == "" {
		return fmt.Sprintf("request %s of %s", t.Request, t.Plugin)
	}
	return fmt.Sprintf("box %s of %s", t.Box.ID, t.Plugin)
}

// End says when its time is over, or was, and who sees to that.
func (t *Rental) End() string {
	is, at := "is", t.Deadline.Local().Format(time.DateTime)
	if !time.Now().Before(t.Deadline) {
		is = "was"
	}
	if t.NoEnd {
		return fmt.Sprintf("its time %s over at %s, and nothing but hcl ends it", is, at)
	}
	return fmt.Sprintf("its hard end %s at %s", is, at)
}

// Money is what it has cost: "$12.30", or "about $12.30" where the provider does not tell it.
func (t *Rental) Money() string {
	if t.ByUs {
		return fmt.Sprintf("about $%.2f", t.Cost)
	}
	return fmt.Sprintf("$%.2f", t.Cost)
}

// Stage is how far a rental is.
type Stage string

// The stages of a rental.
const (
	Asked Stage = "asked" // and nobody knows whether there is a box
	Made  Stage = "made"
	Kept  Stage = "kept"  // for the next run
	Over  Stage = "over"  // the provider says that it is gone
	Never Stage = "never" // the provider says that it was never made
)

// Open reports whether a rental may cost money.
func (t *Rental) Open() bool { return t.Stage == Asked || t.Stage == Made || t.Stage == Kept }

// Journal is the file of a lab's rentals: a line for each change of one, brought to the disk before anything is done.
type Journal struct {
	path string
	mu   sync.Mutex
}

// NewJournal is the journal in a directory, which is made when something is noted.
func NewJournal(dir string) *Journal { return &Journal{path: filepath.Join(dir, "rentals.jsonl")} }

// Dir is the directory.
func (j *Journal) Dir() string { return filepath.Dir(j.path) }

// Open are the rentals that may cost money, those that are meant.
func (j *Journal) Open(meant func(*Rental) bool) (open []*Rental, err error) {
	all, err := j.Rentals()
	return slices.DeleteFunc(all, func(t *Rental) bool { return !t.Open() || !meant(t) }), err
}

// Commit notes a new rental, unless the lab's money cannot carry it: see [Carries].
func (j *Journal) Commit(t *Rental, most float64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	all, err := j.Rentals()
	if err == nil {
		err = Carries(all, t, most)
	}
	if err != nil {
		return err
	}
	return j.note(t)
}

// MostMoney is what it can cost until its hard end, in USD.
func (t *Rental) MostMoney() float64 {
	hours := cmp.Or(t.Hard, t.Deadline).Sub(t.Asked).Hours()
	return cmp.Or(t.Most, t.Price*max(hours, t.Minimum)) // an earlier hcl has not noted it
}

// Carries is an [ErrBudget] if a new rental, the other boxes of its lab that may cost money, and those that its run has paid for, could cost more
// than most, in USD; 0: there is no limit.
func Carries(all []*Rental, t *Rental, most float64) error {
	var before float64
	var open []string
	for _, o := range all {
		switch {
		case o.Lab != t.Lab:
		case o.Open():
			before += o.MostMoney()
			open = append(open, fmt.Sprintf("%s of run %s until %s", o, o.Run, o.Deadline.Local().Format(time.DateTime)))
		case o.Run == t.Run:
			before += o.Cost
		}
	}
	if sum := before + t.Most; most > 0 && sum > most*(1+1e-9) {
		return fmt.Errorf("%w: max_money is $%.2f. This box can cost $%.2f, and $%.2f may go to what was rented before (%s). "+
			"`hcl destroy` gives back what is there", ErrBudget, most, t.Most, before, cmp.Or(strings.Join(open, ", "), "by this run"))
	}
	return nil
}

// Note writes down how far a rental is. It returns when that is on the disk.
func (j *Journal) Note(t *Rental) (err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.note(t)
}

func (j *Journal) note(t *Rental) (err error) {
	line, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(j.Dir(), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if end, err := f.Seek(0, 2); err != nil {
		return err
	} else if end > 0 { // a line that a killed process has begun is no part of this one
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, end-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

// Rentals are all of the journal, each as it was noted last, in the order in which they were asked for. A line that a killed
// process has not ended is passed over; one that cannot be read otherwise is an error. Without a journal there are none.
func (j *Journal) Rentals() (all []*Rental, err error) {
	if j == nil {
		return nil, nil
	}
	text, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for n, line := range bytes.Split(text, []byte("\n")) {
		t := new(Rental)
		if err := json.Unmarshal(line, t); err != nil {
			if syntax, is := errors.AsType[*json.SyntaxError](err); is && syntax.Offset >= int64(len(line)) {
				continue
			}
			return nil, fmt.Errorf("%s, line %d: %w", j.path, n+1, err)
		}
		if i, known := at[t.Request]; known {
			all[i] = t
		} else {
			at[t.Request], all = len(all), append(all, t)
		}
	}
	return slices.Clip(all), nil
}
