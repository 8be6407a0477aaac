package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// TestDeploymentLogReadsAsText: a shell shows the five columns of the log.
func TestDeploymentLogReadsAsText(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "waybill.db")
	l := ledger.New(open(t, path), ledger.Options{})
	defer func() { must(t, l.Close()) }()
	_, err := l.Define(t.Context(), "greeter", 0, func(journal.Locked) (journal.Change, error) {
		return journal.Change{Definition: &pipeline.Definition{Pipeline: "greeter"}}, nil
	})
	must(t, err)
	made, err := l.Register(t.Context(), pipeline.RegisteredRevision{Pipeline: "greeter", Label: "3f2c9a1"}, true, "")
	must(t, err)
	db, err := sql.Open("sqlite", "file:"+path)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	var id, target, revision, event, at string
	must(t, db.QueryRowContext(t.Context(), "SELECT id, target_id, revision, event_name, created_at FROM deployment_log").
		Scan(&id, &target, &revision, &event, &at))
	if id != made.Deployment.ID.String() || target != "greeter" || revision != "3f2c9a1" || event != pipeline.DeploymentCreated {
		t.Errorf("got (%s, %s, %s, %s), want deployment %s", id, target, revision, event, made.Deployment.ID)
	}
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`).MatchString(at) {
		t.Errorf("time reads %q", at)
	}
}
