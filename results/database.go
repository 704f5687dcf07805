package results

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"
)

// database is what the store's statements run on: SQLite in a file of its own, or
// PostgreSQL on a server that a team shares. Statements are written once, in what
// both understand, with ? for parameters. Where the two differ is said here, and
// of the schema in schema/.
type database struct {
	*sql.DB
	shared   bool            // PostgreSQL
	name     string          // for people
	patience time.Duration   // for how long a server that is away is waited for
	refuses  error           // why nothing can be written; nil: it can
	lacks    map[string]bool // "table.column", or a table, of a schema that is older than this program
	log      *slog.Logger
}

// statements run in a transaction or alone.
type statements struct {
	on interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
		QueryRowContext(context.Context, string, ...any) *sql.Row
	}
	shared bool
}

// executor runs one statement: a transaction, or a database by itself.
type executor interface {
	exec(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (s statements) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	query, args = forDatabase(s.shared, query, args)
	return s.on.ExecContext(ctx, query, args...)
}

// exec runs one statement, which must bear being run twice: where the server goes
// away at the wrong moment, nobody can tell whether it was.
func (d *database) exec(ctx context.Context, query string, args ...any) (res sql.Result, err error) {
	if d.refuses != nil {
		return nil, d.refuses
	}
	err = d.patiently(ctx, func() error {
		res, err = statements{d.DB, d.shared}.exec(ctx, query, args...)
		return err
	})
	return res, err
}

// get reads the one row of an answer; none is [sql.ErrNoRows].
func (d *database) get(ctx context.Context, query string, args []any, targets ...any) error {
	query, args = forDatabase(d.shared, query, args)
	return d.patiently(ctx, func() error { return d.QueryRowContext(ctx, query, args...).Scan(targets...) })
}

// change runs do in a transaction: all of it happens, or nothing. Do must bear
// being run twice.
func (d *database) change(ctx context.Context, do func(statements) error) error {
	if d.refuses != nil {
		return d.refuses
	}
	return d.patiently(ctx, func() error {
		tx, err := d.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err = do(statements{tx, d.shared}); err == nil {
			err = tx.Commit()
		}
		if err != nil {
			if undo := tx.Rollback(); !errors.Is(undo, sql.ErrTxDone) && !errors.Is(undo, driver.ErrBadConn) {
				err = errors.Join(err, undo)
			}
		}
		return err
	})
}

// collect runs a query and reads every row of its answer into what it is told to; what
// names it in errors.
func collect[T any](ctx context.Context, d *database, what, query string, args []any, into func(*T) []any) (all []T, err error) {
	query, args = forDatabase(d.shared, query, args)
	err = d.patiently(ctx, func() error {
		all = nil
		rows, err := d.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var v T
			if err := rows.Scan(into(&v)...); err != nil {
				return err
			}
			all = append(all, v)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return all, nil
}

func only[T any](v *T) []any { return []any{v} }

// patiently does something again while the server is away: what was measured for
// an hour must not be lost because a database was restarted.
func (d *database) patiently(ctx context.Context, do func() error) error {
	err := do()
	if !d.shared || !away(err) || ctx.Err() != nil {
		return err
	}
	if d.patience == 0 { // it is being opened: nothing is lost
		return fmt.Errorf("it does not answer: %w", cause(err))
	}
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	d.log.Warn("the store does not answer; it is tried again", "store", d.name, "for", d.patience, "err", cause(err))
	for pause := 50 * time.Millisecond; away(err); pause = min(2*pause, 2*time.Second) {
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return fmt.Errorf("the store %s was away for too long: %w", d.name, cause(err))
		case <-wait.C:
		}
		err = do()
	}
	if err == nil {
		d.log.Info("the store answers again", "store", d.name)
	}
	return err
}

// cause is an error without the lines in which the driver says what it tried.
func cause(err error) error {
	if op := new(net.OpError); errors.As(err, &op) {
		return op
	}
	return err
}

// away reports whether an error says that the server cannot be reached or is just
// stopping or starting, and nothing about what it was asked.
func away(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if said := new(pgconn.PgError); errors.As(err, &said) {
		switch said.Code {
		case "57P01", "57P02", "57P03", // it is shut down, has crashed, starts
			"53300": // too many connections
			return true
		}
		return strings.HasPrefix(said.Code, "08") // connections
	}
	return errors.As(err, new(*pgconn.ConnectError)) || errors.As(err, new(*net.OpError)) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}

// ErrFull says that there is no room left where the store is: nothing more can be
// kept.
var ErrFull = errors.New("the store has no room left")

func full(err error) error {
	file, server := new(sqlite.Error), new(pgconn.PgError)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT),
		errors.As(err, &file) && (file.Code()&0xff == sqlitelib.SQLITE_FULL || file.Code() == sqlitelib.SQLITE_IOERR_SHMSIZE),
		errors.As(err, &server) && server.Code == "53100": // disk_full
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// forDatabase is a statement as the database wants it.
func forDatabase(shared bool, query string, args []any) (string, []any) {
	if shared {
		return numbered(query), storable(args)
	}
	return query, args
}

// numbered writes $1, $2, … for each ?, as PostgreSQL wants its parameters. No
// statement has one in a text.
func numbered(query string) string {
	parts := strings.Split(query, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}

// storable is args without what PostgreSQL's text cannot hold: bytes that are not
// UTF-8, and zeros, also those that are escaped in JSON. Both occur in what broken
// servers answer.
func storable(args []any) []any {
	clean := strings.NewReplacer("\x00", "\uFFFD", `\u0000`, `\ufffd`)
	out := make([]any, len(args))
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			arg = clean.Replace(strings.ToValidUTF8(s, "\uFFFD"))
		}
		out[i] = arg
	}
	return out
}
