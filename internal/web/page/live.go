package page

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/store"
)

// The pace of live pages.
const (
	// LookAgain is the longest time between two renderings. Some changes, such as the start of an
	// attempt, wake no waiter.
	LookAgain   = 2 * time.Second
	gather      = 120 * time.Millisecond // shortest rest after a rendering: changes at the same time are sent together
	restPerLook = 4                      // rest as a multiple of the last rendering: a page uses at most a fifth of a core
)

// Follow sends the page's content now and after each change. The event's id is the digest of
// the content, so that a browser that reconnects does not get the same content again.
func (s *Site) Follow(w http.ResponseWriter, r *http.Request, load Loader) {
	if _, err := load(r); err != nil {
		server.WriteProblem(w, r, err) // not a stream, which a browser would request again and again
		return
	}
	server.ServeEvents(w, r, func(ctx context.Context, stream *server.EventStream) error {
		waiter, seen := s.service.Waiter(), r.Header.Get("Last-Event-ID")
		for {
			begun := time.Now()
			body, shown, err := s.renderLive(r.WithContext(ctx), load)
			if err != nil {
				return err
			}
			sum := sha256.Sum256([]byte(body))
			if id := hex.EncodeToString(sum[:8]); id != seen {
				if err := stream.Text(id, "content", body); err != nil {
					return err
				}
				seen = id
			}
			rest := max(gather, restPerLook*time.Since(begun))
			topics := []store.Topic{store.TopicEntry, store.TopicAction, store.TopicPromotion}
			if shown.Builds {
				topics = append(topics, store.TopicBuild)
			}
			if err := waiter.Wait(ctx, cmp.Or(shown.Every, LookAgain), topics...); err != nil {
				return err
			}
			if !loop.Pause(ctx, rest) {
				return context.Cause(ctx)
			}
		}
	})
}

// renderLive returns the content of a live page.
func (s *Site) renderLive(r *http.Request, load Loader) (body string, shown Content, err error) {
	if shown, err = load(r); err != nil {
		return "", shown, err
	}
	v := s.view(r, shown)
	v.Live = true
	rendered, err := Render(v.Template, v)
	return string(rendered), shown, err
}
