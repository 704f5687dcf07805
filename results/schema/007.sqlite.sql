ALTER TABLE events ADD COLUMN id TEXT; -- made by the writer; none: an older hcl wrote it
CREATE UNIQUE INDEX events_by_id ON events (id);
ALTER TABLE cells ADD COLUMN records_sum TEXT;      -- SHA-256 of what is kept of its requests
ALTER TABLE cells ADD COLUMN records_count INTEGER; -- how many requests that are
