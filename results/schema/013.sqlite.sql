ALTER TABLE deployments ADD COLUMN begun TEXT;
CREATE TABLE stays ( -- what runs have had of rented boxes
	run_id         TEXT NOT NULL REFERENCES runs (id),
	request        TEXT NOT NULL, -- hcl's name of the box
	host           TEXT NOT NULL,
	plugin         TEXT NOT NULL,
	box            TEXT NOT NULL, -- the provider's name of it
	price_per_hour REAL NOT NULL, -- USD
	began          TEXT NOT NULL,
	up             TEXT,
	ready          TEXT,
	ended          TEXT NOT NULL,
	closed         INTEGER NOT NULL,
	cost_usd       REAL NOT NULL, -- by price and time
	told_usd       REAL NOT NULL, -- by the provider; 0: not told
	PRIMARY KEY (run_id, request)
);
