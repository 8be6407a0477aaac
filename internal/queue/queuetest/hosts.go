package queuetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func firstHomeKeepsAHost(t *testing.T, s setup) {
	a, b := queue.HostHome{ID: "a", Place: "m1:/a"}, queue.HostHome{ID: "b", Place: "m2:/b"}
	bind := func(address string, home, want queue.HostHome) {
		t.Helper()
		keeper, err := s.BindHost(s.ctx, address, home)
		storetest.Check(t, err)
		if keeper != want {
			t.Errorf("%s asked for %s, which is in %+v, want %+v", home.ID, address, keeper, want)
		}
	}
	if s.Embedded() { // it has one home, wherever that is moved to
		bind("local://oak", a, a)
		bind("local://oak", b, b)
		return
	}
	bind("local://oak", a, a)
	bind("local://oak", b, a)
	bind("local://oak", queue.HostHome{ID: "a", Place: "m3:/moved"}, a)
	bind("local:///srv/fir", b, b)
	homes, err := s.HostHomes(s.ctx)
	storetest.Check(t, err)
	if diff := cmp.Diff(map[string]queue.HostHome{"local://oak": a, "local:///srv/fir": b}, homes); diff != "" {
		t.Errorf("homes (-want +got):\n%s", diff)
	}
}
