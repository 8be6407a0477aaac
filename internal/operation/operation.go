// Package operation describes the requests that people and programs can make of Waybill as values, with their inputs and answers,
// and holds the headers, the problems and the proof of a home's token on which clients and servers agree.
package operation

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/service"
)

// UserHeader carries the user's name, since all users of a machine share the home's token.
const UserHeader = "Waybill-User"

// Prefix begins the path of every operation of Waybill's own API.
const Prefix = "/api/v1"

// Operation describes one request that people and programs can make of Waybill. Its route registers
// it, and a Caller performs it: in this process, or on a server.
//
// In is a struct. Its fields are the parameters of the HTTP request, by the tags path, query and
// header; the field Body is sent as JSON, bytes with the tag contentType are sent as they are, and
// a Content is sent as it is read. Out is the answer, as JSON.
type Operation[In, Out any] Description

// Description is an Operation without its types.
type Description struct {
	ID      string        // id of the operation, such as list-limits
	Method  string        // HTTP method
	Path    string        // with names of parameters in braces
	Scope   service.Scope // "": none, so that reading needs no token on this machine
	Status  int           // HTTP status of a success; 0: 200
	Summary string        // summary in the description of the API
}

// Call performs the operation. Errors have the fault codes of a Service; fault.Unavailable if a
// server cannot be reached.
func (op Operation[In, Out]) Call(ctx context.Context, to Caller, in In) (out Out, err error) {
	err = to.Call(ctx, Description(op), &in, &out)
	return out, err
}

// Caller performs operations: a Local on the log of this process, a Client on a server.
type Caller interface {
	// Call performs an operation. in points to its input; the answer is stored in out, a pointer.
	Call(ctx context.Context, d Description, in, out any) error
}

// Nothing is the input of an operation without parameters.
type Nothing struct{}

// Calls is a Caller with a function for each operation, by its id.
type Calls map[string]func(ctx context.Context, in, out any) error

// Call performs an operation with its function.
func (c Calls) Call(ctx context.Context, d Description, in, out any) error {
	perform, ok := c[d.ID]
	if !ok {
		return fmt.Errorf("operation %s is not served in this process", d.ID)
	}
	return perform(ctx, in, out)
}

// Serve adds the function of an operation.
func Serve[In, Out any](c Calls, op Operation[In, Out], perform func(context.Context, *In) (Out, error)) {
	c[op.ID] = func(ctx context.Context, in, out any) (err error) {
		*out.(*Out), err = perform(ctx, in.(*In))
		return err
	}
}
