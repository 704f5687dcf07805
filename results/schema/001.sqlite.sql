-- Times are UTC text of fixed width, so that they sort as text and SQLite's date
-- functions read them. What has a Go type and no column of its own is JSON.

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

-- One row per cell for people who ask in SQL; nothing is stored twice.
CREATE VIEW results AS
SELECT
	r.lab, c.run_id, r.command, c.id AS cell, c.benchmark,
	d.engine, d.kind, d.host, d.gpus, d.model, d.image, d.digest,
	c.axes, c.repetition, c.started, c.finished, c.verdict, c.error,
	c.summary ->> '$.duration_s'             AS duration_s,
	c.summary ->> '$.requests'               AS requests,
	c.summary ->> '$.completed'              AS completed,
	c.summary ->> '$.failed'                 AS failed,
	c.summary ->> '$.input_tokens'           AS input_tokens,
	c.summary ->> '$.output_tokens'          AS output_tokens,
	c.summary ->> '$.request_throughput'     AS request_throughput,
	c.summary ->> '$.output_throughput'      AS output_throughput,
	c.summary ->> '$.total_throughput'       AS total_throughput,
	c.summary ->> '$.goodput'                AS goodput,
	c.summary ->> '$.ttft_ms.mean'           AS ttft_mean_ms,
	c.summary ->> '$.ttft_ms.median'         AS ttft_p50_ms,
	c.summary ->> '$.ttft_ms.percentiles.99' AS ttft_p99_ms,
	c.summary ->> '$.tpot_ms.mean'           AS tpot_mean_ms,
	c.summary ->> '$.tpot_ms.median'         AS tpot_p50_ms,
	c.summary ->> '$.tpot_ms.percentiles.99' AS tpot_p99_ms,
	c.summary ->> '$.itl_ms.mean'            AS itl_mean_ms,
	c.summary ->> '$.itl_ms.median'          AS itl_p50_ms,
	c.summary ->> '$.itl_ms.percentiles.99'  AS itl_p99_ms,
	c.summary ->> '$.e2el_ms.mean'           AS e2el_mean_ms,
	c.summary ->> '$.e2el_ms.median'         AS e2el_p50_ms,
	c.summary ->> '$.e2el_ms.percentiles.99' AS e2el_p99_ms
FROM cells c
JOIN runs r ON r.id = c.run_id
LEFT JOIN deployments d ON d.run_id = c.run_id AND d.id = c.deployment_id;
