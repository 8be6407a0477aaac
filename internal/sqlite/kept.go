package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

const (
	mostKept     = 400 // by the writer: more than there are, with every INSERT in each of its lengths
	mostReadKept = 100 // by each reader
)

// kept are the statements of a connection that stay compiled. Compiling most takes longer than running them. They belong to
// the transaction that has the connection, so they need no lock. The connection stays open until they are closed.
type kept struct {
	most       int // reached only by statements that are put together from what a caller requests, and then all are compiled again
	statements map[string]*sql.Stmt
}

func newKept(most int) kept { return kept{most, map[string]*sql.Stmt{}} }

// compiled is a statement that stays compiled: who runs it does not close it.
type compiled interface {
	ExecContext(ctx context.Context, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, args ...any) (*sql.Rows, error)
}

// statement returns a compiled statement. It starts again when there are too many.
func (k kept) statement(ctx context.Context, conn *sql.Conn, query string) (compiled, error) {
	if found := k.statements[query]; found != nil {
		return found, nil
	}
	if len(k.statements) >= k.most {
		_ = k.close() // nothing depends on them
	}
	made, err := conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	k.statements[query] = made
	return made, nil
}

// close closes all statements.
func (k kept) close() error {
	var errs []error
	for _, statement := range k.statements {
		errs = append(errs, statement.Close())
	}
	clear(k.statements)
	return errors.Join(errs...)
}

// readers are connections that read, each for one transaction at a time.
type readers struct {
	pool *sql.DB
	free chan *reader // not in use
}

// reader is a connection, made when it is first used, and its statements.
type reader struct {
	conn *sql.Conn
	kept kept
}

func newReaders(pool *sql.DB, most int) *readers {
	r := &readers{pool: pool, free: make(chan *reader, most)}
	for range most {
		r.free <- &reader{kept: newKept(mostReadKept)}
	}
	return r
}

// take waits for a connection. The caller gives it back to free.
func (r *readers) take(ctx context.Context) (*reader, error) {
	select {
	case one, ok := <-r.free:
		if !ok {
			return nil, errClosed
		}
		var err error
		if one.conn == nil {
			one.conn, err = r.pool.Conn(ctx)
		}
		if err != nil {
			r.free <- one
			return nil, err
		}
		return one, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// close ends the connections, after the transactions that are in progress.
func (r *readers) close() error {
	var errs []error
	for range cap(r.free) {
		if one := <-r.free; one.conn != nil {
			errs = append(errs, one.kept.close(), one.conn.Close())
		}
	}
	close(r.free)
	return errors.Join(append(errs, r.pool.Close())...)
}
