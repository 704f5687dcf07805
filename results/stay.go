package results

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Stay is what a run has had of a rented box, from when the box was billed, or was taken from an earlier run, until it was gone, or
// was taken by the next. So the time between two runs is of the one that has left the box.
type Stay struct {
	RunID   string    `json:"run_id"`
	Request string    `json:"request"` // hcl's name of the box
	Host    string    `json:"host"`
	Plugin  string    `json:"plugin"`
	Box     string    `json:"box"`            // the provider's name of it
	Price   float64   `json:"price_per_hour"` // USD
	Began   time.Time `json:"began"`
	Up      time.Time `json:"up,omitzero"`    // when it let the run in; zero: it did not
	Ready   time.Time `json:"ready,omitzero"` // when it was checked; zero: it was not
	Ended   time.Time `json:"ended"`          // until when it is known; of one that is closed, for good
	Closed  bool      `json:"closed"`
	Cost    float64   `json:"cost_usd"`           // by price and time
	Told    float64   `json:"told_usd,omitempty"` // of what the provider says that the box has cost; 0: it does not say it (yet)
}

func stayTable(s *Stay) table {
	return table{
		{"run_id", &s.RunID, false}, {"request", &s.Request, false}, {"host", &s.Host, false}, {"plugin", &s.Plugin, false}, {"box", &s.Box, false},
		{"price_per_hour", &s.Price, false}, {"began", &s.Began, false}, {"up", &s.Up, true}, {"ready", &s.Ready, true},
		{"ended", &s.Ended, false}, {"closed", &s.Closed, false}, {"cost_usd", &s.Cost, false}, {"told_usd", &s.Told, false},
	}
}

// PutStay stores what a run has had of a box, in place of what was stored of it before.
func (s *Store) PutStay(ctx context.Context, stay Stay) error {
	return storing((&Rows{ctx: ctx, on: s.db}).Stay(stay), "box", stay.Box, "of run", stay.RunID)
}

// Stay keeps what a run has had of a box.
func (r *Rows) Stay(s Stay) error { return stayTable(&s).put(r.ctx, r.on, "stays", 2) }

// Stays returns what runs have had of rented boxes, in the order of time: of one run, or of all, those that came in a bundle
// among them. One that cannot be read is an error beside the others.
func (s *Store) Stays(ctx context.Context, run string) (list []Stay, err error) {
	if s.db.lacks["stays"] {
		return nil, nil
	}
	all, err := things(ctx, s.db, "read stays", `SELECT `+stayTable(new(Stay)).names(s.db, "stays")+
		` FROM stays s WHERE s.run_id = ? OR ? = '' ORDER BY s.began, s.rowid`, []any{run, run}, stayTable)
	for _, stay := range all {
		if stay.why != nil {
			err = errors.Join(err, fmt.Errorf("box %s of run %s is damaged in the store: %w", stay.thing.Box, stay.thing.RunID, stay.why))
			continue
		}
		list = append(list, stay.thing)
	}
	return list, err
}
