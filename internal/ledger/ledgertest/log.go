package ledgertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func oldEpochIsRefused(t *testing.T, s setup) {
	s.define(t)
	a, b := s.join(t, "host-a"), s.join(t, "host-b")
	first := s.lease(t, a)
	if again := s.lease(t, a); again != first {
		t.Errorf("the holder's second lease is %+v, want %+v", again, first)
	}
	if !s.Embedded() {
		if _, ok, err := s.Lease(s.ctx, testPipeline, b.ID); ok || err != nil {
			t.Errorf("the lease of a living instance was given away: %v, %v", ok, err)
		}
	}
	storetest.Check(t, s.Leave(s.ctx, a))
	second := s.lease(t, b)
	if second.Epoch <= first.Epoch {
		t.Errorf("epoch %d after %d", second.Epoch, first.Epoch)
	}
	nothing := func(journal.Locked) (journal.Change, error) { return journal.Change{}, nil }
	_, err := s.Pass(s.ctx, first, 0, nothing)
	storetest.WantCode(t, err, fault.StaleEpoch)
	_, err = s.Pass(s.ctx, second, 0, nothing)
	storetest.Check(t, err)
	_, err = s.Append(s.ctx, testPipeline, 0, nothing) // people need no lease
	storetest.Check(t, err)
}

func historyRefusesChanges(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	s.startSteps(t, s.lease(t, host), stepOf(1, oak, pipeline.HostDeployed))
	s.end(t, host, s.claim(t, host, "step/"+oak, 1)[0], done())
	for _, statement := range []string{
		"UPDATE entry SET revision = 9", "DELETE FROM entry",
		"UPDATE action SET name = 'x'", "DELETE FROM action",
		"UPDATE event SET attempt = 9", "DELETE FROM event",
		"UPDATE thread_done SET status = 6", "DELETE FROM thread_done",
		"UPDATE pipeline SET version = 9", "DELETE FROM pipeline",
	} {
		if err := s.database.Exec(statement); err == nil {
			t.Errorf("%s was not refused", statement)
		}
	}
}

// opensWhatItWrote: a second process sees the same log, and a second migration changes nothing.
func opensWhatItWrote(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	other, _ := s.another(t)
	id, err := s.ID(s.ctx)
	storetest.Check(t, err)
	otherID, err := other.ID(s.ctx)
	storetest.Check(t, err)
	if id.IsZero() || id != otherID {
		t.Errorf("ids %s and %s", id, otherID)
	}
	want, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline})
	storetest.Check(t, err)
	got, err := other.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline})
	storetest.Check(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-written +read):\n%s", diff)
	}
}
