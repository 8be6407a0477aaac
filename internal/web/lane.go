package web

import (
	"context"
	"net/http"
	"slices"

	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
)

// lanes returns the page of all lanes that have a limiter.
func (p *Pages) lanes(r *http.Request) (content, error) {
	limits, err := p.service.Limits(r.Context())
	return content{Title: "Lanes", Template: "lanes", Nav: "actions", Data: limits}, err
}

// troubledLanes returns the lanes that are slowed, paused or disabled.
func (p *Pages) troubledLanes(ctx context.Context) ([]queue.Limiter, error) {
	limits, err := p.service.Limits(ctx)
	return slices.DeleteFunc(limits, func(l queue.Limiter) bool { return !l.Troubled() }), err
}

// canPause and canReset report which commands make sense for a lane now. The ledger checks again.
func canPause(l queue.Limiter) bool { return l.PausedBy == "" }
func canReset(l queue.Limiter) bool { return l.Slowed > 0 || l.Bad > 0 || l.Disabled() }

// schedules returns the page of the schedules.
func (p *Pages) schedules(r *http.Request) (content, error) {
	views, err := p.service.Schedules(r.Context())
	return content{Title: "Schedules", Template: "schedules", Nav: "actions", Data: views}, err
}

// otherTroubles returns the troubles of the status page without those of lanes, which have their own table.
func otherTroubles(v server.StatusView) []server.Trouble {
	return slices.DeleteFunc(slices.Clone(v.Troubles), func(t server.Trouble) bool { return t.Kind == server.TroubleLane })
}
