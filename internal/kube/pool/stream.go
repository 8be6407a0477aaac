package pool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Bounds of answers.
const (
	maxEvent    = 8 << 20   // bytes of one event
	maxResponse = 256 << 20 // bytes of any other answer
	maxError    = 64 << 10  // bytes that are read of an error
	maxObjects  = 100_000   // objects of a kind in a watch
)

// watch follows the objects of a resource. client-go's own streams keep two buffers of the size of the largest object
// for as long as a watch is open, which would be most of the memory that a small cluster takes.
func (c *connection) watch(ctx context.Context, w *watcher, o metav1.ListOptions) (watch.Interface, error) {
	in, of := w.in, w.scope
	for _, part := range []string{of.namespace, in.Resource} {
		if bad := content.IsPathSegmentName(part); len(bad) > 0 { // it could select other objects
			return nil, fmt.Errorf("name %.100q %s", part, bad[0])
		}
	}
	address := c.server.JoinPath(pathOf(in.GroupVersion()))
	if of.namespace != "" {
		address = address.JoinPath("namespaces", of.namespace)
	}
	address = address.JoinPath(in.Resource)
	address.RawQuery = watchQuery(o).Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(responseError(response, in), response.Body.Close())
	}
	return watch.NewStreamWatcherWithLogger(logr.Discard(), &events{body: response.Body, whole: w.kind.key.source},
		apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "ClientWatchDecoding")), nil
}

// watchQuery returns the parameters of a watch.
func watchQuery(o metav1.ListOptions) url.Values {
	q := url.Values{"watch": {"true"}, "allowWatchBookmarks": {strconv.FormatBool(o.AllowWatchBookmarks)}}
	for key, value := range map[string]string{
		"resourceVersion":      o.ResourceVersion,
		"resourceVersionMatch": string(o.ResourceVersionMatch),
		"fieldSelector":        o.FieldSelector,
	} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if o.SendInitialEvents != nil {
		q.Set("sendInitialEvents", strconv.FormatBool(*o.SendInitialEvents))
	}
	if o.TimeoutSeconds != nil {
		q.Set("timeoutSeconds", strconv.FormatInt(*o.TimeoutSeconds, 10))
	}
	return q
}

// responseError returns the error that an API server has answered with.
func responseError(response *http.Response, in resource) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxError))
	if err != nil {
		return fmt.Errorf("watch %s: %s: %w", in.Resource, response.Status, err)
	}
	status := &metav1.Status{}
	if json.Unmarshal(text, status) == nil && status.Kind == "Status" && status.Status == metav1.StatusFailure {
		return apierrors.FromObject(status)
	}
	return apierrors.NewGenericServerResponse(response.StatusCode, "watch", in.GroupResource(), "",
		cut(string(text), maxText), 0, true)
}

// events decodes the events of a watch. Between two events it keeps no buffer.
type events struct {
	body    io.ReadCloser
	whole   bool // whole objects are needed, not only the fields of AppState
	decoder *jsontext.Decoder
	read    int64 // bytes since the last event
	count   int   // objects
}

// decoders are those that no event needs, with their buffers.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// Read reads the body, up to the bound of an event.
func (e *events) Read(p []byte) (int, error) {
	if e.read > maxEvent {
		return 0, fmt.Errorf("an event is longer than %d bytes", maxEvent)
	}
	n, err := e.body.Read(p)
	e.read += int64(n)
	return n, err
}

// Decode returns the next event.
func (e *events) Decode() (watch.EventType, runtime.Object, error) {
	kind, fields, err := e.next()
	if err != nil {
		return "", nil, err
	}
	switch kind {
	case watch.Error:
		status := &metav1.Status{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, status); err != nil {
			return "", nil, fmt.Errorf("decode an error: %w", err)
		}
		return kind, status, nil
	case watch.Added:
		if e.count++; e.count > maxObjects {
			return "", nil, fmt.Errorf("more than %d objects", maxObjects)
		}
	case watch.Modified, watch.Deleted, watch.Bookmark:
	default:
		return "", nil, fmt.Errorf("unknown event %q", cut(string(kind), maxText))
	}
	object := &unstructured.Unstructured{Object: fields}
	if object.GetKind() == "" {
		return "", nil, errors.New("decode an object: it has no kind")
	}
	return kind, object, nil
}

