package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/waybill-dev/waybill/internal/service"
)

// EventStream writes server-sent events (WHATWG HTML, section 9.2). Safe for concurrent use.
type EventStream struct {
	mu      sync.Mutex
	w       io.Writer
	flusher *http.ResponseController
}

// ServeEvents answers a request with a stream of what send writes. send gets a context that ends with the client. Its error is
// not sent: the client's connection breaks, and the client resumes.
func ServeEvents(w http.ResponseWriter, r *http.Request, send func(context.Context, *EventStream) error) {
	leave, err := streamsOf(r.Context()).enter(clientOf(r))
	if err != nil {
		WriteProblem(w, r, err)
		return
	}
	defer leave()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // proxies must not buffer live events
	stream := &EventStream{w: w, flusher: http.NewResponseController(w)}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if stream.write(": waybill\n\n") != nil {
		return
	}
	var beat sync.WaitGroup
	defer beat.Wait()
	defer cancel(nil)
	beat.Go(func() {
		ticker := time.NewTicker(service.KeepAlive)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if err := stream.write(": still here\n\n"); err != nil {
					cancel(err)
				}
			}
		}
	})
	_ = send(ctx, stream) // the client resumes by connecting again
}

// JSON sends one event whose data is a JSON value.
func (s *EventStream) JSON(id, event string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", id, err)
	}
	return s.Text(id, event, string(escapeControls(data)))
}

// lineEnds replaces every line end of the format by one, so that a text cannot end its own event.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n") //nolint:gochecknoglobals // it never changes

// Text sends one event. With id "" the client keeps the last id.
func (s *EventStream) Text(id, event, data string) error {
	var b strings.Builder
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	fmt.Fprintf(&b, "event: %s\n", event)
	for line := range strings.SplitSeq(lineEnds.Replace(data), "\n") {
		fmt.Fprintf(&b, "data: %s\n", line)
	}
	b.WriteString("\n")
	return s.write(b.String())
}

// Comment sends a line that clients ignore.
func (s *EventStream) Comment(text string) error {
	return s.write(": " + strings.Join(strings.Fields(text), " ") + "\n\n")
}

func (s *EventStream) write(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.flusher.Flush()
}

func wantsStream(accept string) bool { return strings.Contains(accept, "text/event-stream") }

// eventResponse returns a response that writes server-sent events until send ends.
func eventResponse(send func(context.Context, *EventStream) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		request, writer := humago.Unwrap(ctx)
		ServeEvents(writer, request, send)
	}}
}
