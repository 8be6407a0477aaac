package web_test

import (
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
)

// alone returns a world without a conductor or a deployer.
func alone(t *testing.T) *servertest.World {
	t.Helper()
	dir := t.TempDir()
	driver := sqlitetest.Open(t, filepath.Join(dir, "waybill.db"))
	l := ledger.New(driver, ledger.Options{})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	blobs, err := blob.Open(t.Context(), filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	return &servertest.World{Ledger: l, Blobs: blobs}
}

// work claims the ready job, and ends its attempt unless the outcome is zero.
func (s *site) work(t *testing.T, host queue.Instance, o action.Outcome) {
	t.Helper()
	turned, err := s.Ledger.CompleteAndClaim(t.Context(), host, nil, []queue.Want{{Lane: "noop", N: 1}})
	if err != nil || len(turned.Claimed) != 1 {
		t.Fatal(turned, err)
	}
	if o.Kind == 0 {
		return
	}
	done := queue.Completion{ID: turned.Claimed[0].ID, Attempt: 1, Outcome: o}
	if _, err := s.Ledger.CompleteAndClaim(t.Context(), host, []queue.Completion{done}, nil); err != nil {
		t.Fatal(err)
	}
}
