CREATE TABLE capacities ( -- what searches for a capacity have found
	rowid         BIGINT GENERATED ALWAYS AS IDENTITY,
	run_id        TEXT NOT NULL REFERENCES runs (id),
	id            TEXT NOT NULL,
	deployment_id TEXT NOT NULL,
	benchmark     TEXT NOT NULL,
	axes          TEXT NOT NULL, -- JSON, without the load
	identity      TEXT NOT NULL, -- JSON
	question      TEXT NOT NULL,
	finished      TEXT NOT NULL,
	outcome       TEXT NOT NULL, -- JSON
	PRIMARY KEY (run_id, id)
);
