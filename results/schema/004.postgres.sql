CREATE TABLE inputs ( -- what a run was made from
	rowid   BIGINT GENERATED ALWAYS AS IDENTITY,
	run_id  TEXT NOT NULL REFERENCES runs (id),
	name    TEXT NOT NULL,
	content BYTEA NOT NULL,
	PRIMARY KEY (run_id, name)
);
ALTER TABLE runs ADD COLUMN bundled INTEGER NOT NULL DEFAULT 0; -- 1: it came from another store
