package api

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/networktest"
)

// TestAConnectionWithoutARequestIsNoFault: a reader may have made one ahead when the worker ends.
func TestAConnectionWithoutARequestIsNoFault(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		network := networktest.NewMemory(0)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- serve(ctx, network, listener.Config{Handler: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler)})
		}()
		connection, err := network.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
