package provisioner_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/builder/provisioner"
	"github.com/waybill-dev/waybill/internal/builder/worker/api"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/fault"
)

const workerToken = "a-token-of-this-worker"

// stored stores bytes in a blob store of its own.
func stored(t *testing.T, key string, data []byte) (blob.Store, string) {
	t.Helper()
	blobs, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key, _, _, err = blobs.Put(t.Context(), key, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return blobs, key
}

// awaiting serves an inbox that waits for a snapshot, and returns the path of its file.
func awaiting(t *testing.T, push provisionerv1.Push) (inbox *api.Inbox, address, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "snapshot")
	inbox, err := api.NewInbox(api.InboxConfig{Path: path, Push: push, Token: workerToken, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(inbox)
	t.Cleanup(server.Close)
	return inbox, server.URL, path
}

func someBytes(n int) []byte {
	data := make([]byte, n)
	random := rand.NewChaCha8([32]byte{7})
	_, _ = random.Read(data) // it never fails
	return data
}

// cutting is a connection that ends after so many bytes were written.
type cutting struct {
	net.Conn
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if len(p) > c.left {
		n, _ := c.Conn.Write(p[:c.left])
		_ = c.Close()
		return n, errors.New("cut")
	}
	c.left -= len(p)
	return c.Conn.Write(p)
}

// TestASnapshotArrivesOverConnectionsThatAreCut: each one carries 300 KB of three million.
func TestASnapshotArrivesOverConnectionsThatAreCut(t *testing.T) {
	t.Parallel()
	data := someBytes(3_000_000)
	blobs, key := stored(t, "sha256/", data)
	s := &provisioner.Snapshots{Blobs: blobs, Log: slog.New(slog.DiscardHandler)}
	push, err := s.Describe(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	inbox, address, path := awaiting(t, push)
	var dials atomic.Int32
	target := provisioner.Target{ID: "w", Address: address, Token: workerToken, Snapshot: key,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &cutting{c, 300_000}, err
		}}
	moves, pushes := 0, 0
	for ctx := childtest.Context(t); ; {
		pushes++
		moved, err := s.Push(ctx, target)
		if moved {
			moves++
		}
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if err := inbox.Wait(childtest.Context(t)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came, %v", len(got), err)
	}
	if moves < 10 || dials.Load() < 10 {
		t.Errorf("%d of %d pushes moved, over %d connections", moves, pushes, dials.Load())
	}
	if moved, err := s.Push(t.Context(), target); moved || err != nil {
		t.Errorf("a snapshot that is there: moved %v, %v", moved, err)
	}
}

func TestASnapshotIsDescribed(t *testing.T) {
	t.Parallel()
	data := someBytes(1000)
	sum := sha256.Sum256(data)
	for _, key := range []string{"sha256/", "uploads/shop", "uploads/" + strings.Repeat("F", 64)} {
		blobs, key := stored(t, key, data)
		s := &provisioner.Snapshots{Blobs: blobs, Largest: 1000}
		push, err := s.Describe(t.Context(), key)
		if want := (provisionerv1.Push{Size: 1000, SHA256: hex.EncodeToString(sum[:])}); err != nil || push != want {
			t.Errorf("%s: %+v, %v; want %+v", key, push, err, want)
		}
		s.Largest = 999
		if _, err := s.Describe(t.Context(), key); !fault.Is(err, fault.TooLarge) {
			t.Errorf("%s: above the limit: %v", key, err)
		}
		if _, err := s.Describe(t.Context(), key+"x"); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: missing: %v", key, err)
		}
	}
}

func TestAPushThatCannotSucceedIsRefused(t *testing.T) {
	t.Parallel()
	blobs, key := stored(t, "sha256/", someBytes(1000))
	s := &provisioner.Snapshots{Blobs: blobs, Log: slog.New(slog.DiscardHandler)}
	_, address, _ := awaiting(t, provisionerv1.Push{Size: 999, SHA256: strings.Repeat("0", 64)})
	target := provisioner.Target{ID: "w", Address: address, Token: workerToken, Snapshot: key}
	if _, err := s.Push(t.Context(), target); !fault.Is(err, fault.Refused) ||
		!strings.Contains(err.Error(), "wants a snapshot of 999 bytes") {
		t.Errorf("of another size: %v", err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	target.Address = server.URL
	if _, err := s.Push(t.Context(), target); !fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), "waits for no snapshot") {
		t.Errorf("a worker that clones: %v", err)
	}
	var shown string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { shown = r.Header.Get("Authorization") }))
	defer thief.Close()
	elsewhere := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer elsewhere.Close()
	target.Address = elsewhere.URL
	if _, err := s.Push(t.Context(), target); err == nil || fault.Is(err, fault.Refused) || shown != "" {
		t.Errorf("a redirect: %v; its target was shown %q", err, shown)
	}
	strange := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "\x1b[2Jgone", http.StatusBadGateway) }))
	defer strange.Close()
	target.Address = strange.URL
	if _, err := s.Push(t.Context(), target); err == nil || strings.Contains(err.Error(), "\x1b") ||
		!strings.Contains(err.Error(), "502 Bad Gateway") {
		t.Errorf("a gateway: %v", err)
	}
}

// TestASilentWorkerIsLeft: it takes the connection and sends nothing.
func TestASilentWorkerIsLeft(t *testing.T) {
	t.Parallel()
	blobs, key := stored(t, "sha256/", someBytes(1000))
	s := &provisioner.Snapshots{Blobs: blobs, Log: slog.New(slog.DiscardHandler), Silence: 1}
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	_, err := s.Push(childtest.Context(t), provisioner.Target{ID: "w", Address: silent.URL, Token: workerToken, Snapshot: key})
	if err == nil || !strings.Contains(err.Error(), "the worker has been silent for too long") {
		t.Error(err)
	}
}

// dying is a blob store whose first objects end too early.
type dying struct {
	blob.Store
	left atomic.Int32
}

func (d *dying) Get(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	r, size, err := d.Store.Get(ctx, key)
	if err == nil && d.left.Add(-1) >= 0 {
		return io.NopCloser(io.LimitReader(r, size/2)), size, nil
	}
	return r, size, err
}

// TestSnapshotsAreSentUntilTheyAreThere sends to two workers; one is taken away.
func TestSnapshotsAreSentUntilTheyAreThere(t *testing.T) {
	t.Parallel()
	data := someBytes(1_000_000)
	blobs, key := stored(t, "sha256/", data)
	store := &dying{Store: blobs}
	s := &provisioner.Snapshots{Blobs: store, Log: slog.New(slog.DiscardHandler)}
	push, err := s.Describe(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	store.left.Store(2)
	inbox, address, path := awaiting(t, push)
	release, asked := make(chan struct{}), make(chan struct{}, 10)
	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	defer stuck.Close()
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	one := provisioner.Target{ID: "one", Address: address, Token: workerToken, Snapshot: key}
	other := provisioner.Target{ID: "other", Address: stuck.URL, Token: workerToken, Snapshot: key}
	for range 2 { // the second call begins nothing
		s.Send(ctx, []provisioner.Target{one, other})
	}
	<-asked
	if err := inbox.Wait(childtest.Context(t)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came, %v", len(got), err)
	}
	s.Send(ctx, nil)
	s.Wait() // the other one is given up, though ctx lives
	if len(asked) > 0 {
		t.Error("a worker was asked twice at a time")
	}
	cancel()
}
