package action

import (
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// retry retries an action and leads to the new one.
func (p *pages) retry(r *http.Request, by string) (next string, err error) {
	id, err := actionOf(r)
	if err != nil {
		return "", err
	}
	made, err := p.service.RetryAction(r.Context(), id, by)
	return actionPath(made.ID), err
}

func (p *pages) cancel(r *http.Request, _ string) (next string, err error) {
	id, err := actionOf(r)
	if err != nil {
		return "", err
	}
	_, err = p.service.CancelAction(r.Context(), id)
	return actionPath(id), err
}

func (p *pages) snooze(r *http.Request, by string) (next string, err error) {
	id, err := actionOf(r)
	if err != nil {
		return "", err
	}
	pause, err := page.Duration(r, "for")
	if err != nil {
		return "", err
	}
	_, err = p.service.SnoozeAction(r.Context(), id, time.Now().Add(pause), by)
	return actionPath(id), err
}

func actionOf(r *http.Request) (action.ID, error) {
	id, err := action.ParseID(r.PathValue("id"))
	if err != nil {
		return id, fault.Wrap(fault.NotFound, err)
	}
	return id, nil
}

func actionPath(id action.ID) string { return "/actions/" + id.String() }
