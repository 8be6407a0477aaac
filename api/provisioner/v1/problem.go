package provisionerv1

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// Problem is an error as it is sent (RFC 7807).
type Problem struct {
	Type   string `json:"type"` // waybill: and the error's code
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`

	Problems []fault.Problem `json:"problems,omitempty"` // each fault of a body
	Waiting  *Waiting        `json:"waiting,omitempty"`  // details of type waybill:waiting
}

const (
	typePrefix  = "waybill:"
	waitingType = typePrefix + "waiting"
)

// ProblemOf returns the problem that an error is sent as.
func ProblemOf(err error) Problem {
	code := fault.CodeOf(err)
	p := Problem{Type: typePrefix + string(code), Title: http.StatusText(code.HTTP()), Status: code.HTTP(),
		Detail: err.Error(), Hint: fault.HintOf(err)}
	if code == fault.Internal {
		p.Detail = "an error of the provisioner; its log has more"
	}
	if problems, ok := errors.AsType[fault.Problems](err); ok {
		p.Problems = problems.Few()
	}
	return p
}

// WaitingProblem returns the problem that reports that a worker has to wait.
func WaitingProblem(w Waiting) Problem {
	detail := fmt.Sprintf("%d workers run, and %d may", w.Running, w.Limit)
	if w.Project != "" {
		detail = fmt.Sprintf("%d workers of project %s run, and %d may", w.Running, w.Project, w.Limit)
	}
	return Problem{Type: waitingType, Title: http.StatusText(http.StatusTooManyRequests),
		Status: http.StatusTooManyRequests, Detail: detail, Waiting: &w}
}

// toError returns the error that the problem was made of.
func (p Problem) toError() error {
	code := fault.Code(strings.TrimPrefix(p.Type, typePrefix))
	if !strings.HasPrefix(p.Type, typePrefix) {
		code = fault.Unavailable
	}
	return &fault.Error{Code: code, Text: p.Detail, Hint: p.Hint}
}
