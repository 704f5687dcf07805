ALTER TABLE deployments ADD COLUMN members TEXT; -- JSON: what each container or process has of its own
