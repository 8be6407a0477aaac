package server

import (
	"context"
	"net/http"

	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// streamBuild sends what is stored of a build, and then what is added until the build ends.
func (s *Server) streamBuild(w http.ResponseWriter, r *http.Request, b buildview.Reader, state buildview.State) error {
	f, err := buildview.NewFollower(b, state, r.URL.Query(), r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	ServeEvents(w, r, func(ctx context.Context, events *EventStream) error { return f.Follow(ctx, events.JSON) })
	return nil
}
