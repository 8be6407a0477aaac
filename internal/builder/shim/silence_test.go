package shim_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/builder/shim"
	"github.com/waybill-dev/waybill/internal/kube/runner"
	"github.com/waybill-dev/waybill/internal/networktest"
)

// TestASlowUploadIsASignOfLife: a worker that sends a large workspace makes no other request in the meantime.
func TestASlowUploadIsASignOfLife(t *testing.T) {
	t.Parallel()
	file, digest := snapshot(t)
	p := newPod(t)
	bubbletest.Test(t, func(t *testing.T) {
		const pause = 15 * time.Second
		p.Silence = 4 * pause // a piece of the workspace takes several writes
		network, began := networktest.NewMemory(pause), time.Now()
		ended := make(chan error, 1)
		go func() { ended <- shim.Init(t.Context(), p.Config, os.Args[0], network) }()
		client := runner.NewClient(token, network.Dial)
		if _, err := client.Upload(t.Context(), file); err != nil {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		if took := time.Since(began); took < 2*p.Silence {
			t.Errorf("the upload took %s: the test shows nothing", took)
		}
		if err := errors.Join(client.Unpack(t.Context(), digest), <-ended); err != nil {
			t.Error(err)
		}
	})
}
