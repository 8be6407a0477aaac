package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/listener"
)

// Bounds of a push.
const (
	pushBuffer  = 256 << 10 // bytes
	pushSilence = 30 * time.Second
	mostWrong   = 3 // snapshots with another digest, before the build fails
)

// InboxConfig configures an inbox. Every field must be set.
type InboxConfig struct {
	Path  string // path of the snapshot's file; it must not exist
	Push  provisionerv1.Push
	Token string // token that every request but those for health must carry
	Log   *slog.Logger
}

// Inbox receives the snapshot of a build before anything of the build is known, and then passes requests on to the API of its
// results. A snapshot may come in parts, one after another; one that is cut continues at the byte where it ended. Nothing reads the file
// before all of it has come and has the right digest.
type Inbox struct {
	InboxConfig
	handler http.Handler
	next    atomic.Pointer[Server]
	turn    chan struct{} // holds one token: one request at a time writes

	mu       sync.Mutex
	file     *os.File
	sum      hash.Hash
	received int64
	wrong    int           // snapshots that had another digest
	pushing  *pushing      // the request that writes; nil: none
	ended    chan struct{} // closed when the snapshot is whole, or cannot be stored
	fault    error         // set before ended is closed
}

// NewInbox makes the file.
func NewInbox(c InboxConfig) (*Inbox, error) {
	file, err := os.OpenFile(c.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the file of the snapshot: %w", err)
	}
	b := &Inbox{InboxConfig: c, turn: make(chan struct{}, 1), file: file, sum: sha256.New(), ended: make(chan struct{})}
	mux := http.NewServeMux()
	workspace := http.NewServeMux()
	workspace.HandleFunc("GET "+provisionerv1.PathWorkspace, b.state)
	workspace.HandleFunc("PUT "+provisionerv1.PathWorkspace, b.put)
	mux.Handle(provisionerv1.PathWorkspace, withToken(c.Token, limit(workspace, mostRequests)))
	mux.HandleFunc("GET /healthz",
		withoutBody(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, map[string]string{"status": "alive"}) }))
	mux.HandleFunc("/", withoutBody(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		refuse(w, r, connect.CodeUnavailable, "the worker waits for the files of its build")
	}))
	b.handler = answered(mux, writeTimeout)
	return b, nil
}

// ServeHTTP answers one request.
func (b *Inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if next := b.next.Load(); next != nil && r.URL.Path != provisionerv1.PathWorkspace {
		next.ServeHTTP(w, r)
		return
	}
	b.handler.ServeHTTP(w, r)
}

// Serve answers requests until ctx ends, as [Server.Serve] does.
func (b *Inbox) Serve(ctx context.Context, l net.Listener) error {
	return serve(ctx, l, listener.Config{Handler: b, Log: b.Log, Ending: func() {
		if next := b.next.Load(); next != nil {
			next.endStreams()
		}
	}})
}

// Pass hands every later request to the API of the build's results, except those about the snapshot.
func (b *Inbox) Pass(to *Server) { b.next.Store(to) }

