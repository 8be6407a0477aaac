package controller_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/flow/controller"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// TestElectionsAreLogged in the log of the controller, and nowhere beside it.
func TestElectionsAreLogged(t *testing.T) {
	t.Parallel()
	server := kubetest.ListenServer(kubetest.Open())
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, server.Kubeconfig(server.Address(), "token"), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := kube.Open(kube.Config{Kubeconfig: file, Namespace: "waybill"})
	if err != nil {
		t.Fatal(err)
	}
	lines, log := io.Pipe()
	c := controller.New(controller.Config{Cluster: cluster, Identity: "test", Elect: true, Log: slog.New(slog.NewTextHandler(log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() && !strings.Contains(scanner.Text(), "Attempting to acquire leader lease") {
	}
	lines.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.Contains(scanner.Text(), "component=flow") {
		t.Errorf("got %q, want the begin of the election", scanner.Text())
	}
}
