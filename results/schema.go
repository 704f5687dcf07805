package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrNewer says that a store was written by a newer hcl than this one.
var ErrNewer = errors.New("the store has a newer schema")

// migrations returns the steps from one schema version to the next: the first
// makes version 1 out of nothing. A step that was released is never changed.
//
// Times are UTC text of fixed width, so that they sort as text and SQLite's date
// functions read them. What has a Go type and no column of its own is JSON.
func migrations() []string {
	return []string{`
CREATE TABLE store (id TEXT NOT NULL);
INSERT INTO store (id) VALUES (lower(hex(randomblob(8))));

CREATE TABLE runs (
	id       TEXT PRIMARY KEY,
	lab      TEXT NOT NULL,
	command  TEXT NOT NULL,
	version  TEXT NOT NULL,
	started  TEXT NOT NULL,
	finished TEXT,
	outcome  TEXT NOT NULL DEFAULT ''
);

CREATE TABLE deployments (
	run_id   TEXT NOT NULL REFERENCES runs (id),
	id       TEXT NOT NULL,
	engine   TEXT NOT NULL,
	kind     TEXT NOT NULL,
	host     TEXT NOT NULL,
	gpus     TEXT NOT NULL,
	model    TEXT NOT NULL,
	image    TEXT NOT NULL,
	digest   TEXT NOT NULL,
	command  TEXT NOT NULL, -- JSON
	identity TEXT NOT NULL, -- JSON
	facts    TEXT,          -- JSON
	started  TEXT NOT NULL,
	ready_s  REAL NOT NULL,
	PRIMARY KEY (run_id, id)
);

CREATE TABLE cells (
	run_id        TEXT NOT NULL REFERENCES runs (id),
	id            TEXT NOT NULL,
	deployment_id TEXT NOT NULL,
	benchmark     TEXT NOT NULL,
	axes          TEXT NOT NULL, -- JSON, in declared order
	repetition    INTEGER NOT NULL,
	identity      TEXT NOT NULL, -- JSON
	job           TEXT NOT NULL, -- JSON
	started       TEXT NOT NULL,
	finished      TEXT NOT NULL,
	cache_reset   TEXT NOT NULL,
	error         TEXT NOT NULL,
	verdict       TEXT NOT NULL,
	summary       TEXT,          -- JSON
	records       TEXT,          -- name of the file in records/
	PRIMARY KEY (run_id, id)
);
CREATE INDEX cells_by_id ON cells (id, finished);

CREATE TABLE events (
	run_id  TEXT NOT NULL REFERENCES runs (id),
	time    TEXT NOT NULL,
	level   TEXT NOT NULL,
	host    TEXT NOT NULL,
	engine  TEXT NOT NULL,
	cell    TEXT NOT NULL,
	message TEXT NOT NULL
);
CREATE INDEX events_by_run ON events (run_id);

` + resultsView(""), `
ALTER TABLE deployments ADD COLUMN gpu_count INTEGER;
ALTER TABLE deployments ADD COLUMN price_per_hour REAL; -- USD
ALTER TABLE deployments ADD COLUMN versions TEXT;       -- JSON
ALTER TABLE deployments ADD COLUMN served TEXT;         -- JSON
ALTER TABLE deployments ADD COLUMN phases TEXT;         -- JSON
ALTER TABLE deployments ADD COLUMN stopped TEXT;
ALTER TABLE cells ADD COLUMN telemetry TEXT;            -- JSON
`, `
ALTER TABLE cells ADD COLUMN origin TEXT; -- JSON: what another tool wrote
`, `
CREATE TABLE inputs ( -- what a run was made from
	run_id  TEXT NOT NULL REFERENCES runs (id),
	name    TEXT NOT NULL,
	content BLOB NOT NULL,
	PRIMARY KEY (run_id, name)
);
ALTER TABLE runs ADD COLUMN bundled INTEGER NOT NULL DEFAULT 0; -- 1: it came from another store
`, `DROP VIEW results;` + resultsView(`,
	r.bundled, c.origin ->> '$.format'           AS imported,
	d.gpu_count, d.price_per_hour, d.ready_s, c.cache_reset,
	c.telemetry ->> '$.energy_j'                 AS energy_j,
	c.telemetry ->> '$.prefix_cache_hit_rate'    AS prefix_cache_hit_rate,
	c.telemetry ->> '$.speculative_acceptance'   AS speculative_acceptance`), `
ALTER TABLE deployments ADD COLUMN compile_cache TEXT;
ALTER TABLE deployments ADD COLUMN listener TEXT; -- JSON
`, `
ALTER TABLE events ADD COLUMN id TEXT; -- made by the writer; none: an older hcl wrote it
CREATE UNIQUE INDEX events_by_id ON events (id);
ALTER TABLE cells ADD COLUMN records_sum TEXT;      -- SHA-256 of what is kept of its requests
ALTER TABLE cells ADD COLUMN records_count INTEGER; -- how many requests that are
`}
}

