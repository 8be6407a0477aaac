package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
)

// problemOf returns err as the API shows it. A Problem in its chain is copied.
func problemOf(err error) *operation.Problem {
	if p, ok := errors.AsType[*operation.Problem](err); ok {
		same := *p
		return &same
	}
	code := fault.CodeOf(err)
	status := code.HTTP()
	switch late, is := errors.AsType[lateBody](err); {
	case is:
		code, status = fault.Invalid, late.GetStatus()
	case errors.Is(err, context.Canceled): // the client has gone, or this process ends
		code, status = fault.Interrupted, fault.Interrupted.HTTP()
	}
	p := &operation.Problem{Type: operation.ProblemType + string(code), Status: status,
		Title: http.StatusText(status), Detail: err.Error(), Hint: fault.HintOf(err)}
	if problems, ok := errors.AsType[fault.Problems](err); ok {
		problems = problems.Few()
		pointers := pointersOf(err, problems)
		for _, problem := range problems {
			p.Problems = append(p.Problems, operation.FileProblem{Problem: problem,
				Pointer: pointers[fault.Position{Line: problem.Line, Column: problem.Column}]})
		}
	}
	return p
}

// requestHeader identifies a request in its answer, in problems and in logs.
const requestHeader = "X-Request-Id"

// retryAfterWriter sets Retry-After on every 503 and 429.
type retryAfterWriter struct{ http.ResponseWriter }

// retryAfter is in seconds: the longest time that a loop waits for an unreachable ledger.
const retryAfter = "5"

// WriteHeader begins the answer, with Retry-After if the status is 503 or 429.
func (p retryAfterWriter) WriteHeader(status int) {
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		p.Header().Set("Retry-After", retryAfter)
	}
	p.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the writer below, for http.ResponseController.
func (p retryAfterWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// nameRequest puts a new id of the request into the header of its answer.
func nameRequest(header http.Header) {
	header.Set(requestHeader, "urn:uuid:"+action.RandomID(time.Now()).String())
}

// ProblemOf returns err as the API shows it in the answer to a request.
func ProblemOf(w http.ResponseWriter, err error) *operation.Problem {
	p := problemOf(err)
	p.Instance = w.Header().Get(requestHeader)
	return p
}

// WriteProblem answers a request outside of huma with an error.
func WriteProblem(w http.ResponseWriter, _ *http.Request, err error) {
	WriteProblemAs(w, ProblemOf(w, err))
}

// WriteProblemAs answers a request with a problem.
func WriteProblemAs(w http.ResponseWriter, p *operation.Problem) {
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = safeJSON().Marshal(w, p) // a client that has gone needs no answer
}
