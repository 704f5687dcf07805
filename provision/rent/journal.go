package rent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hclbench/provision/rent/protocol"
)

// Rental is a box that was asked for, with what is known of it.
type Rental struct {
	Request  string            `json:"request"` // as hcl names it, also at the provider
	Plugin   string            `json:"plugin"`
	Host     string            `json:"host"`
	Lab      string            `json:"lab"`
	Run      string            `json:"run"`
	Spec     map[string]string `json:"spec,omitempty"`
	Asked    time.Time         `json:"asked"`    // by this machine's clock
	Deadline time.Time         `json:"deadline"` // its hard end, by the provider's clock
	Until    time.Time         `json:"-"`        // likewise, by this machine's; of one that was just rented
	Price    float64           `json:"price"`    // USD an hour, as it was offered
	Stage    Stage             `json:"stage"`
	Box      protocol.Box      `json:"box,omitzero"`
	Hard     time.Time         `json:"hard,omitzero"`      // the hard end that was told, where Deadline is nearer, as it is kept
	Ended    time.Time         `json:"ended,omitzero"`     // when it was seen to be gone
	Cost     float64           `json:"cost,omitempty"`     // USD, once it is gone
	ByUs     bool              `json:"computed,omitempty"` // the cost is price by time, as the provider tells none
}

// String names it in messages.
func (t *Rental) String() string {
	if t.Box.ID == "" {
		return fmt.Sprintf("request %s of %s", t.Request, t.Plugin)
	}
	return fmt.Sprintf("box %s of %s", t.Box.ID, t.Plugin)
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

// Open are the rentals of a host that may cost money.
func (j *Journal) Open(host string) (open []*Rental, err error) {
	all, err := j.Rentals()
	return slices.DeleteFunc(all, func(t *Rental) bool { return t.Host != host || !t.Open() }), err
}

// Note writes down how far a rental is. It returns when that is on the disk.
func (j *Journal) Note(t *Rental) (err error) {
	line, err := json.Marshal(t)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
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
// process has not ended is passed over; one that cannot be read otherwise is an error.
func (j *Journal) Rentals() (all []*Rental, err error) {
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
