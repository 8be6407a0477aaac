//go:build services

package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/store"
)

// Setting reads a setting of the server as it is inside the transaction.
func (t *tx) Setting(name string) (string, error) {
	found, err := query(t, func(row pgx.Row) (value string, err error) {
		err = row.Scan(&value)
		return value, err
	}, "SELECT current_setting($1)", name)
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// What a claim is, for tests that look at how the server executes it.
const (
	ClaimStatement = claim
	PlanSettings   = planned
	PlanOnce       = onePlan
)

// Ask runs a statement and reads its answer.
func Ask(t store.Rows, statement string) error {
	return t.(*tx).ask(statement, nil, func(rows pgx.Rows) error {
		rows.Close()
		return rows.Err()
	})
}

// Do runs a statement without reading its answer.
func Do(t store.Rows, statement string) error { return t.(*tx).do(statement) }

// Busy reports whether changes are so many that their notifications are sent together.
func (d *Driver) Busy() bool {
	d.notifier.mu.Lock()
	defer d.notifier.mu.Unlock()
	return d.notifier.load.many()
}

// ClaimFromTheStart lets no lane have a floor, however slow its claims are. Otherwise a claim on a busy machine may leave out
// rows that are more urgent than the last claimed one, until the next claim from the start.
func (d *Driver) ClaimFromTheStart() { d.floors.quick = time.Hour }

// ConnectionName returns the name of the process's connections.
func (d *Driver) ConnectionName() string { return d.name }

// ShapeIn reads the shape of all tables.
func ShapeIn(ctx context.Context, conn *pgx.Conn) (map[store.Object]string, error) {
	return shapeIn(ctx, conn, nil)
}
