package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-dev/waybill/internal/fault"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Advisory locks of this program that are not an instance's.
const (
	migrateLock   = 0x7761796201
	partitionLock = 0x7761796202
)

// migrate brings the schema up to date, one transaction for each step; several processes may try at once.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	steps, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	return pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, c, func(t pgx.Tx) error {
			if _, err := t.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrateLock)); err != nil {
				return coded(err)
			}
			have, err := schemaOf(ctx, t)
			if err != nil {
				return coded(err)
			}
			if have > len(steps) {
				return fault.New(fault.Corrupt, "the ledger was written by a newer Waybill (schema %d, this one knows %d)", have, len(steps)).
					WithHint("run the newer Waybill")
			}
			return apply(ctx, t, steps[have:], have)
		})
	})
}

// schemaOf is the schema's number; 0 for an empty database.
func schemaOf(ctx context.Context, t pgx.Tx) (schema int, err error) {
	var there bool
	if err := t.QueryRow(ctx, "SELECT to_regclass('meta') IS NOT NULL").Scan(&there); err != nil || !there {
		return 0, err
	}
	err = t.QueryRow(ctx, "SELECT schema FROM meta").Scan(&schema)
	return schema, err
}

func apply(ctx context.Context, t pgx.Tx, steps []string, have int) error {
	for i, name := range steps {
		statements, err := fs.ReadFile(migrations, name)
		if err != nil {
			return err
		}
		if _, err := t.Exec(ctx, string(statements)); err != nil {
			return fmt.Errorf("migrate the ledger by %s: %w", name, coded(err))
		}
		if _, err := t.Exec(ctx, "UPDATE meta SET schema = $1", have+i+1); err != nil {
			return coded(err)
		}
	}
	return nil
}
