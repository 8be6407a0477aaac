//go:build linux && services

package chaos_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/test/chaos"
)

// TestKilledWhileCallingBack kills one of two conductors after the other while jobs end, some well and some not, and
// their callbacks are made. Each end has each of its callbacks once.
func TestKilledWhileCallingBack(t *testing.T) {
	t.Parallel()
	w := shared(t)
	victims := []*chaos.Process{serve(t, w, "conductor"), serve(t, w, "conductor")}
	for range 4 {
		before := w.Target.Visits()
		order(t, w, chaos.Parcel, parametersOf(chaos.Parcel), 20)
		order(t, w, chaos.Parcel, `{"outcome": "fatal"}`, 10)
		order(t, w, chaos.Parcel, `{"output": 7}`, 2) // it has no features: a part that failed at its birth
		visited(t, w, before+10)
		victims[0].Kill()
		victims = append(victims[1:], serve(t, w, "conductor"))
	}
	if v := judged(t, w); v.Lost == 0 || v.Ends[action.Failed] < 48 {
		t.Errorf("%d leases were lost and the ends are %v: the kills hit nothing", v.Lost, v.Ends)
	}
}
