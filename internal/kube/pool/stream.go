package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

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
func (c *connection) watch(ctx context.Context, in resource, of scope, o metav1.ListOptions) (watch.Interface, error) {
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
	return watch.NewStreamWatcherWithLogger(logr.Discard(), &events{body: response.Body},
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
	decoder *json.Decoder
	read    int64 // bytes since the last event
	count   int   // objects
}

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
	if e.decoder == nil {
		e.decoder = json.NewDecoder(e)
	}
	e.read = 0
	var event struct {
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := e.decoder.Decode(&event); err != nil {
		return "", nil, err
	}
	if rest, ok := e.decoder.Buffered().(interface{ Len() int }); ok && rest.Len() <= 1 { // the end of a line
		e.decoder = nil
	}
	switch event.Type {
	case watch.Error:
		status := &metav1.Status{}
		if err := json.Unmarshal(event.Object, status); err != nil {
			return "", nil, fmt.Errorf("decode an error: %w", err)
		}
		return event.Type, status, nil
	case watch.Added:
		if e.count++; e.count > maxObjects {
			return "", nil, fmt.Errorf("more than %d objects", maxObjects)
		}
	case watch.Modified, watch.Deleted, watch.Bookmark:
	default:
		return "", nil, fmt.Errorf("unknown event %q", cut(string(event.Type), maxText))
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(event.Object); err != nil {
		return "", nil, fmt.Errorf("decode an object: %w", err)
	}
	return event.Type, object, nil
}

// Close ends the watch.
func (e *events) Close() { _ = e.body.Close() }
