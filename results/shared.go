package results

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

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
	db := &database{DB: stdlib.OpenDB(*cfg), shared: true, name: sharedName(cfg), log: log}
	// One for locks, the others for hosts that store cells at once.
	db.SetMaxOpenConns(5)
	lost, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &Store{dir: dir, db: db, claims: &claims{db: db, held: map[int64]string{}, lost: lost, lose: lose}}
	if err := s.begin(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open store %s: %w", db.name, err)
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

// claims are locks on a shared database: advisory ones, which live as long as the
// connection that took them. A server that is restarted forgets them, so that they
// are looked after, and taken again.
type claims struct {
	db *database

	mu   sync.Mutex
	conn *sql.Conn
	who  string
	held map[int64]string
	lost context.Context // ends when somebody else has a claim of ours
	lose context.CancelCauseFunc
	stop context.CancelFunc
	done chan struct{}
}

// claimsLookedAfter is how often they are.
const claimsLookedAfter = 2 * time.Second

// claimKey is the number that stands for what is claimed.
func claimKey(what string) int64 {
	h := fnv.New64a()
	fmt.Fprint(h, "hcl ", what)
	return int64(h.Sum64())
}

// take claims something; false says that somebody else has it. Who is what they
// are told about us: it is the name of the connection.
func (c *claims) take(ctx context.Context, what, who string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if who != "" {
		hostname, _ := os.Hostname()
		c.who = fmt.Sprintf("%s (process %d on %s)", who, os.Getpid(), hostname)
	}
	if err := c.connect(ctx); err != nil {
		return false, err
	}
	key := claimKey(what)
	var got bool
	if err := c.conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, key).Scan(&got); err != nil || !got {
		return false, err
	}
	c.held[key] = what
	if c.done == nil {
		var looking context.Context
		looking, c.stop = context.WithCancel(context.WithoutCancel(ctx))
		c.done = make(chan struct{})
		go c.lookAfter(looking)
	}
	return true, nil
}

// connect makes the connection of the claims, where there is none or it has died.
func (c *claims) connect(ctx context.Context) error {
	if c.conn != nil {
		_, err := c.conn.ExecContext(ctx, `SELECT set_config('application_name', $1, false)`, c.who)
		if err == nil {
			return nil
		}
		c.drop()
	}
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, `SELECT set_config('application_name', $1, false)`, c.who); err != nil {
		conn.Close()
		return err
	}
	c.conn = conn
	return nil
}

// lookAfter takes the claims again when their connection was lost.
func (c *claims) lookAfter(ctx context.Context) {
	defer close(c.done)
	tick := time.NewTicker(claimsLookedAfter)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.renew(ctx)
		}
	}
}

func (c *claims) renew(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*claimsLookedAfter)
	defer cancel()
	before := c.conn
	if c.connect(ctx) != nil || c.conn == before {
		return
	}
	for key, what := range c.held {
		var got bool
		if err := c.conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, key).Scan(&got); err != nil || !got {
			if err == nil {
				c.isLost(ctx, key, what)
			}
			c.drop() // all are tried again
			return
		}
	}
}

// isLost looks who has a claim of ours. The server may not have seen yet that the
// connection is gone with which we took it: then it is still ours.
func (c *claims) isLost(ctx context.Context, key int64, what string) {
	by, err := c.db.claimed(ctx)
	// PostgreSQL cuts a long name off.
	if who := by[key]; err == nil && !strings.HasPrefix(c.who, who) {
		c.lose(fmt.Errorf("%w: the connection to store %s was lost, and %s is %s's now", ErrLocked, c.db.name, what, who))
	}
}

// Held is ctx until somebody else has what this store has locked, which happens when
// the connection to a shared store is lost for long enough; its cause is then ErrLocked,
// and says who. Whoever measures under a lock measures under this.
func (s *Store) Held(ctx context.Context) (held context.Context, stop func()) {
	if !s.Shared() { // the lock of a folder goes with the process alone
		return ctx, func() {}
	}
	held, cancel := context.WithCancelCause(ctx)
	after := context.AfterFunc(s.claims.lost, func() { cancel(context.Cause(s.claims.lost)) })
	return held, func() {
		after()
		cancel(nil)
	}
}

// give gives a claim back.
func (c *claims) give(ctx context.Context, what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := claimKey(what)
	if _, ok := c.held[key]; !ok || c.conn == nil {
		return nil
	}
	delete(c.held, key)
	_, err := c.conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, key)
	if away(err) {
		return nil // it went with the connection
	}
	return err
}

// close ends the connection, and with it what is still claimed.
func (c *claims) close() {
	if c.done != nil {
		c.stop()
		<-c.done
	}
	defer c.lose(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.drop()
	}
}

// drop ends the connection. Back in the pool it would keep its locks.
func (c *claims) drop() {
	_ = c.conn.Raw(func(any) error { return driver.ErrBadConn })
	c.conn = nil
}

// claimed are the claims that anybody has on the store, each with the name of who
// has it.
func (d *database) claimed(ctx context.Context) (map[int64]string, error) {
	type claim struct {
		key int64
		who string
	}
	all, err := collect(ctx, d, "read locks", `SELECT (l.classid::bigint << 32) | l.objid::bigint, coalesce(a.application_name, '')
		FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`, nil,
		func(scan func(...any) error) (c claim, err error) {
			err = scan(&c.key, &c.who)
			return c, err
		})
	if err != nil {
		return nil, err
	}
	by := map[int64]string{}
	for _, c := range all {
		by[c.key] = c.who
	}
	return by, nil
}
