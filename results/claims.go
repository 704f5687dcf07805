package results

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"sync"
	"time"
)

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
	work sync.WaitGroup // that looks after them
}

func newClaims(ctx context.Context, db *database) *claims {
	lost, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	c := &claims{db: db, held: map[int64]string{}, lost: lost, lose: lose}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.work.Go(func() {
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
	})
	return c
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
	got, err := c.try(ctx, key)
	if got {
		c.held[key] = what
	}
	return got, err
}

// try asks the server for a claim.
func (c *claims) try(ctx context.Context, key int64) (got bool, err error) {
	err = c.conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, key).Scan(&got)
	return got, err
}

// connect makes the connection of the claims, where there is none or it has died. A new one
// takes all that is claimed, or is none.
func (c *claims) connect(ctx context.Context) (err error) {
	for range 2 {
		made := c.conn == nil
		if made {
			if c.conn, err = c.db.Conn(ctx); err != nil {
				return err
			}
		}
		if _, err = c.conn.ExecContext(ctx, `SELECT set_config('application_name', $1, false)`, c.who); err == nil && made {
			err = c.again(ctx)
		}
		if err == nil {
			return nil
		}
		c.drop()
	}
	return err
}

// again takes what is claimed on a new connection.
func (c *claims) again(ctx context.Context) error {
	for key, what := range c.held {
		got, err := c.try(ctx, key)
		if err == nil && !got {
			c.isLost(ctx, key, what)
			err = fmt.Errorf("%w: the connection to it was lost, and %s is not given back yet", ErrLocked, what)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// renew takes the claims again when their connection was lost.
func (c *claims) renew(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*claimsLookedAfter)
	defer cancel()
	if len(c.held) > 0 {
		_ = c.connect(ctx) // else it is tried again
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
	c.stop()
	c.work.Wait()
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
		func(c *claim) []any { return []any{&c.key, &c.who} })
	by := map[int64]string{}
	for _, c := range all {
		by[c.key] = c.who
	}
	return by, err
}
