package server

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
)

// A handler is behind when an action waits long that its lane lets start, and not while all that waits is in lanes that are
// slowed, paused or disabled.
func TestOnlyLanesThatMayStartMakeAHandlerLate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	hook := HandlerView{Backlog: ledger.Backlog{Handler: "hook", Ready: 3, Oldest: now.Add(-time.Hour)}, Served: 1}
	v := StatusView{Now: now, Handlers: []HandlerView{hook}}
	if late := v.lateTroubles(nil); len(late) != 0 {
		t.Errorf("with nothing outside of such lanes: %+v", late)
	}
	v.Handlers[0].Free = now.Add(-lateAfter)
	if late := v.lateTroubles(nil); len(late) != 1 || !late[0].Since.Equal(v.Handlers[0].Free) {
		t.Errorf("with an action in a lane that is well: %+v", late)
	}
}
