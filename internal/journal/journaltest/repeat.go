package journaltest

import (
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func requestsWithAKeyDeployOnce(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	want := journal.NewDeployment{Pipeline: testPipeline, Revision: 1, Kind: journal.Manual, By: "ana", Key: "k1"}
	var wait sync.WaitGroup
	made := make([]journal.Deployment, 4)
	for i := range made {
		wait.Go(func() {
			var err error
			if made[i], err = s.Deploy(s.ctx, want); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, d := range made {
		if d.ID != made[0].ID || d.Number != made[0].Number || d.Number == 0 {
			t.Errorf("the same request made %+v and %+v", made[0], d)
		}
	}
	other := want
	other.By = "ben"
	d, err := s.Deploy(s.ctx, other)
	storetest.Check(t, err)
	if d.ID == made[0].ID {
		t.Error("the key of another person is the same")
	}
	want.Key = ""
	d, err = s.Deploy(s.ctx, want)
	storetest.Check(t, err)
	if d.Number != made[0].Number+2 {
		t.Errorf("a request without a key made #%d", d.Number)
	}
	s.register(t, "88d0e17")
	want.Key, want.Revision = "k1", 2
	if _, err := s.Deploy(s.ctx, want); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("another request with the key: %v", err)
	}
}
