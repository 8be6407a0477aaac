package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/google/uuid"

	"github.com/waybill-dev/waybill/internal/fault"
)

// migrations are the statements of each schema version, a file for each. They only add: a process of
// the version before may have the file open while it is migrated, and works on afterwards.
//
//go:embed migrations/*.sql
var migrations embed.FS

// newest is the schema of the newest migration.
var newest = func() int {
	steps, _ := fs.Glob(migrations, stepFiles) // the pattern is right
	return len(steps)
}()

// stepFiles is the pattern of the migrations' names.
const stepFiles = "migrations/*.sql"

// migrate brings the file's schema up to the newest version.
func (d *Driver) migrate(ctx context.Context, conn *sql.Conn) error {
	steps, err := fs.Glob(migrations, stepFiles) // sorted by name
	if err != nil {
		return err
	}
	have, err := schemaOf(ctx, conn)
	if err != nil {
		return err
	}
	if have > len(steps) {
		return d.tooNew(have, len(steps))
	}
	if have == len(steps) {
		return nil
	}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := d.migrateFrom(ctx, conn, steps); err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // the first error is returned
		return err
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}

// tooNew returns the error of a file whose schema this version does not know.
func (d *Driver) tooNew(have, know int) error {
	return fault.New(fault.Corrupt, "%s was written by a newer Waybill (schema %d, this one knows %d)", d.path, have, know).
		WithHint("use the newer version, or another home")
}

// migrateFrom runs the missing steps in the transaction that is in progress. It reads the schema again: another
// process may have run the steps while this one waited for the write lock.
func (d *Driver) migrateFrom(ctx context.Context, conn *sql.Conn, steps []string) error {
	have, err := schemaOf(ctx, conn)
	if err != nil {
		return err
	}
	for n := have; n < len(steps); n++ {
		script, err := migrations.ReadFile(steps[n])
		if err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, string(script)); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", n+1, err)
		}
		if err := setSchema(ctx, conn, n+1); err != nil {
			return err
		}
	}
	return nil
}

// schemaOf returns the schema version of a file; 0 for a new file.
func schemaOf(ctx context.Context, conn *sql.Conn) (version int, err error) {
	err = conn.QueryRowContext(ctx, "SELECT schema FROM meta").Scan(&version)
	if errors.Is(err, sql.ErrNoRows) || (err != nil && strings.Contains(err.Error(), "no such table")) {
		return 0, nil
	}
	return version, err
}

// setSchema records the schema version. The first one creates the row of meta, with the log's id.
func setSchema(ctx context.Context, conn *sql.Conn, version int) error {
	if version > 1 {
		_, err := conn.ExecContext(ctx, "UPDATE meta SET schema = ?", version)
		return err
	}
	ledgerID := uuid.New()
	_, err := conn.ExecContext(ctx, "INSERT INTO meta (one, ledger_id, schema) VALUES (1, ?, 1)", ledgerID[:])
	return err
}
