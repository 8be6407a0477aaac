//go:build services

package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/goldentest"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
)

// logged makes a database with a log, and a connection that is not the driver's.
func logged(t *testing.T) (url string, conn *pgx.Conn) {
	t.Helper()
	url = pgtest.URL(t)
	open(t, url)
	return url, connect(t, url)
}

// TestShapeIsWhatTheMigrationsMake: -rewrite writes the file after a new migration.
func TestShapeIsWhatTheMigrationsMake(t *testing.T) {
	t.Parallel()
	_, conn := logged(t)
	objects, err := postgres.ShapeIn(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for o, text := range objects {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\n", o.Kind, o.Name, text))
	}
	slices.Sort(lines)
	goldentest.Compare(t, "shape.txt", strings.Join(lines, ""))
}

// TestAnEditedShapeIsFound: what guards the rows of a log, and what would run when they are written.
func TestAnEditedShapeIsFound(t *testing.T) {
	t.Parallel()
	const free = "CREATE FUNCTION free() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; "
	for edit, want := range map[string]string{
		"ANALYZE; CREATE TABLE other (x int)":                                                  "",
		"DROP TABLE log_line":                                                                  "table log_line is missing",
		"ALTER TABLE token ADD COLUMN more text":                                               "column token.more is foreign",
		"ALTER TABLE token ALTER COLUMN name TYPE varchar(3)":                                  "column token.name was changed",
		"DROP TRIGGER entry_immutable ON entry":                                                "trigger entry.entry_immutable is missing",
		"ALTER TABLE entry DISABLE TRIGGER USER":                                               "trigger entry.entry_immutable was changed",
		"ALTER TABLE event DISABLE TRIGGER USER":                                               "trigger event.event_immutable was changed",
		"CREATE RULE evil AS ON INSERT TO token DO ALSO NOTHING":                               "rule token.evil is foreign",
		free + "CREATE TRIGGER evil AFTER UPDATE ON meta FOR EACH ROW EXECUTE FUNCTION free()": "trigger meta.evil is foreign",
		"CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$":                                                                                                          "function refuse_change() was changed",
		free + "DO $$ BEGIN EXECUTE (SELECT format('CREATE TRIGGER evil AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION free()', inhrelid::regclass) FROM pg_inherits WHERE inhparent = 'action'::regclass LIMIT 1); END $$": ".evil is foreign",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			url, conn := logged(t)
			if _, err := conn.Exec(t.Context(), edit); err != nil {
				t.Fatal(err)
			}
			err := postgres.CheckShape(t.Context(), url)
			if want == "" && err != nil || want != "" && (!fault.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), want)) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}
