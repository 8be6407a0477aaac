package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// mostKept bounds the statements that stay compiled: more than there are, with every INSERT in each of its lengths.
// Only statements that are put together from what a caller requests can exceed it.
const mostKept = 400

// kept are the statements of the connection that writes that stay compiled. Compiling most takes longer than running them.
// They belong to the transaction that has the connection, so they need no lock. The connection stays open until they are
// closed.
type kept map[string]*sql.Stmt

// compiled is a statement that stays compiled: who runs it does not close it.
type compiled interface {
	ExecContext(ctx context.Context, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, args ...any) (*sql.Rows, error)
}

// statement returns a compiled statement. It starts again when there are too many.
func (k kept) statement(ctx context.Context, conn *sql.Conn, query string) (compiled, error) {
	if found := k[query]; found != nil {
		return found, nil
	}
	if len(k) >= mostKept {
		_ = k.close() // nothing depends on them
	}
	made, err := conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	k[query] = made
	return made, nil
}

// close closes all statements.
func (k kept) close() error {
	var errs []error
	for _, statement := range k {
		errs = append(errs, statement.Close())
	}
	clear(k)
	return errors.Join(errs...)
}
