package server

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/queue"
)

// A handler is behind if an action waits for long although its lane may start it. Actions in slowed, paused or disabled lanes
// do not count.
func TestOnlyLanesThatMayStartMakeAHandlerLate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	hook := HandlerView{Backlog: queue.Backlog{Handler: "hook", Ready: 3, Oldest: now.Add(-time.Hour)}, Served: 1}
	v := StatusView{Now: now, Handlers: []HandlerView{hook}}
	if late := v.lateTroubles(nil); len(late) != 0 {
		t.Errorf("with nothing outside of such lanes: %+v", late)
	}
	v.Handlers[0].Free = now.Add(-lateAfter)
	if late := v.lateTroubles(nil); len(late) != 1 || !late[0].Since.Equal(v.Handlers[0].Free) {
		t.Errorf("with an action in a lane that is well: %+v", late)
	}
}
