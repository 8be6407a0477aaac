package evidence_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
)

func id() action.ID {
	return action.NewID(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), [10]byte{1})
}

func TestAnExchangeOutlivesItsAttempt(t *testing.T) {
	t.Parallel()
	blobs, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	key := evidence.Archive{Blobs: blobs}.Exchange(ended, id(), 3, map[string]string{"said": "<b>"})
	if want := "action/2026w47/" + id().String() + "/exchange-3.json"; key != want {
		t.Fatalf("key %q, want %q", key, want)
	}
	r, _, err := blobs.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil || string(content) != "{\n \"said\": \"<b>\"\n}\n" {
		t.Errorf("%q, %v", content, err)
	}
}

type broken struct{}

func (broken) Put(context.Context, string, io.Reader) (string, string, int64, error) {
	return "", "", 0, errors.New("disk full")
}

func TestAStoreThatIsDownHoldsNothingUp(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	archive := evidence.Archive{Blobs: broken{}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	if key := archive.Exchange(t.Context(), id(), 1,
		1); key != evidence.Missing+"action/2026w47/"+id().String()+"/exchange-1.json" || !strings.Contains(log.String(), "disk full") {
		t.Errorf("key %q, log %q", key, log.String())
	}
}
