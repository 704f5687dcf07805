CREATE TABLE noise (
	box      TEXT NOT NULL, -- see provision.Facts.Box; of an engine over several hosts all of them
	engine   TEXT NOT NULL,
	kind     TEXT NOT NULL,
	version  TEXT NOT NULL, -- the engine's; empty: not known
	host     TEXT NOT NULL, -- what the lab called it
	run_id   TEXT NOT NULL, -- which may be gone
	measured TEXT NOT NULL,
	starts   INTEGER NOT NULL,
	spread   TEXT NOT NULL, -- JSON: by metric
	PRIMARY KEY (box, engine)
);
