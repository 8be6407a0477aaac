package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/yamltree"
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

const problemType = "waybill:"

// problemOf returns err as the API shows it. A Problem in its chain is copied.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		same := *p
		return &same
	}
	code := fault.CodeOf(err)
	p := &Problem{Type: problemType + string(code), Status: code.HTTP(), Title: http.StatusText(code.HTTP()), Detail: err.Error(), Hint: fault.HintOf(err)}
	if problems, ok := errors.AsType[fault.Problems](err); ok {
		problems = problems.Few()
		pointers := pointersOf(err, problems)
		for _, problem := range problems {
			p.Problems = append(p.Problems, FileProblem{problem, pointers[fault.Position{Line: problem.Line, Column: problem.Column}]})
		}
	}
	return p
}

// toError returns the error from which a server made the Problem.
func (p *Problem) toError() error {
	code := fault.Code(strings.TrimPrefix(p.Type, problemType))
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
func (p *Problem) Error() string             { return p.Detail }
func (p *Problem) GetStatus() int            { return p.Status }
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// requestHeader identifies a request in its answer, in problems and in logs.
const requestHeader = "X-Request-Id"

// retryAfterWriter sets Retry-After on every 503.
type retryAfterWriter struct{ http.ResponseWriter }

// retryAfter is in seconds: the longest time that a loop waits for an unreachable ledger.
const retryAfter = "5"

// WriteHeader begins the answer, with Retry-After if the status is 503.
func (p retryAfterWriter) WriteHeader(status int) {
	if status == http.StatusServiceUnavailable {
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
func ProblemOf(w http.ResponseWriter, err error) *Problem {
	p := problemOf(err)
	p.Instance = w.Header().Get(requestHeader)
	return p
}

// WriteProblem answers a request outside of huma with an error.
func WriteProblem(w http.ResponseWriter, _ *http.Request, err error) {
	WriteProblemAs(w, ProblemOf(w, err))
}

// WriteProblemAs answers a request with a problem.
func WriteProblemAs(w http.ResponseWriter, p *Problem) {
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = safeJSON().Marshal(w, p) // a client that has gone needs no answer
}

// transformErrors makes a Problem of what huma reports about bad input, and gives every Problem its request and its status.
func transformErrors(ctx huma.Context, _ string, v any) (any, error) {
	c, _ := ctx.(*inputContext) // nil before the first middleware
	p, ok := v.(*Problem)
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
func problemOfModel(model *huma.ErrorModel, unreadable bool) *Problem {
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
	details := []string{fault.Clip(model.Detail)}
	for _, e := range model.Errors[:min(mostFaults, len(model.Errors))] {
		details = append(details, fault.Clip(withoutSecret(e)))
	}
	if more := len(model.Errors) - mostFaults; more > 0 {
		details = append(details, fmt.Sprintf("and %d more", more))
	}
	p := &Problem{Type: problemType + string(code), Title: http.StatusText(status), Status: status, Detail: strings.Join(details, "; ")}
	if code == fault.BadMediaType {
		p.Hint = "send Content-Type: application/json" // curl -d says another one by itself
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
	status     int  // of the Problem; 0 without one
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

// sourced is an error about a file that a client sent.
type sourced struct {
	error
	source []byte
}

func (s sourced) Unwrap() error { return s.error }

// inSource attaches the text that the problems in err are about, so that they get JSON pointers.
func inSource(err error, source []byte) error {
	if err == nil {
		return nil
	}
	return sourced{err, source}
}

// longestPointer is the size in bytes above which a pointer is left out.
const longestPointer = 1000

// pointersOf returns the JSON pointers (RFC 6901) of the problems' positions in the file that err is about.
func pointersOf(err error, problems fault.Problems) map[fault.Position]string {
	about, ok := errors.AsType[sourced](err)
	if !ok {
		return nil
	}
	root, _ := yamltree.Parse("", about.source, yamltree.PipelineFile)
	if root == nil { // the source is not a document
		return nil
	}
	wanted := map[fault.Position]bool{}
	for _, problem := range problems {
		wanted[fault.Position{Line: problem.Line, Column: problem.Column}] = true
	}
	p := pointing{wanted: wanted, found: map[fault.Position]string{}}
	p.node(root)
	return p.found
}

// pointing walks a document and keeps the pointers of the wanted positions.
type pointing struct {
	wanted map[fault.Position]bool
	path   []string // from the root to the current node
	found  map[fault.Position]string
}

// note keeps the pointer of the first node at a position. If several nodes begin there it is the outermost, where the
// missing key of a mapping is reported.
func (p *pointing) note(at fault.Position) {
	if _, known := p.found[at]; known || !p.wanted[at] {
		return
	}
	size := 0
	for _, part := range p.path {
		size += 1 + len(part)
	}
	if size > longestPointer {
		return
	}
	var b strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, part := range p.path {
		b.WriteString("/" + escape.Replace(part))
	}
	p.found[at] = b.String()
}

func (p *pointing) node(n *document.Node) {
	p.note(n.At)
	for i, item := range n.Items {
		p.below(strconv.Itoa(i), item.At, item)
	}
	for _, field := range n.Fields {
		p.below(field.Key, field.At, field.Value)
	}
}

// below walks the value of a key that is written at a position.
func (p *pointing) below(key string, at fault.Position, n *document.Node) {
	p.path = append(p.path, key)
	p.note(at)
	p.node(n)
	p.path = p.path[:len(p.path)-1]
}
