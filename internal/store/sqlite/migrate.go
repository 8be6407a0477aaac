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

// Migrations only add, one file per schema version. Code runs before and after
// each, so that a file may be opened by the version before it is migrated.
//
//go:embed migrations/*.sql
var migrations embed.FS

// newest is the schema of the newest migration.
var newest = func() int {
	steps, _ := fs.Glob(migrations, stepFiles) // the pattern is right
	return len(steps)
}()

const stepFiles = "migrations/*.sql"

// migrate brings the file's schema up to the newest one.
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
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // the first error counts
		return err
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}

func (d *Driver) tooNew(have, know int) error {
	return fault.New(fault.Corrupt, "%s was written by a newer Waybill (schema %d, this one knows %d)", d.path, have, know).
		WithHint("use the newer version, or another home")
}

// migrateFrom runs the missing steps in the transaction that is under way;
// another process may have run them while this one waited for it.
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

// schemaOf is the version that a file has; 0 for a new one.
func schemaOf(ctx context.Context, conn *sql.Conn) (version int, err error) {
	err = conn.QueryRowContext(ctx, "SELECT schema FROM meta").Scan(&version)
	if errors.Is(err, sql.ErrNoRows) || (err != nil && strings.Contains(err.Error(), "no such table")) {
		return 0, nil
	}
	return version, err
}

func setSchema(ctx context.Context, conn *sql.Conn, version int) error {
	if version > 1 {
		_, err := conn.ExecContext(ctx, "UPDATE meta SET schema = ?", version)
		return err
	}
	ledgerID := uuid.New()
	_, err := conn.ExecContext(ctx, "INSERT INTO meta (one, ledger_id, schema) VALUES (1, ?, 1)", ledgerID[:])
	return err
}