// resultsView is the view for people who ask in SQL, with more columns than the
// first version's.
func resultsView(more string) string {
	return `
-- One row per cell for people who ask in SQL; nothing is stored twice.
CREATE VIEW results AS
SELECT
	r.lab, c.run_id, r.command, c.id AS cell, c.benchmark,
	d.engine, d.kind, d.host, d.gpus, d.model, d.image, d.digest,
	c.axes, c.repetition, c.started, c.finished, c.verdict, c.error,
	c.summary ->> '$.duration_s'              AS duration_s,
	c.summary ->> '$.requests'                AS requests,
	c.summary ->> '$.completed'               AS completed,
	c.summary ->> '$.failed'                  AS failed,
	c.summary ->> '$.input_tokens'            AS input_tokens,
	c.summary ->> '$.output_tokens'           AS output_tokens,
	c.summary ->> '$.request_throughput'      AS request_throughput,
	c.summary ->> '$.output_throughput'       AS output_throughput,
	c.summary ->> '$.total_throughput'        AS total_throughput,
	c.summary ->> '$.goodput'                 AS goodput,
	c.summary ->> '$.ttft_ms.mean'            AS ttft_mean_ms,
	c.summary ->> '$.ttft_ms.median'          AS ttft_p50_ms,
	c.summary ->> '$.ttft_ms.percentiles.99'  AS ttft_p99_ms,
	c.summary ->> '$.tpot_ms.mean'            AS tpot_mean_ms,
	c.summary ->> '$.tpot_ms.median'          AS tpot_p50_ms,
	c.summary ->> '$.tpot_ms.percentiles.99'  AS tpot_p99_ms,
	c.summary ->> '$.itl_ms.mean'             AS itl_mean_ms,
	c.summary ->> '$.itl_ms.median'           AS itl_p50_ms,
	c.summary ->> '$.itl_ms.percentiles.99'   AS itl_p99_ms,
	c.summary ->> '$.e2el_ms.mean'            AS e2el_mean_ms,
	c.summary ->> '$.e2el_ms.median'          AS e2el_p50_ms,
	c.summary ->> '$.e2el_ms.percentiles.99'  AS e2el_p99_ms` + more + `
FROM cells c
JOIN runs r ON r.id = c.run_id
LEFT JOIN deployments d ON d.run_id = c.run_id AND d.id = c.deployment_id;
`
}

// postgresSchema is a step as PostgreSQL says it. What SQLite numbers by itself
// gets a column of that name, and records are a table in place of files.
func postgresSchema(step string) string {
	step = strings.NewReplacer(
		" REAL", " DOUBLE PRECISION",
		" BLOB", " BYTEA",
		"lower(hex(randomblob(8)))", "substr(replace(gen_random_uuid()::text, '-', ''), 1, 16)",
		"CREATE INDEX cells_by_id", `
CREATE TABLE records (
	run_id  TEXT NOT NULL,
	cell    TEXT NOT NULL,
	part    INTEGER NOT NULL, -- from 1
	content BYTEA NOT NULL,
	PRIMARY KEY (run_id, cell, part),
	FOREIGN KEY (run_id, cell) REFERENCES cells (run_id, id) ON DELETE CASCADE
);
ALTER TABLE records ALTER COLUMN content SET STORAGE EXTERNAL; -- it is compressed
CREATE INDEX cells_by_id`,
	).Replace(step)
	step = newTable.ReplaceAllString(step, "CREATE TABLE $1 ( rowid BIGINT GENERATED ALWAYS AS IDENTITY,")
	return jsonMember.ReplaceAllStringFunc(step, func(s string) string {
		m := jsonMember.FindStringSubmatch(s)
		value := fmt.Sprintf("(%s::json #>> '{%s}')", m[1], strings.ReplaceAll(m[2], ".", ","))
		if m[2] != "format" {
			value += "::double precision"
		}
		return value
	})
}

var (
	newTable   = regexp.MustCompile(`CREATE TABLE (store|runs|deployments|cells|events|inputs) \(`)
	jsonMember = regexp.MustCompile(`(\w+\.\w+) ->> '\$\.([\w.]+)'`)
)

// migrate brings the schema to this program's version, each step whole or not at
// all. It refuses a schema that it does not know.
func (d *database) migrate(ctx context.Context) error {
	version, err := d.version(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	steps := migrations()
	if version > len(steps) {
		return fmt.Errorf("%w: it has version %d, this hcl knows up to %d; use the hcl that wrote it or a newer one",
			ErrNewer, version, len(steps))
	}
	for ; version < len(steps); version++ {
		tx, err := d.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("migrate schema to version %d: %w", version+1, err)
		}
		if err = d.step(ctx, tx, version, steps[version]); err == nil {
			err = tx.Commit()
		}
		if err != nil {
			tx.Rollback()
			return fmt.Errorf("migrate schema to version %d: %w", version+1, err)
		}
	}
	return nil
}

// version is the schema's; 0 when there is none yet.
func (d *database) version(ctx context.Context) (version int, err error) {
	if !d.shared {
		err = d.get(ctx, `PRAGMA user_version`, nil, &version)
		return version, err
	}
	var there bool
	if err := d.get(ctx, `SELECT to_regclass('schema_version') IS NOT NULL`, nil, &there); err != nil || !there {
		return 0, err
	}
	err = d.get(ctx, `SELECT version FROM schema_version`, nil, &version)
	return version, err
}

// step goes from one version to the next, in a transaction.
func (d *database) step(ctx context.Context, tx *sql.Tx, from int, step string) error {
	if !d.shared {
		// A pragma takes no parameters.
		_, err := tx.ExecContext(ctx, step+fmt.Sprintf("PRAGMA user_version = %d;", from+1))
		return err
	}
	// Two that open a new store wait for each other, and the second finds it done.
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d);
		CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL);
		INSERT INTO schema_version SELECT 0 WHERE NOT EXISTS (SELECT FROM schema_version)`, claimKey("schema")))
	if err != nil {
		return err
	}
	var version int
	if err := tx.QueryRowContext(ctx, `SELECT version FROM schema_version`).Scan(&version); err != nil || version > from {
		return err
	}
	_, err = tx.ExecContext(ctx, postgresSchema(step)+fmt.Sprintf("; UPDATE schema_version SET version = %d", from+1))
	return err
}
