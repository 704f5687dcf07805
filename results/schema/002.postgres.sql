ALTER TABLE deployments ADD COLUMN gpu_count INTEGER;
ALTER TABLE deployments ADD COLUMN price_per_hour DOUBLE PRECISION; -- USD
ALTER TABLE deployments ADD COLUMN versions TEXT;       -- JSON
ALTER TABLE deployments ADD COLUMN served TEXT;         -- JSON
ALTER TABLE deployments ADD COLUMN phases TEXT;         -- JSON
ALTER TABLE deployments ADD COLUMN stopped TEXT;
ALTER TABLE cells ADD COLUMN telemetry TEXT;            -- JSON
