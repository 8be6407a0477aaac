package operation

import (
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Problem is an error as the API writes it (RFC 7807).
type Problem struct {
	Type     string        `json:"type" doc:"waybill: and the error's code"`
	Title    string        `json:"title"`
	Status   int           `json:"status"`
	Detail   string        `json:"detail" doc:"what went wrong"`
	Instance string        `json:"instance,omitempty" doc:"the request, as the header X-Request-Id names it"`
	Hint     string        `json:"hint,omitempty" doc:"what the reader can do"`
	Problems []FileProblem `json:"problems,omitempty" doc:"every fault of a file"`
}

// FileProblem is a fault in a file, with its place also as a JSON pointer.
type FileProblem struct {
	fault.Problem
	Pointer string `json:"pointer,omitempty"`
}

const ProblemType = "waybill:"

// ToError returns the error from which a server made the Problem.
func (p *Problem) ToError() error {
	code := fault.Code(strings.TrimPrefix(p.Type, ProblemType))
	if len(p.Problems) == 0 {
		return &fault.Error{Code: code, Text: p.Detail, Hint: p.Hint}
	}
	problems := make(fault.Problems, len(p.Problems))
	for i, problem := range p.Problems {
		problems[i] = problem.Problem
	}
	if code == fault.Invalid {
		return problems
	}
	return fault.Wrap(code, problems)
}

// Error returns the detail. With GetStatus and ContentType a Problem is an error that huma writes as it is.
func (p *Problem) Error() string { return p.Detail }

func (p *Problem) GetStatus() int { return p.Status }

func (p *Problem) ContentType(string) string { return "application/problem+json" }
