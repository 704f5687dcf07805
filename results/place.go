package results

import (
	"context"
	"fmt"
)

// place is what differs between a folder and a database that a team shares: who holds
// what, and where the records of cells are.
type place interface {
	// lock takes a lab for one apply at a time; it is ErrLocked, with who has it, when
	// somebody else does.
	lock(ctx context.Context, lab, who string) (unlock func() error, err error)
	// held is ctx until somebody else has what is locked.
	held(ctx context.Context) (held context.Context, stop func())
	// begin shows others that a run goes on, for as long as this process lives, or until
	// end.
	begin(ctx context.Context, run string) error
	end(ctx context.Context, run string) error
	running(ctx context.Context, runs []string) (map[string]bool, error)
	// alone waits until no other process opens the store, or changes more of it than its
	// database.
	alone(ctx context.Context) (done func(), err error)

	// keep stores rows in a transaction, and the records of cells with them, whole or not
	// at all: names is what their rows say of where they are. Of records that had their
	// place before, nothing is left. Rows must bear being stored twice.
	keep(ctx context.Context, of scope, records map[string]packed, rows func(tx statements, names map[string]string) error) error
	// open reads the compressed records of a cell, which its row names.
	open(ctx context.Context, run, cell, name string) ([]byte, error)
	// drop removes what a run that was cut off has left half done beside the database.
	drop(ctx context.Context, d *Dropped) error
	// measure adds the bytes of records to the runs that are named, and finds records
	// that no cell names.
	measure(ctx context.Context, runs map[string]int64) (lost []Litter, err error)

	close() error
}

// scope is a cell of a run, or all of them.
type scope struct{ run, cell string }

// busy says that another process is at a run.
func busy(run string) error { return fmt.Errorf("%w: another process is at run %s", ErrLocked, run) }
