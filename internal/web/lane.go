package web

import (
	"context"
	"net/http"
	"slices"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/server"
)

// lanes is the page of all lanes that have a limiter.
func (p *Pages) lanes(r *http.Request) (content, error) {
	limits, err := p.service.Limits(r.Context())
	return content{Title: "Lanes", Template: "lanes", Nav: "actions", Data: limits}, err
}

// troubledLanes returns the lanes that are slowed, paused or disabled.
func (p *Pages) troubledLanes(ctx context.Context) ([]ledger.Limiter, error) {
	limits, err := p.service.Limits(ctx)
	return slices.DeleteFunc(limits, func(l ledger.Limiter) bool { return !l.Troubled() }), err
}

// Commands that make sense for a lane now; the ledger judges again.
func canPause(l ledger.Limiter) bool { return l.PausedBy == "" }
func canReset(l ledger.Limiter) bool { return l.Slowed > 0 || l.Bad > 0 || l.Disabled() }

// schedules is the page of what is done again and again.
func (p *Pages) schedules(r *http.Request) (content, error) {
	views, err := p.service.Schedules(r.Context())
	return content{Title: "Schedules", Template: "schedules", Nav: "actions", Data: views}, err
}

// otherTroubles returns what the status page lists above its lanes, which have a table of their own.
func otherTroubles(v server.StatusView) []server.Trouble {
	return slices.DeleteFunc(slices.Clone(v.Troubles), func(t server.Trouble) bool { return t.Kind == server.TroubleLane })
}
