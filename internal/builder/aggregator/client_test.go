package aggregator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
)

// slow is a worker that brings a byte of its answer at a time.
type slow struct {
	text  string
	pause time.Duration // before each byte
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(&slowly{r.Context(), strings.NewReader(s.text), s.pause})}, nil
}

type slowly struct {
	ctx   context.Context
	from  io.Reader
	pause time.Duration
}

func (s *slowly) Read(p []byte) (int, error) {
	select {
	case <-time.After(s.pause):
		return s.from.Read(p[:1])
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	}
}

// TestASlowListArrives: only a worker that is silent is given up.
func TestASlowListArrives(t *testing.T) {
	t.Parallel()
	for pause, want := range map[time.Duration]error{20 * time.Second: nil, time.Minute: errSilence} {
		bubbletest.Test(t, func(t *testing.T) {
			c := &client{http: &http.Client{Transport: slow{`{"steps": [{"stepId": 7}]}`, pause}}, base: "http://worker", patience: 30 * time.Second}
			steps, err := c.steps(t.Context())
			if !errors.Is(err, want) || err == nil && (len(steps) != 1 || steps[0].ID != 7) {
				t.Errorf("a byte each %s: %+v, %v", pause, steps, err)
			}
		})
	}
}
