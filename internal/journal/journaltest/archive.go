package journaltest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// archivable makes three deployments: the first has finished, the second has failed, the third is active.
func (s setup) archivable(t *testing.T) journal.Lease {
	t.Helper()
	s.define(t)
	for _, label := range []string{"r1", "r2", "r3"} {
		s.register(t, label)
	}
	s.append(t, fact(1, testPipeline, pipeline.PipelineStarted), fact(1, testPipeline+"/beta", pipeline.StageStarted),
		fact(2, testPipeline, pipeline.PipelineStarted), fact(1, oak, pipeline.HostStarted), fact(1, oak, pipeline.HostFinished),
		fact(1, testPipeline+"/beta", pipeline.StageFinished), fact(1, testPipeline, pipeline.PipelineFinished))
	s.append(t, note(2, testPipeline, pipeline.PipelineFailed), fact(3, testPipeline, pipeline.PipelineStarted))
	return s.lease(t, s.instance(t, "deployer"))
}

// archived returns an archiver's record of a deployment that has the entries it finds now.
func (s setup) archived(t *testing.T, number int64) journal.ArchivedDeployment {
	t.Helper()
	rows, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, Deployment: number})
	storetest.Check(t, err)
	d := journal.ArchivedDeployment{Number: number, Key: fmt.Sprintf("archives/%s/%d.jsonl.gz", testPipeline, number),
		Entries: int64(len(rows))}
	if len(rows) > 0 {
		d.First, d.Last = rows[0].Seq, rows[len(rows)-1].Seq
	}
	return d
}

// archive makes the pass that archives deployments.
func (s setup) archive(lease journal.Lease, some ...journal.ArchivedDeployment) (journal.Head, error) {
	return s.Pass(s.ctx, lease, 0, archiving(some...))
}

func archiving(some ...journal.ArchivedDeployment) journal.Decider {
	return func(journal.Locked) (journal.Change, error) {
		return journal.Change{Entries: []pipeline.Entry{{Class: pipeline.Change, Event: pipeline.DeploymentsArchived,
			Detail: []byte(`{}`)}}, Archived: some}, nil
	}
}

// positions returns the positions of all entries, and whether they are of a deployment.
func (s setup) positions(t *testing.T, of int64) (found []int64) {
	t.Helper()
	rows, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, Deployment: of})
	storetest.Check(t, err)
	for _, e := range rows {
		found = append(found, e.Seq)
	}
	return found
}

