package postgres

import (
	"context"
	_ "embed"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// shape lists the objects that the migrations make, as shapeIn reads them: a line each, with kind, name and text.
//
//go:embed shape.txt
var shape string

// CheckShape returns fault.Corrupt unless the tables of a log have exactly the columns, triggers and rules that the migrations
// make, and the functions of the triggers are theirs. Other tables in the database do not matter. A log without the triggers
// that keep entries from being altered is not one to rely on, and a foreign trigger runs with whatever is recorded.
func CheckShape(ctx context.Context, url string) error {
	config, err := configure(url, "the address of the ledger")
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return unreachable(config.ConnConfig, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	have, err := schemaOf(ctx, conn)
	if err != nil || have != schema { // a newer Waybill has migrated it
		return coded(err)
	}
	want, tables := map[store.Object]string{}, []string{}
	for line := range strings.Lines(shape) {
		part := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		want[store.Object{Kind: part[0], Name: part[1]}] = part[2]
		if part[0] == "table" {
			tables = append(tables, part[1])
		}
	}
	got, err := shapeIn(ctx, conn, tables)
	if err != nil {
		return coded(err)
	}
	if differs := store.Differences(want, got); len(differs) > 0 {
		return fault.New(fault.Corrupt, "the database is not a whole log of schema %d: %s", schema, strings.Join(differs, "; ")).
			WithHint("use a backup that was not edited")
	}
	return nil
}

// shapeIn reads the shape of tables and of their partitions; nil: of all in the schema of the log. A partition has the columns of
// its table, and copies of its triggers, which are read where one is disabled. The default of a column is not read: raiseEra
// changes one. What a text consists of is independent of the version of the server.
func shapeIn(ctx context.Context, conn *pgx.Conn, tables []string) (map[store.Object]string, error) {
	rows, err := conn.Query(ctx, `WITH ours AS (
			SELECT c.oid, c.relname AS name, c.relispartition AS part FROM pg_class c
			WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'meta'::regclass) AND c.relkind IN ('r', 'p')
				AND ($1::text[] IS NULL OR c.relname = ANY ($1) OR EXISTS (SELECT FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
					WHERE i.inhrelid = c.oid AND p.relname = ANY ($1)))),
		triggers AS (SELECT o.name || '.' || t.tgname AS name, t.* FROM ours o JOIN pg_trigger t ON t.tgrelid = o.oid
			WHERE NOT t.tgisinternal AND (t.tgparentid = 0 OR t.tgenabled <> 'O'))
		SELECT 'table', name, '' FROM ours WHERE NOT part
		UNION ALL SELECT 'column', o.name || '.' || a.attname, format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
			FROM ours o JOIN pg_attribute a ON a.attrelid = o.oid WHERE a.attnum > 0 AND NOT a.attisdropped AND NOT o.part
		UNION ALL SELECT 'trigger', name, pg_get_triggerdef(oid, true) || CASE tgenabled WHEN 'O' THEN '' ELSE ' disabled' END FROM triggers
		UNION ALL SELECT DISTINCT 'function', p.oid::regprocedure::text, l.lanname || ' ' || p.prosrc
			FROM triggers t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_language l ON l.oid = p.prolang
		UNION ALL SELECT 'rule', o.name || '.' || r.rulename, '' FROM ours o JOIN pg_rewrite r ON r.ev_class = o.oid
		UNION ALL SELECT 'policy', o.name || '.' || p.polname, '' FROM ours o JOIN pg_policy p ON p.polrelid = o.oid`,
		pgx.QueryExecModeExec, tables)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return store.ReadObjects(rows)
}
