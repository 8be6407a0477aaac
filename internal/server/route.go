package server

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/operation"
)

// handle makes the API perform an operation with a function, over HTTP and for a Local.
func handle[In, Out any](a *api, op operation.Operation[In, Out], perform func(context.Context, *In) (Out, error)) {
	handleAs(a, op, perform, inBody[Out])
}

// answer is the HTTP answer of most operations: a body in JSON.
type answer[T any] struct{ Body T }

func inBody[T any](body T) *answer[T] { return &answer[T]{Body: body} }

// handleAs does the same for an operation whose HTTP answer has headers or a status of its own, or
// whose description needs more.
func handleAs[In, Out, Answer any](a *api, op operation.Operation[In, Out], perform func(context.Context, *In) (Out, error),
	form func(Out) *Answer, describe ...func(*huma.Operation)) {
	operation.Serve(a.calls, op, perform)
	if a.huma == nil {
		return
	}
	described := describeOperation(operation.Description(op))
	for _, add := range describe {
		add(&described)
	}
	huma.Register(a.huma, described, func(ctx context.Context, in *In) (*Answer, error) {
		out, err := perform(ctx, in)
		if err != nil {
			return nil, problemOf(err)
		}
		return form(out), nil
	})
}

// handleStream makes the API perform an operation that answers over HTTP in two forms, as JSON and
// as server-sent events, which respond chooses by the request. With perform nil it has the second
// form alone.
func handleStream[In, Out any](a *api, op operation.Operation[In, Out], perform func(context.Context, *In) (Out, error),
	respond func(context.Context, *In) (*huma.StreamResponse, error)) {
	if perform != nil {
		operation.Serve(a.calls, op, perform)
	}
	if a.huma == nil {
		return
	}
	described := describeOperation(operation.Description(op))
	content := map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}}
	if perform != nil {
		schemas := a.huma.OpenAPI().Components.Schemas
		content["application/json"] = &huma.MediaType{Schema: schemas.Schema(reflect.TypeFor[Out](), true, op.ID)}
	}
	described.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: content}}
	huma.Register(a.huma, described, func(ctx context.Context, in *In) (*huma.StreamResponse, error) {
		response, err := respond(ctx, in)
		if err != nil {
			return nil, problemOf(err)
		}
		return response, nil
	})
}

// describeOperation returns an operation in huma's form.
func describeOperation(op operation.Description) huma.Operation {
	described := huma.Operation{OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, DefaultStatus: op.Status}
	if op.Scope != "" {
		described.Security = []map[string][]string{{tokenScheme: {string(op.Scope)}}}
	}
	return described
}

// jsonResponse returns a response that writes value as JSON, or err.
func jsonResponse(value any, err error) (*huma.StreamResponse, error) {
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		ctx.SetHeader("Content-Type", "application/json")
		_ = json.NewEncoder(ctx.BodyWriter()).Encode(value) // a client that has gone needs no answer
	}}, nil
}