// archivingMovesEndedDeployments: the entries go, the bound is the entry about it, and everything else stays.
func archivingMovesEndedDeployments(t *testing.T, s setup) {
	lease := s.archivable(t)
	first, second := s.archived(t, 1), s.archived(t, 2)
	others := len(s.positions(t, 0)) - int(first.Entries+second.Entries)
	runs, standing := s.stageRuns(t, 1), s.standing(t, oak)
	resources, err := s.Resources(s.ctx, journal.ResourceQuery{Pipeline: testPipeline})
	storetest.Check(t, err)
	before, err := s.Head(s.ctx, testPipeline)
	storetest.Check(t, err)

	after, err := s.archive(lease, first, second)
	storetest.Check(t, err)
	if after.Archived != before.Seq+1 || after.Seq != after.Archived {
		t.Errorf("the bound is %d and the log ends at %d, want both at %d", after.Archived, after.Seq, before.Seq+1)
	}
	read, err := s.Head(s.ctx, testPipeline)
	storetest.Check(t, err)
	if diff := cmp.Diff(after, read); diff != "" {
		t.Errorf("head (-of the pass +read):\n%s", diff)
	}
	if left := s.positions(t, 0); len(left) != others+1 {
		t.Errorf("entries %v are left, want %d and the new one", left, others)
	}
	if left := len(s.positions(t, 1)) + len(s.positions(t, 2)); left > 0 {
		t.Errorf("%d entries of archived deployments are left", left)
	}
	if diff := cmp.Diff(runs, s.stageRuns(t, 1)); diff != "" || len(runs) != 1 {
		t.Errorf("stage runs (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(standing, s.standing(t, oak)); diff != "" || standing.Current != 1 {
		t.Errorf("standing (-before +after):\n%s", diff)
	}
	still, err := s.Resources(s.ctx, journal.ResourceQuery{Pipeline: testPipeline})
	storetest.Check(t, err)
	if diff := cmp.Diff(resources, still); diff != "" || len(resources) != 1 {
		t.Errorf("resources (-before +after):\n%s", diff)
	}
	for number, want := range map[int64]string{1: first.Key, 2: second.Key, 3: ""} {
		d, err := s.Deployment(s.ctx, testPipeline, number)
		storetest.Check(t, err)
		if d.Archive != want || d.Status == "" || d.EndedAt.IsZero() != (number == 3) {
			t.Errorf("deployment %d: %+v, want the archive %q", number, d, want)
		}
	}
	s.append(t, fact(3, testPipeline+"/beta", pipeline.StageStarted)) // the log goes on above the bound
	if seqs := s.positions(t, 3); seqs[len(seqs)-1] != after.Seq+1 {
		t.Errorf("the next entry is at %d, want %d", seqs[len(seqs)-1], after.Seq+1)
	}
}

// archivingIsRefused: a refused deployment is not archived, and leaves no trace.
func archivingIsRefused(t *testing.T, s setup) {
	lease := s.archivable(t)
	stale := lease
	stale.Epoch--
	one, two := s.archived(t, 1), s.archived(t, 2)
	short := one
	short.Entries--
	nowhere := one
	nowhere.Key = ""
	before, entries := s.head(t), s.positions(t, 0)
	silent := func(journal.Locked) (journal.Change, error) {
		return journal.Change{Archived: []journal.ArchivedDeployment{one}}, nil
	}
	for name, c := range map[string]struct {
		code fault.Code
		do   func() error
	}{
		"one that is active":        {fault.Conflict, func() error { _, err := s.archive(lease, one, s.archived(t, 3)); return err }},
		"one that does not exist":   {fault.Internal, func() error { _, err := s.archive(lease, s.archived(t, 9)); return err }},
		"an archive that is short":  {fault.Conflict, func() error { _, err := s.archive(lease, two, short); return err }},
		"an archive without a key":  {fault.Internal, func() error { _, err := s.archive(lease, nowhere); return err }},
		"without an entry about it": {fault.Internal, func() error { _, err := s.Pass(s.ctx, lease, 0, silent); return err }},
		"by one without the lease":  {fault.StaleEpoch, func() error { _, err := s.archive(stale, one); return err }},
		"by a person":               {fault.Internal, func() error { _, err := s.Append(s.ctx, testPipeline, 0, archiving(one)); return err }},
	} {
		storetest.WantCode(t, c.do(), c.code)
		if diff := cmp.Diff(before, s.head(t)); diff != "" {
			t.Errorf("%s: head (-before +after):\n%s", name, diff)
		}
		if diff := cmp.Diff(entries, s.positions(t, 0)); diff != "" {
			t.Errorf("%s: entries (-before +after):\n%s", name, diff)
		}
	}
	_, err := s.archive(lease, one)
	storetest.Check(t, err)
	_, err = s.archive(lease, one)
	storetest.WantCode(t, err, fault.Conflict)
	storetest.WantCode(t, s.Remark(s.ctx, testPipeline, note(1, oak, pipeline.StepReported)), fault.Refused)
	storetest.Check(t, s.Remark(s.ctx, testPipeline, note(3, oak, pipeline.StepReported)))
}

func (s setup) head(t *testing.T) journal.Head {
	t.Helper()
	head, err := s.Head(s.ctx, testPipeline)
	storetest.Check(t, err)
	return head
}

// entriesStayUntilArchived: the database itself deletes no entry that is not archived, and opens no archived deployment again.
func entriesStayUntilArchived(t *testing.T, s setup) {
	lease := s.archivable(t)
	refused := func(when string, statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if err := s.database.Exec(statement); err == nil {
				t.Errorf("%s: %s was not refused", when, statement)
			}
		}
	}
	refused("before", "DELETE FROM entry WHERE deployment = 1", "DELETE FROM entry WHERE deployment = 0",
		"UPDATE deployment SET archive = 'x' WHERE status = 'active'")
	storetest.Check(t, s.database.Exec("UPDATE deployment SET archive = 'x' WHERE number = 2")) // its entries are above the bound
	refused("above the bound", "DELETE FROM entry WHERE deployment = 2")
	storetest.Check(t, s.database.Exec("UPDATE deployment SET archive = '' WHERE number = 2"))
	_, err := s.archive(lease, s.archived(t, 1))
	storetest.Check(t, err)
	refused("after", "DELETE FROM entry WHERE deployment = 0", "DELETE FROM entry WHERE deployment = 2",
		"DELETE FROM entry WHERE deployment = 3",
		"DELETE FROM entry", "UPDATE entry SET revision = 9", "UPDATE deployment SET status = 'active' WHERE number = 1")
	if got := len(s.positions(t, 2)); got != 3 {
		t.Errorf("%d entries of deployment 2 are left, want 3", got)
	}
}

