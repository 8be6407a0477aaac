package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// CheckShape returns fault.Corrupt unless a log has exactly the tables, indexes and triggers that the migrations up to
// its schema make. A log without the triggers that keep entries from being altered is not one to rely on, and a foreign
// trigger would run with whatever is recorded.
func CheckShape(ctx context.Context, path string) error {
	return checkShape(ctx, path, path)
}

// checkShape compares the shape of a log with that of a new one. The error calls the log by a name.
func checkShape(ctx context.Context, path, name string) error {
	return (&Driver{path: path}).using("ro", func(db *sql.DB) error { return compareShape(ctx, db, name) })
}

func compareShape(ctx context.Context, db *sql.DB, path string) error {
	schema, err := schemaIn(ctx, db, path)
	if err != nil {
		return err
	}
	if schema < 1 || schema > newest {
		return (&Driver{path: path}).tooNew(schema, newest)
	}
	want, err := shapeOf(ctx, schema)
	if err != nil {
		return err
	}
	got, err := objectsIn(ctx, db)
	if err != nil {
		return err
	}
	if differs := store.Differences(want, got); len(differs) > 0 {
		return fault.New(fault.Corrupt, "%s is not a whole log of schema %d: %s", path, schema, strings.Join(differs, "; ")).
			WithHint("use a backup that was not edited")
	}
	return nil
}

// shapeOf returns what the migrations up to a schema make.
func shapeOf(ctx context.Context, schema int) (objects map[store.Object]string, err error) {
	steps, err := fs.Glob(migrations, stepFiles) // sorted by name
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // each connection has a database of its own
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join((&Driver{}).migrateFrom(ctx, conn, steps[:schema]), conn.Close()); err != nil {
		return nil, err
	}
	return objectsIn(ctx, db)
}

// objectsIn returns the text of what a file has. SQLite's own tables and the indexes of constraints have none.
func objectsIn(ctx context.Context, db *sql.DB) (map[store.Object]string, error) {
	rows, err := db.QueryContext(ctx, //nolint:rowserrcheck // ReadObjects returns it
		`SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return store.ReadObjects(rows)
}
