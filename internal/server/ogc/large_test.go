package ogc

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/semaphore"
)

// TestLargeRequestsAreReadAFewAtATime: reading a request takes many times its size. Small requests do not wait for large ones.
func TestLargeRequestsAreReadAFewAtATime(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		a := &API{large: semaphore.New(largeAtOnce, largePatience, "too many large requests are being read")}
		large := []byte(`{"inputs": {"a": "` + strings.Repeat("x", blob.Inline) + `"}}`)
		for range largeAtOnce {
			if _, err := a.acquireLarge(t.Context(), large); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := a.readExecution(t.Context(), large, config.Process{}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("one large request too many: %v, want it unavailable", err)
		}
		release, err := a.acquireLarge(t.Context(), []byte(`{"inputs": {}}`))
		if err != nil {
			t.Fatalf("a small request: %v", err)
		}
		release()
	})
}
