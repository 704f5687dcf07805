ALTER TABLE deployments ADD COLUMN clients TEXT; -- JSON: what the hosts are that sent load, by name
