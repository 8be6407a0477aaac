package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// maxSnapshot is the most bytes of a workspace's snapshot.
const maxSnapshot = 64 << 30

// receiver is one init container.
type receiver struct {
	Config
	program string // the file that is copied for the container of the step
	heard   func() // reports that the worker lives

	mutex sync.Mutex // one upload at a time: a cut one may still be writing
	done  chan struct{}
}

// Init receives a workspace on the listener, unpacks it and makes the folder ready for exec and serve. It returns
// once the worker has reported that everything is there, or when ctx ends. The program is the file of this process.
func Init(ctx context.Context, c Config, program string, l net.Listener) error {
	ctx, heard, stop := c.untilSilence(ctx)
	defer stop()
	r := &receiver{Config: c, program: program, heard: heard, done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+shimv1.PathUpload, r.received)
	mux.HandleFunc("PUT "+shimv1.PathUpload, r.upload)
	mux.HandleFunc("POST "+shimv1.PathUnpack, r.unpack)
	return listen(ctx, c.authorized(mux, heard), l, r.done)
}

// Bounds of callers' requests. With the token, bodies and answers have none: snapshots and logs take as long as they
// do.
const (
	mostConnections = 256      // callers without the token keep each of these for headerTimeout
	mostHeader      = 16 << 10 // bytes
	headerTimeout   = 30 * time.Second
	idleTimeout     = 30 * time.Second // a worker makes a connection for each request
	drainTimeout    = 30 * time.Second
)

// listen serves until done is closed, and lets requests in flight end then. A request that takes too long is cut. The work is
// done then, so listen returns nil.
func listen(ctx context.Context, handler http.Handler, l net.Listener, done <-chan struct{}) error {
	err := listener.Serve(ctx, l, listener.Config{Name: "the shim", Handler: handler, Connections: mostConnections, Header: mostHeader,
		HeaderTime: headerTimeout, IdleTime: idleTimeout, Drain: drainTimeout, Done: done})
	if errors.Is(err, listener.ErrSlow) {
		return nil
	}
	return err
}

func (r *receiver) path() string { return filepath.Join(r.Folder, fileSnapshot) }

func (r *receiver) size() int64 {
	info, err := os.Stat(r.path())
	if err != nil {
		return 0
	}
	return info.Size()
}

func (r *receiver) received(w http.ResponseWriter, _ *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	answer(w, http.StatusOK, shimv1.Offset{Offset: r.size()})
}

// upload appends the body. The part of a cut body that has arrived stays.
func (r *receiver) upload(w http.ResponseWriter, request *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	offset, err := strconv.ParseInt(request.URL.Query().Get("offset"), 10, 64)
	if size := r.size(); err != nil || offset != size {
		answer(w, http.StatusConflict, shimv1.Offset{Offset: size})
		return
	}
	f, err := os.OpenFile(r.path(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = io.Copy(f, http.MaxBytesReader(w, request.Body, maxSnapshot-offset))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("receive the workspace: %v", err), http.StatusInsufficientStorage)
		return
	}
	answer(w, http.StatusOK, shimv1.Offset{Offset: r.size()})
}

// unpack makes the workspace, also when the connection is cut in the meantime: the worker repeats the request. An
// error is final for this pod: the folder may have a part of the files.
func (r *receiver) unpack(w http.ResponseWriter, request *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	select {
	case <-r.done:
		return // requested twice
	default:
	}
	if err := r.prepare(context.WithoutCancel(request.Context()), request.URL.Query().Get("digest")); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	close(r.done)
}

func (r *receiver) prepare(ctx context.Context, digest string) error {
	if digest == "" {
		return errors.New("the digest of the workspace is missing")
	}
	snapshot, _, err := file.Open(r.path())
	if err != nil {
		return err
	}
	defer snapshot.Close()
	if err := workspace.Extract(ctx, heardBody{snapshot, r.heard}, r.Repo, digest); err != nil {
		return err
	}
	if err := openToAll(r.Repo); err != nil {
		return fmt.Errorf("let any user write into the workspace: %w", err)
	}
	if err := copyProgram(r.program, filepath.Join(r.Folder, shimv1.Program)); err != nil {
		return fmt.Errorf("copy the shim: %w", err)
	}
	root, err := os.OpenRoot(r.Folder)
	if err != nil {
		return err
	}
	defer root.Close()
	return errors.Join(os.Remove(r.path()), touch(root, fileAlive),
		openOne(filepath.Join(r.Folder, fileAlive)), openOne(r.Folder))
}

// openToAll lets any user write into the workspace: a step runs as the user of its image, and no other pod sees the files.
func openToAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Type()&os.ModeSymlink != 0 {
			return err
		}
		return openOne(path)
	})
}

func openOne(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	mode := info.Mode().Perm() | 0o666
	if info.IsDir() || mode&0o111 != 0 {
		mode |= 0o111
	}
	if mode == info.Mode().Perm() {
		return nil // as a volume is, which another user owns
	}
	return os.Chmod(path, mode)
}

// copyProgram copies a file under a temporary name first: the container of the step must not see a part.
func copyProgram(from, to string) (err error) {
	in, _, err := file.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755) //nolint:gosec // any user runs it
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(to+".part", to)
}
