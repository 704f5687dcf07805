ALTER TABLE deployments ADD COLUMN compile_cache TEXT;
ALTER TABLE deployments ADD COLUMN listener TEXT; -- JSON
