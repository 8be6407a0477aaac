package journaltest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// digestFaults returns the faults that CheckDigests finds.
func (s setup) digestFaults(t storetest.TB) (faults []string) {
	t.Helper()
	storetest.Check(t, s.read(func(tx rows) (err error) {
		faults, err = journal.CheckDigests(tx)
		return err
	}))
	return faults
}

// unguard lets other programs change entries, as the owner of the database can.
func (s setup) unguard(t *testing.T) {
	t.Helper()
	statements := []string{"DROP TRIGGER entry_update", "DROP TRIGGER entry_delete"}
	if s.driver.Name() == "postgres" {
		statements = []string{"ALTER TABLE entry DISABLE TRIGGER USER"}
	}
	for _, statement := range statements {
		storetest.Check(t, s.database.Exec(statement))
	}
}

// editsOfEntriesAreNamed: with the position of the entry, whatever was edited.
func editsOfEntriesAreNamed(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "r1")
	approval := note(1, testPipeline+"/prod", pipeline.ApprovalGiven)
	approval.Detail = []byte(`{"by": "ana", "reason": "looks good"}`)
	s.append(t, fact(1, testPipeline, pipeline.PipelineStarted), approval, fact(1, testPipeline+"/beta", pipeline.StageStarted))
	s.append(t, fact(1, oak, pipeline.HostStarted), note(1, oak, pipeline.StepReported))
	if faults := s.digestFaults(t); len(faults) > 0 {
		t.Fatalf("before any edit: %q", faults)
	}
	s.unguard(t)
	storetest.Check(t, s.database.Exec("CREATE TABLE kept_entry AS SELECT * FROM entry"))
	changed := func(seqs ...int) (want []string) {
		for _, seq := range seqs {
			want = append(want, fmt.Sprintf("entry %d was changed: it does not have the digest that it was written with", seq))
		}
		return want
	}
	const last, added = 7, "INSERT INTO entry SELECT * FROM kept_entry WHERE seq = 4"
	for name, c := range map[string]struct {
		edit []string
		want []string
	}{
		"who approved":         {[]string{`UPDATE entry SET detail = '{"by": "eve", "reason": "looks good"}' WHERE seq = 4`}, changed(4)},
		"for which revision":   {[]string{"UPDATE entry SET revision = 2 WHERE seq = 4"}, changed(4)},
		"for which deployment": {[]string{"UPDATE entry SET deployment = 2 WHERE seq = 4"}, changed(4)},
		"where":                {[]string{"UPDATE entry SET target_id = (SELECT target_id FROM entry WHERE seq = 5) WHERE seq = 4"}, changed(4)},
		"what":                 {[]string{"UPDATE entry SET event_name = 'approval-rejected' WHERE seq = 4"}, changed(4)},
		"with another digest":  {[]string{"UPDATE entry SET digest = NULL, revision = 2 WHERE seq = 4"}, changed(5)},
		"removed":              {[]string{"DELETE FROM entry WHERE seq = 4"}, []string{"entry 4 is missing"}},
		"the last changed":     {[]string{"UPDATE entry SET detail = NULL, revision = 2 WHERE seq = 7"}, changed(last)},
		"the last removed":     {[]string{"DELETE FROM entry WHERE seq = 7"}, []string{"entry 7 is missing"}},
		"the last removed, and the end of the log": {[]string{"DELETE FROM entry WHERE seq = 7", "UPDATE pipeline_head SET seq = 6"},
			[]string{"the digest at the end, of entry 6, is not the one that the pipeline keeps: entries were changed or removed there"}},
		"one added at the end": {[]string{"UPDATE entry SET seq = 8, occurrence = 2 WHERE seq = 4", added},
			append(changed(8), "entry 8 was added: the pipeline ends at entry 7")},
		"one added in between": {[]string{"UPDATE entry SET seq = seq + 100 WHERE seq > 4", "UPDATE entry SET seq = seq - 99 WHERE seq > 100",
			"UPDATE entry SET seq = 5, occurrence = 2 WHERE seq = 4", added, "UPDATE pipeline_head SET seq = 8"}, changed(5, 6, 7, 8)},
		"two that changed places": {[]string{"UPDATE entry SET seq = 100 WHERE seq = 4", "UPDATE entry SET seq = 4 WHERE seq = 5",
			"UPDATE entry SET seq = 5 WHERE seq = 100"}, changed(4, 5, 6)},
	} {
		for _, statement := range c.edit {
			storetest.Check(t, s.database.Exec(statement))
		}
		for i := range c.want {
			c.want[i] = testPipeline + ": " + c.want[i]
		}
		if diff := cmp.Diff(c.want, s.digestFaults(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, statement := range []string{"DELETE FROM entry", "INSERT INTO entry SELECT * FROM kept_entry",
			"UPDATE pipeline_head SET seq = 7"} {
			storetest.Check(t, s.database.Exec(statement))
		}
	}
}

// earlierVersionsWriteNoDigests: they may have written the beginning of a log, and append between later entries while
// processes are replaced. Later entries are linked to the last entry that has a digest.
func earlierVersionsWriteNoDigests(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "r1")
	s.unguard(t)
	for _, statement := range []string{"UPDATE entry SET digest = NULL", "UPDATE pipeline_head SET digest = NULL"} {
		storetest.Check(t, s.database.Exec(statement))
	}
	s.append(t, fact(1, testPipeline, pipeline.PipelineStarted), note(1, oak, pipeline.StepReported))
	const columns = "deployment, target_id, event_name, class, revision, definition_version, created_at"
	for _, statement := range []string{
		"INSERT INTO entry (pipeline_id, seq, occurrence, " + columns + ") SELECT pipeline_id, 5, 2, " + columns + " FROM entry WHERE seq = 4",
		"UPDATE pipeline_head SET seq = 5",
	} {
		storetest.Check(t, s.database.Exec(statement))
	}
	s.append(t, note(1, oak, pipeline.StepReported))
	if faults := s.digestFaults(t); len(faults) > 0 {
		t.Errorf("faults %q", faults)
	}
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, Digests: true})
	storetest.Check(t, err)
	var covered []int64
	for _, e := range entries {
		if !e.Digest.IsZero() {
			covered = append(covered, e.Seq)
		}
	}
	if diff := cmp.Diff([]int64{3, 4, 6}, covered); diff != "" {
		t.Errorf("entries with digests (-want +got):\n%s", diff)
	}
	storetest.Check(t, s.database.Exec("UPDATE entry SET revision = 9 WHERE seq IN (3, 6)"))
	if faults := s.digestFaults(t); len(faults) != 2 || !strings.Contains(faults[0], "entry 3 was changed") ||
		!strings.Contains(faults[1], "entry 6 was changed") {
		t.Errorf("faults %q", faults)
	}
}
