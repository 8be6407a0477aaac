package step

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
)

// oneHome keeps every host for one home.
type oneHome queue.HostHome

func (h oneHome) BindHost(context.Context, string, queue.HostHome) (queue.HostHome, error) {
	return queue.HostHome(h), nil
}

func TestStepOfAHostInAnotherHomeIsLeftToIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getenv("PATH"))
	w.revise(1, "exit 0")
	w.handler.config.Here = queue.HostHome{ID: "b", Place: "m2:/srv/b"}
	w.handler.config.Homes = oneHome{ID: "a", Place: "m1:/srv/a"}
	o := w.do(t.Context(), 1, pipeline.HostReplicated)
	want := "host oak waits for a conductor of the home m1:/srv/a, which holds its files; this one has m2:/srv/b"
	if o.Kind != action.RetryAfter || o.At.IsZero() || !strings.HasPrefix(o.Error, want) {
		t.Errorf("the step ended %s at %s: %s; want it retried later: %s", o.Kind, o.At, o.Error, want)
	}
	if _, err := os.Stat(filepath.Join(w.home, "hosts")); !os.IsNotExist(err) {
		t.Errorf("files were made in this home: %v", err)
	}
	w.handler.config.Homes = oneHome{ID: "b", Place: "m2:/srv/moved"}
	if o := w.do(t.Context(), 1, pipeline.HostReplicated); o.Kind != action.Done {
		t.Errorf("with the home that has the host: %s: %s", o.Kind, o.Error)
	}
}
