package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// A file is one schema version, and one step. Its statements run in one transaction, unless they build indexes
// concurrently (index.go). Migrations only add: instances of the version before work while a step runs and after it.
//
//go:embed migrations/*.sql
var migrations embed.FS

// schema is the version of the newest migration.
var schema = func() int {
	steps, _ := fs.Glob(migrations, stepFiles) // the pattern is right
	return len(steps)
}()

const stepFiles = "migrations/*.sql"

// Advisory locks of this program that are not an instance's.
const (
	migrateLock    = 0x7761796201
	partitionLock  = 0x7761796202
	definitionLock = 0x7761796203
	promotionLock  = 0x7761796204 // shared: heads of promotions are locked one by one
)

const (
	lockWait   = 2 * time.Second        // wait for a lock on a table, and so the time for which a step may hold up readers of the table
	migrateFor = 10 * time.Minute       // how long one step is tried again because a lock was not free
	turnEvery  = 200 * time.Millisecond // interval of a waiting instance's checks for the end of the migration
)

// migrator brings the schema up to date. It works on one connection while another has an open transaction with the
// lock of migrations. An index is built outside of any transaction, and a lock of the session would be lost behind a
// transaction pooler.
type migrator struct {
	work, turn *pgx.Conn
	steps      []string // names of the files, in order
	log        *slog.Logger
}

// migrate brings the schema up to date. Of several instances that start at once, one does it while the others wait.
func migrate(ctx context.Context, config *pgx.ConnConfig, log *slog.Logger) error {
	steps, err := fs.Glob(migrations, stepFiles)
	if err != nil {
		return err
	}
	m := migrator{steps: steps, log: log}
	if m.work, err = pgx.ConnectConfig(ctx, config); err != nil {
		return unreachable(config, err)
	}
	defer m.work.Close(context.WithoutCancel(ctx))
	if left, err := m.left(ctx); err != nil || len(left) == 0 {
		return coded(err)
	}
	if m.turn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return unreachable(config, err)
	}
	defer m.turn.Close(context.WithoutCancel(ctx)) // ends the transaction, too
	if err := m.takeTurn(ctx); err != nil {
		return coded(err)
	}
	return coded(m.run(ctx))
}

// run applies the steps that are missing, one after the other.
func (m *migrator) run(ctx context.Context) error {
	for {
		left, err := m.left(ctx)
		if err != nil || len(left) == 0 {
			return err
		}
		if err := m.turn.Ping(ctx); err != nil { // without the lock another instance may be at it
			return err
		}
		err = patiently(ctx, m.log.With(obs.KeyName, left[0]), migrateFor, func() error { return m.apply(ctx, left[0]) })
		if err != nil {
			return fmt.Errorf("migrate the ledger by %s: %w", left[0], err)
		}
	}
}

// left lists the steps that the database has not had yet; fault.Corrupt when a newer Waybill has migrated it.
func (m *migrator) left(ctx context.Context) ([]string, error) {
	have, err := schemaOf(ctx, m.work)
	if at := m.work.PgConn().ParameterStatus("server_encoding"); err == nil && have == 0 &&
		!slices.Contains([]string{"UTF8", "SQL_ASCII", ""}, at) {
		err = fault.New(fault.Unavailable, "the database %q has the encoding %s", m.work.Config().Database, at).WithHint(wantUTF8)
	}
	if err == nil && have > len(m.steps) {
		err = fault.New(fault.Corrupt, "the ledger was written by a newer Waybill (schema %d, this one knows %d)", have, len(m.steps)).
			WithHint("run the newer Waybill")
	}
	if err != nil {
		return nil, err
	}
	return m.steps[have:], nil
}

// schemaOf reads the schema's number; 0 for an empty database.
func schemaOf(ctx context.Context, conn *pgx.Conn) (schema int, err error) {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('meta') IS NOT NULL", pgx.QueryExecModeExec).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = conn.QueryRow(ctx, "SELECT schema FROM meta", pgx.QueryExecModeExec).Scan(&schema)
	return schema, err
}

// takeTurn takes the lock of migrations. It asks again and again instead of waiting in the database: a statement that
// waits has a snapshot, for whose end the building of an index by the other instance would wait. The simple protocol
// leaves no portal, and so no snapshot, behind.
func (m *migrator) takeTurn(ctx context.Context) error {
	for {
		if _, err := m.turn.Exec(ctx, beginWrite+"; SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
			return err
		}
		var mine bool
		if err := m.turn.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1)", pgx.QueryExecModeSimpleProtocol,
			int64(migrateLock)).Scan(&mine); err != nil || mine {
			return err
		}
		if _, err := m.turn.Exec(ctx, "ROLLBACK"); err != nil {
			return err
		}
		if !loop.Pause(ctx, turnEvery) {
			return context.Cause(ctx)
		}
	}
}

// patiently does something, again and again while locks that it needs are not free. Between the tries the instances that
// work on the tables proceed.
func patiently(ctx context.Context, log *slog.Logger, within time.Duration, do func() error) error {
	var delay loop.Backoff
	for until := time.Now().Add(within); ; {
		err := do()
		if !lockTaken(err) {
			return err
		}
		if time.Now().After(until) {
			return fault.New(fault.LedgerUnavailable, "a lock was not free for %s: %w", within, err).
				WithHint("end the long transaction that holds it (pg_stat_activity), then try again")
		}
		pause := delay.Next()
		log.Warn("waiting for a lock", obs.Error(err), obs.KeyRetryIn, pause.String())
		if !loop.Pause(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// lockTaken reports whether a statement gave up because a lock was not free, or to end a deadlock.
func lockTaken(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (answer.Code == "55P03" || answer.Code == "40P01")
}

// apply runs one step and writes down that it was run.
func (m *migrator) apply(ctx context.Context, step string) error {
	script, err := fs.ReadFile(migrations, step)
	if err != nil {
		return err
	}
	indexes, err := readIndexes(string(script))
	if err != nil {
		return err
	}
	for _, ix := range indexes {
		if err := m.build(ctx, ix); err != nil {
			return fmt.Errorf("build index %s: %w", ix.name, err)
		}
	}
	return m.transact(ctx, func() error {
		if len(indexes) == 0 {
			if _, err := m.work.Exec(ctx, string(script)); err != nil {
				return err
			}
		}
		_, err := m.work.Exec(ctx, "UPDATE meta SET schema = schema + 1")
		return err
	})
}

// transact runs fn in a transaction whose statements wait for a lock no longer than lockWait.
func (m *migrator) transact(ctx context.Context, fn func() error) error {
	if _, err := m.work.Exec(ctx, fmt.Sprintf(beginWrite+"; SET LOCAL lock_timeout = %d", lockWait.Milliseconds())); err != nil {
		return err
	}
	err := fn()
	if err == nil {
		_, err = m.work.Exec(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = m.work.Exec(context.WithoutCancel(ctx), "ROLLBACK") // the first error counts
	}
	return err
}
