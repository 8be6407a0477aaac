package promotionstest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// blobs is a blob store in memory.
type blobs struct {
	objects map[string][]byte
	full    bool // it takes nothing
}

func (b *blobs) Put(_ context.Context, key string, r io.Reader) (stored, digest string, size int64, err error) {
	if b.full {
		return "", "", 0, fault.New(fault.Unavailable, "the store is full")
	}
	content, err := io.ReadAll(r)
	key += "digest"
	b.objects[key] = content
	return key, "digest", int64(len(content)), err
}

func (b *blobs) Get(_ context.Context, key string) (io.ReadCloser, int64, error) {
	content, ok := b.objects[key]
	if !ok {
		return nil, 0, fault.New(fault.NotFound, "%s not found", key)
	}
	return io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
}

func entriesOfOldRunsAreArchived(t *testing.T, s setup) {
	for n := int64(1); n <= 23; n++ {
		c := run(n, promotion.Revision(fmt.Sprint(n)))
		if n == 1 { // it finished last in prod
			c.Facts = append(c.Facts, promotion.Fact{Run: 1, Env: "prod", Event: promotion.StageFinished, At: start})
		}
		c.Runs = append(c.Runs, promotion.RunChange{Run: promotion.Run{Number: n - 1}, End: promotion.Superseded})
		s.record(t, c)
	}
	want, err := s.Entries(s.ctx, promotions.Page{Pipeline: name, Run: 2})
	storetest.Check(t, err)
	before := s.load(t)
	stored := &blobs{objects: map[string][]byte{}}
	archive := func() (keys []string) {
		t.Helper()
		storetest.Check(t, s.Archive(s.ctx, stored))
		runs, err := s.Runs(s.ctx, promotions.RunQuery{Pipeline: name})
		storetest.Check(t, err)
		for _, r := range runs {
			if r.Archive != "" {
				keys = append(keys, fmt.Sprint(r.Number))
			}
		}
		return keys
	}
	if got := archive(); len(got) != 0 {
		t.Errorf("archived runs that have just ended: %v", got)
	}
	long := "now() - interval '401 days'"
	if s.db.Embedded() {
		long = "(unixepoch() - 401 * 86400) * 1000000"
	}
	storetest.Check(t, s.database.Exec("UPDATE promotion_run SET ended_at = "+long+" WHERE ended_at IS NOT NULL"))
	stored.full = true
	storetest.WantCode(t, s.Archive(s.ctx, stored), fault.Unavailable)
	stored.full = false
	if diff := cmp.Diff([]string{"3", "2"}, archive()); diff != "" {
		t.Errorf("archived runs (-want +got):\n%s", diff)
	}
	left, err := s.Entries(s.ctx, promotions.Page{Pipeline: name, Run: 2})
	storetest.Check(t, err)
	r, err := s.Run(s.ctx, name, 2)
	storetest.Check(t, err)
	got, err := promotions.ReadArchive(s.ctx, stored, r)
	storetest.Check(t, err)
	if diff := cmp.Diff(want, got); diff != "" || len(left) != 0 {
		t.Errorf("%d entries are left; the archive (-want +got):\n%s", len(left), diff)
	}
	if after := s.load(t); after.Head != before.Head || len(after.Runs) != len(before.Runs) {
		t.Errorf("head %d and %d runs after archiving, want %d and %d", after.Head, len(after.Runs), before.Head, len(before.Runs))
	}
	stored.objects[r.Archive] = []byte("x")
	_, err = promotions.ReadArchive(s.ctx, stored, r)
	storetest.WantCode(t, err, fault.Corrupt)
}