// next reads an event, and the needed fields of its object.
func (e *events) next() (kind watch.EventType, fields map[string]any, err error) {
	if e.decoder == nil {
		e.decoder, _ = decoders.Get().(*jsontext.Decoder)
		// A repeated name counts as the API machinery has it: the last one does.
		e.decoder.Reset(e, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	}
	e.read = 0
	needed := needs{"type": nil, "object": appFields}
	if e.whole {
		needed["object"] = nil
	}
	value, err := pick(e.decoder, needed)
	if err != nil {
		return "", nil, err
	}
	if rest := e.decoder.UnreadBuffer(); len(bytes.TrimSpace(rest)) == 0 { // at most the end of a line
		decoders.Put(e.decoder)
		e.decoder = nil
	}
	event, _ := value.(map[string]any)
	text, _ := event["type"].(string)
	fields, _ = event["object"].(map[string]any)
	return watch.EventType(text), fields, nil
}

// needs are names of an object's fields, each with the needed ones of its value; nil: all.
type needs map[string]needs

// appFields are those that AppState and its callers read, and those of an error. The rest of an object, such as the
// list of all that an application has made, is often most of it, and is skipped.
var appFields = needs{
	"apiVersion": nil, "kind": nil,
	"metadata": {"name": nil, "namespace": nil, "uid": nil, "generation": nil, "resourceVersion": nil, "deletionTimestamp": nil,
		"labels": nil, "annotations": nil},
	"spec": {"suspend": nil, "source": nil, "sources": nil},
	"status": {"observedGeneration": nil, "lastAppliedRevision": nil, "lastAttemptedRevision": nil,
		"lastAttemptedRevisionDigest": nil, "lastAppliedOriginRevision": nil, "conditions": nil, "history": nil,
		"sync": nil, "health": nil, "operationState": nil},
	"message": nil, "reason": nil, "code": nil, "details": nil,
}

// pick reads a value, as the API machinery does: a whole number is an int64. Of an object it keeps the needed fields.
func pick(from *jsontext.Decoder, needed needs) (any, error) {
	switch from.PeekKind() {
	case '{':
		return pickObject(from, needed)
	case '[':
		return pickList(from)
	case '0':
		return readNumber(from)
	}
	token, err := from.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '"':
		return token.String(), nil
	case 'n':
		return nil, nil
	}
	return token.Bool(), nil
}

func pickObject(from *jsontext.Decoder, needed needs) (any, error) {
	if _, err := from.ReadToken(); err != nil {
		return nil, err
	}
	fields := map[string]any{}
	for from.PeekKind() == '"' {
		name, err := from.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		of, wanted := needed[key]
		if needed != nil && !wanted {
			if err := from.SkipValue(); err != nil {
				return nil, err
			}
			continue
		}
		if fields[key], err = pick(from, of); err != nil {
			return nil, err
		}
	}
	_, err := from.ReadToken()
	return fields, err
}

func pickList(from *jsontext.Decoder) (any, error) {
	if _, err := from.ReadToken(); err != nil {
		return nil, err
	}
	list := []any{}
	for from.PeekKind() != ']' {
		value, err := pick(from, nil)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := from.ReadToken()
	return list, err
}

func readNumber(from *jsontext.Decoder) (any, error) {
	text, err := from.ReadValue()
	if err != nil {
		return nil, err
	}
	if whole, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return whole, nil
	}
	return strconv.ParseFloat(string(text), 64)
}

// Close ends the watch.
func (e *events) Close() { _ = e.body.Close() }
