package server

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
)

// transformErrors makes a Problem of what huma reports about bad input, and gives every Problem its request and its status.
func transformErrors(ctx huma.Context, _ string, v any) (any, error) {
	c, _ := ctx.(*inputContext) // nil before the first middleware
	p, ok := v.(*operation.Problem)
	if model, wrong := v.(*huma.ErrorModel); wrong {
		p, ok = problemOfModel(model, c != nil && c.unreadable), true
	}
	if !ok {
		return v, nil
	}
	_, w := humago.Unwrap(ctx)
	p.Instance = w.Header().Get(requestHeader)
	if c != nil {
		c.status = p.Status
	}
	return p, nil
}

// problemOfModel converts an error of huma. Bad input is 400 and not huma's 422, and so is a body that the client did not
// send as announced.
func problemOfModel(model *huma.ErrorModel, unreadable bool) *operation.Problem {
	code, status := fault.Invalid, model.Status
	switch {
	case status == http.StatusRequestEntityTooLarge:
		code = fault.TooLarge
	case status == http.StatusUnsupportedMediaType:
		code = fault.BadMediaType
	case status == http.StatusUnprocessableEntity || unreadable:
		status = http.StatusBadRequest
	case status >= http.StatusInternalServerError:
		code = fault.Internal
	}
	ofBody := func(e *huma.ErrorDetail) bool { return strings.HasPrefix(e.Location, "body") }
	if at := slices.IndexFunc(model.Errors, ofBody); at >= 0 { // after those of parameters; those of a map come in any order
		slices.SortStableFunc(model.Errors[at:], func(a, b *huma.ErrorDetail) int {
			return cmp.Or(strings.Compare(a.Location, b.Location), strings.Compare(a.Message, b.Message))
		})
	}
	details := []string{fault.Clip(model.Detail)}
	for _, e := range model.Errors[:min(mostFaults, len(model.Errors))] {
		details = append(details, fault.Clip(withoutSecret(e)))
	}
	if more := len(model.Errors) - mostFaults; more > 0 {
		details = append(details, fmt.Sprintf("and %d more", more))
	}
	p := &operation.Problem{Type: operation.ProblemType + string(code), Title: http.StatusText(status), Status: status,
		Detail: strings.Join(details, "; ")}
	if code == fault.BadMediaType {
		p.Hint = "send Content-Type: application/json" // curl -d says another on its own
	}
	return p
}

// mostFaults bounds the faults of bad input that a Problem repeats.
const mostFaults = 10

// withoutSecret returns the text of a fault, without the bad value where it may be or have a password.
func withoutSecret(e *huma.ErrorDetail) string {
	kind := reflect.ValueOf(e.Value).Kind()
	if e.Location == "body" || strings.HasPrefix(e.Location, "body.password") || kind == reflect.Map || kind == reflect.Slice {
		return fmt.Sprintf("%s (%s)", e.Message, e.Location)
	}
	return e.Error()
}

// inputContext is a request on its way through huma. It keeps the status of the Problem that answers the request.
type inputContext struct {
	anyContext
	status     int  // status of the Problem; 0 without one
	unreadable bool // the body could not be read to its end
}

// anyContext is huma.Context under another name, since embedding it as Context would hide its method Context.
type anyContext huma.Context

func (c *inputContext) Unwrap() huma.Context { return c.anyContext }

// SetStatus writes the status of the Problem, or code without one.
func (c *inputContext) SetStatus(code int) {
	if c.status != 0 {
		code = c.status
	}
	c.anyContext.SetStatus(code)
}

// BodyReader returns the body. An error of reading it counts as the client's.
func (c *inputContext) BodyReader() io.Reader { return bodyReader{c.anyContext.BodyReader(), c} }

type bodyReader struct {
	io.Reader
	of *inputContext
}

func (b bodyReader) Read(into []byte) (int, error) {
	n, err := b.Reader.Read(into)
	if late, ok := errors.AsType[net.Error](err); err == nil || errors.Is(err, io.EOF) || ok && late.Timeout() {
		return n, err
	}
	b.of.unreadable = true
	return n, fault.New(fault.Invalid, "read the request's body: %w", err)
}
