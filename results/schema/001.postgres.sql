-- Times are UTC text of fixed width, so that they sort as text. What has a Go type and no column of its own is JSON.

CREATE TABLE store (
	rowid BIGINT GENERATED ALWAYS AS IDENTITY,
	id    TEXT NOT NULL
);
INSERT INTO store (id) VALUES (substr(replace(gen_random_uuid()::text, '-', ''), 1, 16));

CREATE TABLE runs (
	rowid    BIGINT GENERATED ALWAYS AS IDENTITY,
	id       TEXT PRIMARY KEY,
	lab      TEXT NOT NULL,
	command  TEXT NOT NULL,
	version  TEXT NOT NULL,
	started  TEXT NOT NULL,
	finished TEXT,
	outcome  TEXT NOT NULL DEFAULT ''
);

CREATE TABLE deployments (
	rowid    BIGINT GENERATED ALWAYS AS IDENTITY,
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
	ready_s  DOUBLE PRECISION NOT NULL,
	PRIMARY KEY (run_id, id)
);

CREATE TABLE cells (
	rowid         BIGINT GENERATED ALWAYS AS IDENTITY,
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

CREATE TABLE records (
	run_id  TEXT NOT NULL,
	cell    TEXT NOT NULL,
	part    INTEGER NOT NULL, -- from 1
	content BYTEA NOT NULL,
	PRIMARY KEY (run_id, cell, part),
	FOREIGN KEY (run_id, cell) REFERENCES cells (run_id, id) ON DELETE CASCADE
);
ALTER TABLE records ALTER COLUMN content SET STORAGE EXTERNAL; -- it is compressed
CREATE INDEX cells_by_id ON cells (id, finished);

CREATE TABLE events (
	rowid   BIGINT GENERATED ALWAYS AS IDENTITY,
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
	(c.summary::json #>> '{duration_s}')::double precision             AS duration_s,
	(c.summary::json #>> '{requests}')::double precision               AS requests,
	(c.summary::json #>> '{completed}')::double precision              AS completed,
	(c.summary::json #>> '{failed}')::double precision                 AS failed,
	(c.summary::json #>> '{input_tokens}')::double precision           AS input_tokens,
	(c.summary::json #>> '{output_tokens}')::double precision          AS output_tokens,
	(c.summary::json #>> '{request_throughput}')::double precision     AS request_throughput,
	(c.summary::json #>> '{output_throughput}')::double precision      AS output_throughput,
	(c.summary::json #>> '{total_throughput}')::double precision       AS total_throughput,
	(c.summary::json #>> '{goodput}')::double precision                AS goodput,
	(c.summary::json #>> '{ttft_ms,mean}')::double precision           AS ttft_mean_ms,
	(c.summary::json #>> '{ttft_ms,median}')::double precision         AS ttft_p50_ms,
	(c.summary::json #>> '{ttft_ms,percentiles,99}')::double precision AS ttft_p99_ms,
	(c.summary::json #>> '{tpot_ms,mean}')::double precision           AS tpot_mean_ms,
	(c.summary::json #>> '{tpot_ms,median}')::double precision         AS tpot_p50_ms,
	(c.summary::json #>> '{tpot_ms,percentiles,99}')::double precision AS tpot_p99_ms,
	(c.summary::json #>> '{itl_ms,mean}')::double precision            AS itl_mean_ms,
	(c.summary::json #>> '{itl_ms,median}')::double precision          AS itl_p50_ms,
	(c.summary::json #>> '{itl_ms,percentiles,99}')::double precision  AS itl_p99_ms,
	(c.summary::json #>> '{e2el_ms,mean}')::double precision           AS e2el_mean_ms,
	(c.summary::json #>> '{e2el_ms,median}')::double precision         AS e2el_p50_ms,
	(c.summary::json #>> '{e2el_ms,percentiles,99}')::double precision AS e2el_p99_ms
FROM cells c
JOIN runs r ON r.id = c.run_id
LEFT JOIN deployments d ON d.run_id = c.run_id AND d.id = c.deployment_id;
