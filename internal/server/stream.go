package server

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

func wantsStream(accept string) bool { return strings.Contains(accept, "text/event-stream") }

// jsonResponse returns a response that writes value as JSON, or the Problem of err.
func jsonResponse(value any, err error) (*huma.StreamResponse, error) {
	if err != nil {
		return nil, problemOf(err)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		ctx.SetHeader("Content-Type", "application/json")
		_ = json.NewEncoder(ctx.BodyWriter()).Encode(value) // a client that has gone needs no answer
	}}, nil
}

// eventResponse returns a response that writes server-sent events until send ends.
func eventResponse(send func(context.Context, *EventStream) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		request, writer := humago.Unwrap(ctx)
		ServeEvents(writer, request, send)
	}}
}
