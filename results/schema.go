package results

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"regexp"
)

// ErrNewer says that a store was written by a newer hcl than this one.
var ErrNewer = errors.New("the store has a newer schema")

// schemaSteps go from one version of the schema to the next, each written for both
// databases: the first makes version 1 out of nothing. A step that was released is
// never changed.
//
//go:embed schema
var schemaSteps embed.FS

// schemaVersion is the version that this program writes. It reads those from oldestRead on, since
// all steps from there only add columns which may be null, and tables.
const (
	schemaVersion = 13
	oldestRead    = 4
)

// ErrNothing says that nothing was ever stored where a store is to be read.
var ErrNothing = errors.New("nothing was ever stored there")

// schemaStep is the step to a version.
func (d *database) schemaStep(version int) (string, error) {
	kind := "sqlite"
	if d.shared {
		kind = "postgres"
	}
	text, err := schemaSteps.ReadFile(fmt.Sprintf("schema/%03d.%s.sql", version, kind))
	return string(text), err
}

// knownVersion is the version of the schema. It refuses one that it does not know.
func (d *database) knownVersion(ctx context.Context) (version int, err error) {
	if version, err = d.version(ctx); err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	if version > schemaVersion {
		return 0, fmt.Errorf("%w: it has version %d, this hcl knows up to %d; use the hcl that wrote it or a newer one",
			ErrNewer, version, schemaVersion)
	}
	return version, nil
}

// What a step adds.
var (
	addedColumn = regexp.MustCompile(`ALTER TABLE (\w+) ADD COLUMN (\w+)`)
	addedTable  = regexp.MustCompile(`CREATE TABLE (\w+)`)
)

// readable makes do with the schema that is there: what it lacks is null in all that is read.
func (d *database) readable(ctx context.Context) error {
	version, err := d.knownVersion(ctx)
	switch {
	case err != nil:
		return err
	case version == 0:
		return ErrNothing
	case version < oldestRead:
		return fmt.Errorf("it has schema version %d, which is too old to be read; hcl import brings it up to date", version)
	}
	d.lacks = map[string]bool{}
	for version++; version <= schemaVersion; version++ {
		step, err := d.schemaStep(version)
		if err != nil {
			return err
		}
		for _, m := range addedColumn.FindAllStringSubmatch(step, -1) {
			d.lacks[m[1]+"."+m[2]] = true
		}
		for _, m := range addedTable.FindAllStringSubmatch(step, -1) {
			d.lacks[m[1]] = true
		}
	}
	return nil
}

// column is one of a table, as a query names it.
func (d *database) column(table, name string) string {
	if d.lacks[table+"."+name] {
		return "NULL AS " + name
	}
	return table[:1] + "." + name // tables are called by their first letters
}

// migrate brings the schema to this program's version, each step whole or not at all.
func (d *database) migrate(ctx context.Context) error {
	version, err := d.knownVersion(ctx)
	if err != nil {
		return err
	}
	for version < schemaVersion {
		version++
		if err := d.migrateTo(ctx, version); err != nil {
			return fmt.Errorf("migrate schema to version %d: %w", version, err)
		}
	}
	return nil
}

func (d *database) migrateTo(ctx context.Context, version int) error {
	step, err := d.schemaStep(version)
	if err != nil {
		return err
	}
	return d.change(ctx, func(tx statements) error {
		if d.shared {
			return stepShared(ctx, tx, version, step)
		}
		// A pragma takes no parameters.
		_, err := tx.on.ExecContext(ctx, fmt.Sprintf("%sPRAGMA user_version = %d;", step, version))
		return err
	})
}

// stepShared goes to a version of a shared schema. Two that open a new store wait for
// each other, and the second finds it done.
func stepShared(ctx context.Context, tx statements, version int, step string) error {
	_, err := tx.on.ExecContext(ctx, fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d);
		CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL);
		INSERT INTO schema_version SELECT 0 WHERE NOT EXISTS (SELECT FROM schema_version)`, claimKey("schema")))
	if err != nil {
		return err
	}
	var there int
	if err := tx.on.QueryRowContext(ctx, `SELECT version FROM schema_version`).Scan(&there); err != nil || there >= version {
		return err
	}
	_, err = tx.on.ExecContext(ctx, fmt.Sprintf("%sUPDATE schema_version SET version = %d", step, version))
	return err
}

// version is the schema's; 0 when there is none yet.
func (d *database) version(ctx context.Context) (version int, err error) {
	if !d.shared {
		err = d.get(ctx, `PRAGMA user_version`, nil, &version)
		return version, err
	}
	var there bool
	if err := d.get(ctx, `SELECT to_regclass('schema_version') IS NOT NULL`, nil, &there); err != nil || !there {
		return 0, err
	}
	err = d.get(ctx, `SELECT version FROM schema_version`, nil, &version)
	return version, err
}
