ALTER TABLE cells ADD COLUMN origin TEXT; -- JSON: what another tool wrote
