package buildstest

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/store/storetest"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// rowsKeepTheirFormat: other versions of the program share the database. Digests are 32 bytes, and the summary of a report is one document.
func rowsKeepTheirFormat(t *testing.T, s setup) {
	id, file := s.create(t), print(2)
	digest := sha256.Sum256([]byte("shop"))
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	s.ingest(t, id, builds.Batch{
		Logs: []*builds.LogBatch{file.batch(1, 0, 2)},
		Artifacts: []builds.Artifact{
			{
				Artifact: build.Artifact{
					ID:         1,
					Step:       1,
					Name:       "out/unit.xml",
					Size:       7,
					SHA256:     hex.EncodeToString(digest[:]),
					Kind:       "junit",
					Path:       "build/1/1",
					Executable: true,
				},
				State: builds.Stored,
			},
		},
		Tests: []build.TestFile{{Artifact: 1, Step: 1, Name: "out/unit.xml", Format: testresult.JUnit, Report: testresult.Report{
			Counts: testresult.Counts{
				Tests:    3,
				Failed:   1,
				Duration: time.Second,
			}, Omitted: 1}, Problem: &testresult.Error{Line: 3, Text: "cut off"}}},
		Events: []builds.Event{{Source: builds.Worker, EventID: "1", Step: 1, Status: build.Running, At: at},
			{Source: builds.Worker, EventID: "2", Step: 1, Status: build.Failed, At: at, Trailer: file.trailer()}}})
	for _, row := range []struct{ table, is string }{
		{"build_artifact",
			"length(sha256) = 32 AND name = 'out/unit.xml' AND size = 7 AND kind = 'junit' AND state = 'Stored' AND blob_key = 'build/1/1'"},
		{"build_step", "step_id <> 1 OR (length(trailer_sha256) = 32 AND trailer_entries = 2 AND trailer_bytes = log_bytes)"},
		{"test_report",
			`CAST(report AS text) = '{"tests":3,"failed":1,"skipped":0,"flaky":0,"duration":1000000000,"omitted":1,"problem":{"line":3,"text":"cut off"}}'`},
	} {
		if err := s.database.Exec("UPDATE " + row.table + " SET name = NULL WHERE " + row.is); err == nil {
			t.Errorf("no row of %s is as expected", row.table)
		}
		storetest.Check(t, s.database.Exec("UPDATE "+row.table+" SET name = NULL WHERE NOT ("+row.is+")"))
	}
}
