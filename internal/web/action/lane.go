package action

import (
	"context"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// lanes returns the page of all lanes that have a limiter.
func (p *pages) lanes(r *http.Request) (page.Content, error) {
	limits, err := p.service.Limits(r.Context())
	return page.Content{Title: "Lanes", Nav: "actions", Data: limits}, err
}

// troubledLanes returns the lanes that are slowed, paused or disabled.
func (p *pages) troubledLanes(ctx context.Context) ([]queue.Limiter, error) {
	limits, err := p.service.Limits(ctx)
	return slices.DeleteFunc(limits, func(l queue.Limiter) bool { return !l.Troubled() }), err
}

// canPause and canReset report which commands make sense for a lane now. The ledger checks again.
func canPause(l queue.Limiter) bool { return l.PausedBy == "" }

func canReset(l queue.Limiter) bool { return l.Slowed > 0 || l.Bad > 0 || l.Disabled() }

// commandLane pauses, resumes, enables or resets a lane.
func (p *pages) commandLane(r *http.Request, by string) (next string, err error) {
	command := queue.LimitCommand{Kind: r.PathValue("command"), By: by, Reason: r.PostFormValue("reason")}
	if r.PostFormValue("for") != "" {
		if command.For, err = page.Duration(r, "for"); err != nil {
			return "", err
		}
	}
	_, err = p.service.Limit(r.Context(), strings.TrimSpace(r.PostFormValue("lane")), command)
	return "/lanes", err
}

// laneFunctions returns the template functions of a table of lanes.
func laneFunctions() template.FuncMap {
	return template.FuncMap{
		"laneWord": service.LaneWord, "rate": action.PerSecond, "canPause": canPause, "canReset": canReset,
	}
}

// schedules returns the page of the schedules.
func (p *pages) schedules(r *http.Request) (page.Content, error) {
	views, err := p.service.Schedules(r.Context())
	return page.Content{Title: "Schedules", Nav: "actions", Data: views}, err
}
