package provisioner

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Bounds of a push.
const (
	defaultLargest = 1 << 30 // bytes of a snapshot
	pushSilence    = time.Minute
	firstPushDelay = 200 * time.Millisecond
	longPushDelay  = 30 * time.Second
	mostPushAnswer = 4 << 10 // bytes
)

// Snapshots sends snapshots to workers. Blobs and Log must be set.
type Snapshots struct {
	Blobs   Blobs
	Largest int64         // bytes of a snapshot; 0: 1 GiB
	Silence time.Duration // after which a worker that takes nothing is connected to again; 0: 1 min
	Log     *slog.Logger

	mu      sync.Mutex
	senders map[string]context.CancelFunc // cancels of the sending goroutines, by the worker's id
	running sync.WaitGroup
}

// Target is a worker that waits for its snapshot.
type Target struct {
	ID       string // id of the worker
	Address  string // address of its API
	Token    string // token that it requires
	Snapshot string // key in the blob store
	// Dial connects to the worker, such as through a forwarded port. nil: over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Describe returns a worker's facts about a snapshot that will be sent to it. A snapshot that is missing is
// fault.NotFound, one above the limit fault.TooLarge.
func (s *Snapshots) Describe(ctx context.Context, key string) (push provisionerv1.Push, err error) {
	blob, size, err := s.Blobs.Get(ctx, key)
	if err != nil {
		return push, fmt.Errorf("read the snapshot: %w", err)
	}
	defer blob.Close()
	if most := cmp.Or(s.Largest, defaultLargest); size > most {
		return push, fault.New(fault.TooLarge, "the snapshot has %d bytes; at most %d are sent to a worker", size, most).
			WithHint("raise builder.provisioner.largestSnapshot in the provisioner's server.yaml")
	}
	push = provisionerv1.Push{Size: size, SHA256: path.Base(key)}
	if sum, err := hex.DecodeString(push.SHA256); err == nil && len(sum) == sha256.Size && strings.ToLower(push.SHA256) == push.SHA256 {
		return push, nil // the store named it by its digest
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, blob); err != nil {
		return push, fault.New(fault.Unavailable, "read the snapshot: %w", err)
	}
	push.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return push, nil
}

// Send begins to send snapshots to the targets that it does not know yet, each until the worker has all of it. It
// ends its work for workers that are not named any more, and returns at once. Everything ends with ctx.
func (s *Snapshots) Send(ctx context.Context, targets []Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.senders == nil {
		s.senders = map[string]context.CancelFunc{}
	}
	named := map[string]bool{}
	for _, t := range targets {
		named[t.ID] = true
		if s.senders[t.ID] != nil {
			continue
		}
		own, stop := context.WithCancel(ctx)
		s.senders[t.ID] = stop
		s.running.Go(func() {
			defer stop()
			s.persist(own, t)
		})
	}
	for id, stop := range s.senders {
		if !named[id] {
			stop()
			delete(s.senders, id)
		}
	}
}

// Wait returns when nothing is sent any more, after the end of the context that Send was given.
func (s *Snapshots) Wait() { s.running.Wait() }

// persist sends a snapshot until the worker has it or refuses it, as often as it takes.
func (s *Snapshots) persist(ctx context.Context, t Target) {
	away := loop.Backoff{First: firstPushDelay, Most: longPushDelay}
	for {
		moved, err := s.Push(ctx, t)
		switch {
		case err == nil:
			s.Log.Info("the worker has its snapshot", obs.KeyWorkerID, t.ID)
			return
		case ctx.Err() != nil:
			return
		case fault.Is(err, fault.Refused):
			s.Log.Warn("the snapshot is not sent", obs.KeyWorkerID, t.ID, obs.Error(err))
			return
		}
		if moved {
			away.Reset()
		}
		pause := away.Next()
		s.Log.Warn("sending a snapshot stopped", obs.KeyWorkerID, t.ID, obs.Error(err), obs.KeyRetryIn, pause.String())
		if !loop.Pause(ctx, pause) {
			return
		}
	}
}

// Push sends a snapshot from where an earlier push ended. It returns nil once the worker has all of it, and fault.Refused if the worker
// waits for none. moved reports whether the worker has more than before.
func (s *Snapshots) Push(ctx context.Context, t Target) (moved bool, err error) {
	transport := &http.Transport{DialContext: t.Dial, DisableCompression: true}
	defer transport.CloseIdleConnections()
	p := &push{Target: t, silence: cmp.Or(s.Silence, pushSilence), http: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a worker does not redirect") }}}
	before, err := p.ask(ctx, provisionerv1.PathWorkspace, nil, 0)
	if err != nil || before.Done {
		return false, err
	}
	blob, size, err := s.Blobs.Get(ctx, t.Snapshot)
	if err != nil {
		return false, fmt.Errorf("read the snapshot: %w", err)
	}
	defer blob.Close()
	if size != before.Size || before.Received > size {
		return false, fault.New(fault.Refused, "the worker wants a snapshot of %d bytes and has %d; the blob store's has %d",
			before.Size, before.Received, size)
	}
	if err := skip(blob, before.Received); err != nil {
		return false, fmt.Errorf("read the snapshot: %w", err)
	}
	after, err := p.ask(ctx, provisionerv1.PathWorkspace+"?offset="+strconv.FormatInt(before.Received, 10), blob, size-before.Received)
	switch {
	case err != nil:
		return p.sent.Load() > 0, err
	case !after.Done:
		return after.Received > before.Received, fault.New(fault.Unavailable, "the worker has %d of %d bytes", after.Received, size)
	}
	return true, nil
}

// skip reads over the first n bytes.
func skip(r io.Reader, n int64) error {
	if seeker, ok := r.(io.Seeker); ok {
		_, err := seeker.Seek(n, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, r, n)
	return err
}

// push is one connection to a worker.
type push struct {
	Target
	silence time.Duration
	http    *http.Client
	sent    atomic.Int64 // bytes that the connection has taken
}

// errPushSilence is the cause of a request that a worker left unanswered.
var errPushSilence = fault.New(fault.Unavailable, "the worker has been silent for too long")

// ask requests the state of the workspace, or sends a body of it if there is one.
func (p *push) ask(ctx context.Context, path string, body io.Reader, length int64) (state provisionerv1.WorkspaceState, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(p.silence, func() { cancel(errPushSilence) })
	defer watch.Stop()
	var content io.Reader
	method := http.MethodGet
	if body != nil {
		method = http.MethodPut
		content = readerFunc(func(b []byte) (int, error) {
			watch.Reset(p.silence)
			n, err := body.Read(b)
			p.sent.Add(int64(n))
			return n, err
		})
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(p.Address, "/")+path, content)
	if err != nil {
		return state, err
	}
	request.ContentLength = length
	request.Header.Set("Authorization", "Bearer "+p.Token)
	response, err := p.http.Do(request)
	if err != nil {
		if errors.Is(context.Cause(ctx), errPushSilence) {
			err = errPushSilence
		}
		return state, fmt.Errorf("send the snapshot to worker %s: %w", p.ID, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, mostPushAnswer))
	switch {
	case err != nil:
		return state, fmt.Errorf("read the answer of worker %s: %w", p.ID, err)
	case response.StatusCode == http.StatusNotFound:
		return state, fault.New(fault.Refused, "worker %s waits for no snapshot", p.ID)
	case response.StatusCode != http.StatusOK:
		return state, fault.New(fault.Unavailable, "worker %s answers %s: %s", p.ID, response.Status,
			build.Printable(strings.TrimSpace(string(text)), nil))
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return state, fault.New(fault.Unavailable, "read the answer of worker %s: %w", p.ID, err)
	}
	return state, nil
}

// readerFunc is a function that reads.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
