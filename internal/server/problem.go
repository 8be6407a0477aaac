package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Problem is an error as the API writes it (RFC 7807).
type Problem struct {
	Type     string        `json:"type" doc:"waybill: and the error's code"`
	Title    string        `json:"title"`
	Status   int           `json:"status"`
	Detail   string        `json:"detail" doc:"what went wrong here"`
	Hint     string        `json:"hint,omitempty" doc:"what the reader can do"`
	Problems []FileProblem `json:"problems,omitempty" doc:"every fault of a file"`
}

// FileProblem is a fault in a file, with the place as a JSON pointer too.
type FileProblem struct {
	fault.Problem
	Pointer string `json:"pointer,omitempty"`
}

const problemType = "waybill:"

// problemOf is err as the API shows it.
func problemOf(err error) *Problem {
	code := fault.CodeOf(err)
	p := &Problem{
		Type: problemType + string(code), Status: code.HTTP(), Title: http.StatusText(code.HTTP()),
		Detail: err.Error(), Hint: fault.HintOf(err),
	}
	if problems, ok := errors.AsType[fault.Problems](err); ok {
		for _, problem := range problems {
			p.Problems = append(p.Problems, FileProblem{problem, pointer(problem.Scope)})
		}
	}
	return p
}

// fault is the error that a Problem was made from.
func (p *Problem) fault() error {
	if len(p.Problems) == 0 {
		return &fault.Error{Code: fault.Code(strings.TrimPrefix(p.Type, problemType)), Text: p.Detail, Hint: p.Hint}
	}
	problems := make(fault.Problems, len(p.Problems))
	for i, problem := range p.Problems {
		problems[i] = problem.Problem
	}
	return problems
}

// Error, GetStatus and ContentType make a Problem an error that huma writes as it is.
func (p *Problem) Error() string             { return p.Detail }
func (p *Problem) GetStatus() int            { return p.Status }
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// WriteProblem answers a request that huma does not handle.
func WriteProblem(w http.ResponseWriter, _ *http.Request, err error) {
	p := problemOf(err)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p) // a client that went away needs no answer
}

// transformErrors turns what huma says of bad input into a Problem of code invalid, and keeps the rest.
func transformErrors(_ huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	details := []string{}
	for _, e := range model.Errors {
		details = append(details, e.Error())
	}
	p := &Problem{Type: problemType + string(fault.Invalid), Title: http.StatusText(http.StatusBadRequest), Status: http.StatusBadRequest}
	if model.Status >= http.StatusInternalServerError {
		p.Type, p.Title, p.Status = problemType+string(fault.Internal), model.Title, model.Status
	}
	p.Detail = strings.Join(append([]string{model.Detail}, details...), "; ")
	return p, nil
}

// inputStatus makes huma's 422 for bad input the 400 that the specification wants.
type inputStatus struct{ anyContext }

// anyContext is huma.Context under a name that does not hide its method Context.
type anyContext huma.Context

func (c inputStatus) Unwrap() huma.Context { return c.anyContext }

func (c inputStatus) SetStatus(code int) {
	if code == http.StatusUnprocessableEntity {
		code = http.StatusBadRequest
	}
	c.anyContext.SetStatus(code)
}

// answer wraps a handler's end: nil stays nil, every error becomes a Problem.
func answer[T any](body T, err error) (*Out[T], error) {
	if err != nil {
		if errors.Is(err, context.Canceled) {
			err = fault.Wrap(fault.Interrupted, err)
		}
		return nil, problemOf(err)
	}
	return &Out[T]{Body: body}, nil
}

// Out is an answer with a JSON body.
type Out[T any] struct{ Body T }

// index matches a step of a field path such as stages[2].after[0].
var index = regexp.MustCompile(`\[(\d+)\]`)

// pointer is a field path as a JSON pointer (RFC 6901): /stages/2/after/0.
func pointer(path string) string {
	if path == "" {
		return ""
	}
	return "/" + strings.ReplaceAll(index.ReplaceAllString(path, ".$1"), ".", "/")
}