// archivesAreListed: by their last entries, those of a stage, and those that began before a position.
func archivesAreListed(t *testing.T, s setup) {
	lease := s.archivable(t)
	first, second := s.archived(t, 1), s.archived(t, 2)
	_, err := s.archive(lease, first, second)
	storetest.Check(t, err)
	for name, c := range map[string]struct {
		query journal.ArchiveQuery
		want  []int64
	}{
		"all":                     {journal.ArchiveQuery{}, []int64{2, 1}},
		"the newest":              {journal.ArchiveQuery{Limit: 1}, []int64{2}},
		"of a stage":              {journal.ArchiveQuery{Stage: "beta"}, []int64{1}},
		"of another stage":        {journal.ArchiveQuery{Stage: "prod"}, nil},
		"that began before it":    {journal.ArchiveQuery{Before: second.First}, []int64{1}},
		"that began before both":  {journal.ArchiveQuery{Before: first.First}, nil},
		"that began before later": {journal.ArchiveQuery{Before: second.First + 1}, []int64{2, 1}},
	} {
		c.query.Pipeline = testPipeline
		some, err := s.Archives(s.ctx, c.query)
		storetest.Check(t, err)
		var got []int64
		for _, d := range some {
			got = append(got, d.Number)
			if want := map[int64]journal.ArchivedDeployment{1: first, 2: second}[d.Number]; d.Last != want.Last ||
				d.Archive != want.Key || d.Label == "" {
				t.Errorf("%s: %+v, want %+v", name, d, want)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

var errKilled = errors.New("killed")

// archivingIsWholeOrNothing: a transaction that ends early, behind the deletion, has archived nothing, and the next one does.
func archivingIsWholeOrNothing(t *testing.T, s setup) {
	lease := s.archivable(t)
	one := s.archived(t, 1)
	head, entries := s.head(t), s.positions(t, 0)
	err := s.write(func(tx rows) error {
		heads, err := tx.LockHeads([]string{testPipeline}, false)
		if err != nil {
			return err
		}
		row := heads[0]
		row.Archived = row.Seq
		if err := tx.UpdateHead(row); err != nil {
			return err
		}
		if n, err := tx.Archive(row.ID, one); err != nil || n != one.Entries {
			t.Errorf("%d entries were deleted (%v), want %d", n, err, one.Entries)
		}
		return errKilled
	})
	if !errors.Is(err, errKilled) {
		t.Fatalf("got %v, want %v", err, errKilled)
	}
	if diff := cmp.Diff(head, s.head(t)); diff != "" {
		t.Errorf("head (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(entries, s.positions(t, 0)); diff != "" {
		t.Errorf("entries (-before +after):\n%s", diff)
	}
	_, err = s.archive(lease, one)
	storetest.Check(t, err)
}

// decidersSeeTheBound: a decider's rows lack archived ones, and its locked head has the bound.
func decidersSeeTheBound(t *testing.T, s setup) {
	lease := s.archivable(t)
	one := s.archived(t, 1)
	after, err := s.archive(lease, one)
	storetest.Check(t, err)
	var newer []int64
	_, err = s.Append(s.ctx, testPipeline, one.First-1, func(locked journal.Locked) (journal.Change, error) {
		if locked.Archived != after.Archived {
			t.Errorf("the bound is %d, want %d", locked.Archived, after.Archived)
		}
		newer = nil
		for _, e := range locked.Newer {
			newer = append(newer, e.Seq)
		}
		return journal.Change{}, nil
	})
	storetest.Check(t, err)
	var want []int64
	for _, seq := range s.positions(t, 0) {
		if seq >= one.First {
			want = append(want, seq)
		}
	}
	if diff := cmp.Diff(want, newer); diff != "" || len(newer) >= int(after.Seq-one.First+1) {
		t.Errorf("newer entries (-want +got):\n%s", diff)
	}
}
