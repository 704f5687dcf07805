package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// server is a store that a team shares: everything is in the database, locks too.
type server struct {
	db     *database
	claims *claims
}

// IsShared reports whether a place is the URL of a store that a team shares.
func IsShared(place string) bool {
	return strings.HasPrefix(place, "postgres://") || strings.HasPrefix(place, "postgresql://")
}

// serverPatience is for how long a server that is away is waited for, in the
// middle of something: a restart with recovery, a failover.
const serverPatience = 10 * time.Minute

// OpenShared opens the store in a PostgreSQL database, and makes it when there is
// none. What only this machine needs, the journals of its runs, is below dir. A
// password that the URL does not have is looked for as libpq does: PGPASSWORD,
// ~/.pgpass, a service. A server that cannot be reached is an error at once;
// later, it is waited for.
func OpenShared(ctx context.Context, place, dir string, log *slog.Logger) (*Store, error) {
	return openServer(ctx, place, dir, nil, log)
}

// LookShared opens the store in a PostgreSQL database to be read, and leaves it as it is; see [Look].
func LookShared(ctx context.Context, place, dir string, log *slog.Logger) (*Store, error) {
	return openServer(ctx, place, dir, errReading, log)
}

func openServer(ctx context.Context, place, dir string, refuses error, log *slog.Logger) (*Store, error) {
	cfg, err := pgx.ParseConfig(place)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err) // pgx leaves the password out
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	if _, ok := cfg.RuntimeParams["application_name"]; !ok {
		cfg.RuntimeParams["application_name"] = "hcl"
	}
	db := &database{DB: stdlib.OpenDB(*cfg), shared: true, name: sharedName(cfg), refuses: refuses, log: log}
	// One for locks, the others for hosts that store cells at once.
	db.SetMaxOpenConns(5)
	at := &server{db, newClaims(ctx, db)}
	s, err := newStore(ctx, dir, db, at)
	if err != nil {
		return nil, errors.Join(opening(db.name, err), at.close(), db.Close())
	}
	db.patience = serverPatience
	return s, nil
}

// sharedName is the URL without its password and without what only connections need.
func sharedName(cfg *pgx.ConnConfig) string {
	u := url.URL{Scheme: "postgres", User: url.User(cfg.User), Path: "/" + cfg.Database}
	switch {
	case strings.HasPrefix(cfg.Host, "/"):
		u.RawQuery = "host=" + cfg.Host
	case cfg.Port != 5432:
		u.Host = net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	default:
		u.Host = cfg.Host
	}
	return u.String()
}

func (s *server) close() error {
	s.claims.close()
	return nil
}

// exclusively waits for nobody: the database orders such changes by itself.
func (s *server) exclusively(context.Context) (done func(), err error) { return func() {}, nil }

func (s *server) lock(ctx context.Context, lab, who string) (unlock func() error, err error) {
	what := "lab " + lab
	got, err := s.claims.take(ctx, what, who)
	if err == nil && !got {
		var by map[int64]string
		by, err = s.db.claimed(ctx)
		err = errors.Join(fmt.Errorf("%w by %s", ErrLocked, cmp.Or(by[claimKey(what)], "somebody who has just given it back")), err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s in store %s: %w", what, s.db.name, err)
	}
	return func() error { return s.claims.give(context.WithoutCancel(ctx), what) }, nil
}

func (s *server) held(ctx context.Context) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	after := context.AfterFunc(s.claims.lost, func() { cancel(context.Cause(s.claims.lost)) })
	return held, func() {
		after()
		cancel(nil)
	}
}

func (s *server) begin(ctx context.Context, run string) error {
	got, err := s.claims.take(ctx, "run "+run, "")
	if err == nil && !got {
		err = busy(run)
	}
	return err
}

func (s *server) end(ctx context.Context, run string) error { return s.claims.give(ctx, "run "+run) }

func (s *server) running(ctx context.Context, runs []string) (map[string]bool, error) {
	by, err := s.db.claimed(ctx)
	if err != nil {
		return nil, err
	}
	going := map[string]bool{}
	for _, run := range runs {
		_, going[run] = by[claimKey("run "+run)]
	}
	return going, nil
}

// sharedRecords stands in a cell's row in place of a file's name when its records
// are in the shared database.
const sharedRecords = "table"

// recordsPart is how many bytes of records are in one row of a shared database.
const recordsPart = 1 << 20

func (s *server) keep(
	ctx context.Context, of scope, records map[string]packed, rows func(tx statements, names map[string]string) error,
) error {
	names := map[string]string{}
	for cell, p := range records {
		if p.mark.count > 0 {
			names[cell] = sharedRecords
		}
	}
	return s.db.change(ctx, func(tx statements) error {
		if err := rows(tx, names); err != nil {
			return err
		}
		for cell, p := range records {
			if err := putRecords(ctx, tx, of.run, cell, p); err != nil {
				return fmt.Errorf("write its records: %w", err)
			}
		}
		return nil
	})
}

// putRecords stores the records of a cell in parts, in place of those that are there.
func putRecords(ctx context.Context, tx statements, run, cell string, p packed) error {
	if _, err := tx.exec(ctx, `DELETE FROM records WHERE run_id = ? AND cell = ?`, run, cell); err != nil || p.mark.count == 0 {
		return err
	}
	content, err := p.bytes()
	n := 0
	for part := range slices.Chunk(content, recordsPart) {
		if n++; err == nil {
			_, err = tx.exec(ctx, `INSERT INTO records (run_id, cell, part, content) VALUES (?, ?, ?, ?)`, run, cell, n, part)
		}
	}
	return err
}

func (s *server) open(ctx context.Context, run, cell, _ string) ([]byte, error) {
	parts, err := collect(ctx, s.db, "read parts", `SELECT content FROM records WHERE run_id = ? AND cell = ? ORDER BY part`,
		[]any{run, cell}, only[[]byte])
	return slices.Concat(parts...), err
}

// drop has nothing to do: what is half done was rolled back.
func (s *server) drop(context.Context, *Dropped) error { return nil }

func (s *server) measure(ctx context.Context, runs map[string]int64) (lost []Litter, err error) {
	for run := range runs {
		var size int64
		err := s.db.get(ctx, `SELECT coalesce(sum(length(content)), 0) FROM records WHERE run_id = ?`, []any{run}, &size)
		if err != nil {
			return nil, fmt.Errorf("read the size of run %s: %w", run, err)
		}
		runs[run] = size
	}
	return nil, nil
}
