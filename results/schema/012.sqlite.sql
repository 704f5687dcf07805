ALTER TABLE cells ADD COLUMN accuracy TEXT; -- JSON, of a cell that asks questions
CREATE TABLE answers ( -- that were given to the questions of a cell
	run_id  TEXT NOT NULL,
	id      TEXT NOT NULL, -- the cell's
	content BLOB NOT NULL, -- one JSON object a line, compressed with Zstandard
	sum     TEXT NOT NULL, -- SHA-256 of the content, in hex
	PRIMARY KEY (run_id, id)
);
