package pullrequest

import (
	"context"
	"errors"

	"github.com/waybill-dev/waybill/internal/git/mirror"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Preview is the change that proposing a revision would make.
type Preview struct {
	AlreadyAsked bool   // the base branch has the revision already
	Base         string // commit of the base branch
	Diff         string // unified
	Lines        int    // lines that would be changed
}

// Preview returns the change that a proposal would make. It reads the repository and changes nothing. The error has no secrets.
func (h *Handler) Preview(ctx context.Context, w promotion.Work) (Preview, error) {
	t, err := h.open(ctx, w)
	if err != nil {
		return Preview{}, t.clean(err)
	}
	request, err := t.request(ctx)
	if err != nil {
		return Preview{}, t.clean(err)
	}
	found, err := h.cfg.Mirrors.Preview(ctx, request)
	if err != nil {
		return Preview{}, t.clean(err)
	}
	return Preview{AlreadyAsked: found.AlreadyAsked, Base: found.Base, Diff: found.Diff, Lines: len(found.Lines)}, nil
}

// Inspection is the result of a check of an environment's repository and credentials.
type Inspection struct {
	Access  githost.Access
	Markers int   // marked lines of the environment in the base branch
	Unread  error // why they could not be read; nil: they could
	// Guarded reports whether the host binds a merge to the head that was judged, Queues whether it has merge queues.
	Guarded, Queues bool
}

// Inspect reports the permissions of the credentials of an environment, and its markers. It changes nothing. Errors have no secrets.
func (h *Handler) Inspect(ctx context.Context, w promotion.Work) (found Inspection, err error) {
	t, err := h.open(ctx, w)
	if err != nil {
		return found, t.clean(err)
	}
	found.Guarded, found.Queues = !t.client.Unguarded(), t.client.Queues()
	if found.Access, err = t.client.Check(ctx); err != nil {
		return found, t.clean(err)
	}
	remote, err := t.remote(ctx)
	if err != nil {
		return found, t.clean(err)
	}
	lines, err := h.cfg.Mirrors.Values(ctx, mirror.Request{Remote: remote, Paths: w.Host.Paths, Of: environmentOf(w)}, w.Host.Base)
	found.Markers, found.Unread = len(lines), t.clean(err)
	return found, nil
}

// clean returns an error without the secrets of the credentials.
func (t *try) clean(err error) error {
	if err == nil || t == nil || t.redactor == nil {
		return err
	}
	text := err.Error()
	if clean := t.redactor.Text(text); clean != text {
		return errors.New(clean)
	}
	return err
}
