package web

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/queue"
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

// commandLane pauses, resumes, enables or resets a lane.
func (p *Pages) commandLane(r *http.Request, by string) (next string, err error) {
	command := queue.LimitCommand{Kind: r.PathValue("command"), By: by, Reason: r.PostFormValue("reason")}
	if r.PostFormValue("for") != "" {
		if command.For, err = durationOf(r, "for"); err != nil {
			return "", err
		}
	}
	_, err = p.service.Limit(r.Context(), strings.TrimSpace(r.PostFormValue("lane")), command)
	return "/lanes", err
}
