package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/fault"
)

// index is an index that a migration builds while others read and write the table.
type index struct {
	name, table string
	rest        string // rest of the statement after the table: columns and condition
}

// concurrently is the form of a statement that builds an index.
var concurrently = regexp.MustCompile(`(?s)^CREATE INDEX CONCURRENTLY (\w+) ON (\w+) (.+)$`)

// readIndexes returns the indexes of a script that builds indexes concurrently and does nothing
// else; nil for any other script. CREATE INDEX CONCURRENTLY cannot run in a transaction, so a mixed
// script could stop halfway.
func readIndexes(script string) (indexes []index, err error) {
	var lines []string
	for line := range strings.Lines(script) {
		line, _, _ = strings.Cut(line, "--")
		lines = append(lines, strings.TrimSpace(line))
	}
	others := 0
	for statement := range strings.SplitSeq(strings.Join(lines, " "), ";") {
		statement = strings.TrimSpace(statement)
		if m := concurrently.FindStringSubmatch(statement); m != nil {
			indexes = append(indexes, index{name: m[1], table: m[2], rest: m[3]})
		} else if statement != "" {
			others++
		}
	}
	if len(indexes) > 0 && others > 0 {
		return nil, fault.New(fault.Internal, "a migration that builds indexes concurrently has other statements too: use two files")
	}
	return indexes, nil
}

// build makes an index. An index that an interrupted run has left is used if it is valid, and
// otherwise built again.
//
// PostgreSQL builds no index concurrently on a partitioned table. So the table's index is made
// without its partitions, then each partition's index is built concurrently and attached to it.
func (m *migrator) build(ctx context.Context, ix index) error {
	partitioned, err := m.ask(ctx, "SELECT EXISTS (SELECT FROM pg_class WHERE oid = to_regclass($1) AND relkind = 'p')", ix.table)
	if err != nil {
		return err
	}
	if !partitioned {
		return m.buildOne(ctx, ix)
	}
	err = m.transact(ctx, func() error { // partitions that are attached from now on get it at once
		_, err := m.work.Exec(ctx, fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON ONLY %s %s", ix.name, ix.table, ix.rest))
		return err
	})
	if err != nil {
		return err
	}
	lacking, err := m.lacking(ctx, ix)
	if err != nil {
		return err
	}
	for _, partition := range lacking { // the index of the table becomes valid with the last partition's
		part := index{name: partition + "_" + ix.name, table: partition, rest: ix.rest}
		if err := m.buildOne(ctx, part); err != nil {
			return err
		}
		err := m.transact(ctx, func() error {
			_, err := m.work.Exec(ctx, fmt.Sprintf("ALTER INDEX %s ATTACH PARTITION %s", ix.name, pgx.Identifier{part.name}.Sanitize()))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// buildOne makes the index of one table while others write to the table. An interrupted run leaves
// an invalid index of the same name, which is dropped first.
func (m *migrator) buildOne(ctx context.Context, ix index) error {
	const found = "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(quote_ident($1)) AND indisvalid = $2)"
	name := pgx.Identifier{ix.name}.Sanitize()
	if valid, err := m.ask(ctx, found, ix.name, true); err != nil || valid {
		return err
	}
	if broken, err := m.ask(ctx, found, ix.name, false); err != nil {
		return err
	} else if broken {
		if _, err := m.work.Exec(ctx, "DROP INDEX CONCURRENTLY "+name); err != nil {
			return err
		}
	}
	_, err := m.work.Exec(ctx, fmt.Sprintf("CREATE INDEX CONCURRENTLY %s ON %s %s", name, pgx.Identifier{ix.table}.Sanitize(), ix.rest))
	return err
}

// lacking lists the partitions of the index's table that have no part of the index yet, oldest
// first.
func (m *migrator) lacking(ctx context.Context, ix index) ([]string, error) {
	rows, err := m.work.Query(ctx, `SELECT c.relname FROM pg_inherits t JOIN pg_class c ON c.oid = t.inhrelid
		WHERE t.inhparent = to_regclass($1) AND NOT EXISTS (SELECT FROM pg_inherits i JOIN pg_index x ON x.indexrelid = i.inhrelid
			WHERE i.inhparent = to_regclass($2) AND x.indrelid = c.oid) ORDER BY c.relname`, pgx.QueryExecModeExec, ix.table, ix.name)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// ask returns the answer to a question of yes or no.
func (m *migrator) ask(ctx context.Context, question string, args ...any) (yes bool, err error) {
	err = m.work.QueryRow(ctx, question, append([]any{pgx.QueryExecModeExec}, args...)...).Scan(&yes)
	return yes, err
}