// Wait returns when the whole snapshot has come, or with the reason why it never will.
func (b *Inbox) Wait(ctx context.Context) error {
	select {
	case <-b.ended:
		return b.fault
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// state answers how much has come.
func (b *Inbox) state(w http.ResponseWriter, _ *http.Request) {
	b.mu.Lock()
	state := provisionerv1.WorkspaceState{Received: b.received, Size: b.Push.Size, Done: b.hasEnded() && b.fault == nil}
	b.mu.Unlock()
	writeJSON(w, state)
}

// put takes a part of the snapshot.
func (b *Inbox) put(w http.ResponseWriter, r *http.Request) {
	offset, err := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
	switch {
	case err != nil || offset < 0:
		http.Error(w, "offset: want the number of the first byte", http.StatusBadRequest)
		return
	case r.ContentLength < 0:
		http.Error(w, "want a Content-Length", http.StatusLengthRequired)
		return
	}
	p, err := b.enter(r.Context(), http.NewResponseController(w))
	if err != nil {
		return // the caller has gone
	}
	defer b.leave()
	status, text := b.fits(offset, r.ContentLength)
	if status == 0 {
		status, text = b.take(p, r.Body)
	}
	if status != 0 {
		w.Header().Set("Connection", "close") // the rest of the body is not waited for
		http.Error(w, text, status)
		return
	}
	_ = p.control.SetReadDeadline(time.Time{}) // the whole body has come
	b.state(w, r)
}

// pushing is a request that writes.
type pushing struct {
	control     *http.ResponseController
	interrupted bool // by a later one
}

// enter makes a request the one that writes. An earlier one is interrupted: its connection may be dead.
func (b *Inbox) enter(ctx context.Context, control *http.ResponseController) (*pushing, error) {
	b.mu.Lock()
	if before := b.pushing; before != nil {
		before.interrupted = true
		_ = before.control.SetReadDeadline(time.Now()) // a connection without deadlines ends on its own
	}
	b.mu.Unlock()
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p := &pushing{control: control}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pushing = p
	_ = control.SetReadDeadline(time.Now().Add(pushSilence)) // a connection without deadlines has no bound
	return p, nil
}

func (b *Inbox) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pushing = nil
	<-b.turn
}

// fits returns the answer to a part that is not the next one; 0: it is.
func (b *Inbox) fits(offset, length int64) (status int, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.hasEnded() && b.fault != nil:
		return http.StatusConflict, "the build has failed: " + b.fault.Error()
	case b.hasEnded():
		return http.StatusConflict, fmt.Sprintf("the snapshot is complete: all %d bytes have come", b.Push.Size)
	case offset != b.received:
		return http.StatusConflict, fmt.Sprintf("offset %d does not fit: %d bytes have come; continue there", offset, b.received)
	case length > b.Push.Size-offset:
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("%d bytes from offset %d are more than the snapshot's %d",
			length, offset, b.Push.Size)
	}
	return 0, ""
}

// take appends a part to the file. The received bytes of a cut part count.
func (b *Inbox) take(p *pushing, body io.Reader) (status int, text string) {
	buffer := make([]byte, pushBuffer)
	for {
		if !b.await(p) {
			return http.StatusConflict, "another request continues the snapshot"
		}
		n, err := body.Read(buffer)
		if stored := b.add(buffer[:n]); stored != nil {
			return http.StatusInsufficientStorage, stored.Error()
		}
		if errors.Is(err, io.EOF) {
			return b.complete()
		}
		if err != nil && b.await(p) {
			return http.StatusBadRequest, "the part was cut: " + err.Error()
		}
	}
}

// await gives the next bytes of a part their time. It returns false for a request that was interrupted.
func (b *Inbox) await(p *pushing) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !p.interrupted {
		_ = p.control.SetReadDeadline(time.Now().Add(pushSilence))
	}
	return !p.interrupted
}

// add appends bytes. An error is the end of the build.
func (b *Inbox) add(data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.file.Write(data); err != nil {
		b.end(fmt.Errorf("store the snapshot: %w", err))
		return b.fault
	}
	b.sum.Write(data)
	b.received += int64(len(data))
	return nil
}

// complete compares the digest once everything has come. A snapshot with another begins again.
func (b *Inbox) complete() (status int, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.received < b.Push.Size {
		return 0, ""
	}
	got := hex.EncodeToString(b.sum.Sum(nil))
	if got == b.Push.SHA256 {
		b.end(nil)
		if b.fault != nil {
			return http.StatusInsufficientStorage, b.fault.Error()
		}
		return 0, ""
	}
	wrong := fmt.Errorf("the snapshot has the digest %s, want %s", got, b.Push.SHA256)
	b.wrong++
	b.received = 0
	b.sum.Reset()
	_, seekErr := b.file.Seek(0, io.SeekStart)
	if err := errors.Join(seekErr, b.file.Truncate(0)); err != nil {
		b.end(fmt.Errorf("store the snapshot: %w", err))
	} else if b.wrong >= mostWrong {
		b.end(fmt.Errorf("%w, %d times", wrong, b.wrong))
	}
	return http.StatusUnprocessableEntity, wrong.Error() + "; send it again from offset 0"
}

func (b *Inbox) hasEnded() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}

// end closes the file and lets Wait return. Of several calls the first one counts.
func (b *Inbox) end(fault error) {
	if b.hasEnded() {
		return
	}
	if err := b.file.Close(); fault == nil && err != nil {
		fault = fmt.Errorf("store the snapshot: %w", err)
	}
	b.fault = fault
	close(b.ended)
}
