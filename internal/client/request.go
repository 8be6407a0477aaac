package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
)

// resumeAfter is a Client's wait before it resumes a broken stream.
const resumeAfter = time.Second

// request is one request of a Client.
type request struct {
	method, path string
	query        url.Values
	body         io.Reader
	size         int64 // size of body; 0: not known
	expect       string
	kind         string // Content-Type of body
	accept       string // "": JSON
	ifMatch      string
	prefer       string
	once         string // Idempotency-Key
	root         bool   // the path begins at the root and not below /api/v1
	lastEvent    string
	part         string // Range; a part after the end is empty
}

// Call performs an operation on the server.
func (c *Client) Call(ctx context.Context, d operation.Description, in, out any) error {
	q, err := newRequest(d, in)
	if err != nil {
		return err
	}
	if d.Status == http.StatusNoContent {
		out = nil
	}
	return c.doJSON(ctx, q, out)
}

// doJSON sends a request and decodes the answer into a value, unless that is nil.
func (c *Client) doJSON(ctx context.Context, q request, into any) error {
	response, err := c.sendRequest(ctx, q)
	if err != nil {
		return err
	}
	response.Body = bound(response.Body)
	defer response.Body.Close()
	if into == nil {
		return nil
	}
	body := bufio.NewReader(response.Body)
	err = checkNotEmpty(body, into)
	if err == nil {
		err = json.NewDecoder(body).Decode(into)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "read the answer of %s%s: %w", c.base, q.path, err).
			WithHint("is it a Waybill of the same version?")
	}
	return nil
}

// checkNotEmpty refuses null and {} for a value with a field that no answer leaves out: something else than Waybill may have
// answered, and done nothing.
func checkNotEmpty(answer *bufio.Reader, into any) error {
	begin, _ := answer.Peek(len("null")) // its decoder reports an error
	t := reflect.TypeOf(into).Elem()
	if t.Kind() != reflect.Struct || string(begin) != "null" && !bytes.HasPrefix(begin, []byte("{}")) {
		return nil
	}
	for _, field := range reflect.VisibleFields(t) {
		if tag := field.Tag.Get("json"); tag != "" && tag != "-" && !strings.Contains(tag, ",omit") {
			return fmt.Errorf("it lacks the field %s", tag)
		}
	}
	return nil
}

// sendRequest sends a request and returns its answer, or an error if the status is 400 or above. The caller closes the body.
func (c *Client) sendRequest(ctx context.Context, q request) (*http.Response, error) {
	address := c.base + operation.Prefix + q.path
	if q.root {
		address = c.base + q.path
	}
	if len(q.query) > 0 {
		address += "?" + q.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, q.method, address, q.body)
	if err != nil {
		return nil, fault.New(fault.Invalid, "ask %s: %w", c.base, err)
	}
	if q.size > 0 {
		r.ContentLength = q.size
	}
	for name, value := range map[string]string{
		"Content-Type": q.kind, "Accept": q.accept, "If-Match": q.ifMatch, "Last-Event-ID": q.lastEvent, operation.UserHeader: c.by,
		"Prefer": q.prefer, "Idempotency-Key": q.once, "Expect": q.expect, "Range": q.part,
	} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	to, err := c.lineFor(ctx)
	if err != nil {
		return nil, err
	}
	response, err := to.do(r)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, c.unreachable(err)
	case q.part != "" && response.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		err := response.Body.Close()
		response.Body = io.NopCloser(strings.NewReader(""))
		return response, err
	case response.StatusCode >= http.StatusBadRequest:
		defer response.Body.Close()
		return nil, c.withheld(to, faultOf(response))
	}
	return response, nil
}

// otherCodes maps the last part of a problem type of OGC API – Processes to a code. A server that ends has interrupted its
// own work and not that of this process.
var otherCodes = map[string]fault.Code{ //nolint:gochecknoglobals // a constant table
	"no-such-process": fault.NoSuchProcess, "no-such-job": fault.NoSuchAction,
	operation.ProblemType + string(fault.Interrupted): fault.Unavailable,
}

// faultOf returns the error of a problem that a server answered with.
func faultOf(response *http.Response) error {
	var p operation.Problem
	if json.NewDecoder(io.LimitReader(response.Body, mostProblem)).Decode(&p) == nil {
		if code, ok := otherCodes[p.Type[strings.LastIndex(p.Type, "/")+1:]]; ok {
			p.Type = operation.ProblemType + string(code)
		}
		if strings.HasPrefix(p.Type, operation.ProblemType) {
			return p.ToError()
		}
	}
	return fault.New(fault.Unavailable, "%s answered %s", response.Request.URL.Host, response.Status).
		WithHint("is it a Waybill of the same version?")
}

// followStream calls each with the kind and data of every server-sent event, until each returns false or an error. A broken
// connection is resumed after the last event.
func (c *Client) followStream(ctx context.Context, ask request, each func(kind, data string) (more bool, err error)) error {
	for reached := false; ; {
		response, err := c.sendRequest(ctx, ask)
		if err != nil && (!reached || !fault.Is(err, fault.Unavailable)) {
			return err // never reached, or refused: not a broken stream
		}
		if err == nil {
			reached = true
			if more, err := readStream(response, &ask, each); err != nil || !more {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(resumeAfter):
		}
	}
}

// readStream calls each for the events of one connection until that breaks, which is not an error: more is then true, and
// ask.lastEvent is set to resume from.
func readStream(response *http.Response, ask *request, each func(kind, data string) (bool, error)) (more bool, err error) {
	defer response.Body.Close()
	lines := &io.LimitedReader{R: response.Body}
	reader := bufio.NewReader(lines)
	var id, kind, data string
	for {
		lines.N = int64(mostWhole - len(data))
		line, err := reader.ReadString('\n')
		if err != nil && lines.N <= 0 {
			return false, fault.New(fault.Unavailable, "an event has more than %d bytes", mostWhole)
		}
		if err != nil {
			return true, nil // a broken stream is resumed
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			data += value
		case "":
			if value != "" || data == "" { // a comment, or an event without data
				continue
			}
			if more, err := each(kind, data); err != nil || !more {
				return false, err
			}
			if id != "" {
				ask.lastEvent = id
			}
			kind, data = "", ""
		}
	}
}

// apiPath joins the parts of a path and escapes each.
func apiPath(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString("/" + url.PathEscape(part))
	}
	return b.String()
}
