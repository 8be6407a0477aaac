//go:build services

package server_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// sharedStores are the databases that need a server.
var sharedStores = map[string]func(testing.TB) *servertest.World{"postgres": servertest.StartShared}

func TestStatusNamesTheHomeThatHostsWaitFor(t *testing.T) {
	t.Parallel()
	w := servertest.StartShared(t)
	w.Apply(t, servertest.Definition)
	ctx := t.Context()
	away := queue.HostHome{ID: "a", Place: "m1:/srv/a"}
	for _, address := range []string{"local://oak", "local://elm", "local://gone"} {
		if _, err := w.Ledger.BindHost(ctx, address, away); err != nil {
			t.Fatal(err)
		}
	}
	v, err := w.Service.Status(ctx)
	want := "no conductor has the home m1:/srv/a with local://elm, local://oak: their steps wait for it"
	if err != nil || len(v.Troubles) != 1 || v.Troubles[0].Text != want || !v.Troubles[0].Warning {
		t.Errorf("%+v, %v", v.Troubles, err)
	}
	w.Ledger.UpdateReport(func(r *queue.Report) { r.Home = &queue.HostHome{ID: "a", Place: "m1:/moved"} })
	if v, err := w.Service.Status(ctx); err != nil || len(v.Troubles) != 0 {
		t.Errorf("with a conductor of the home: %+v, %v", v.Troubles, err)
	}
}
