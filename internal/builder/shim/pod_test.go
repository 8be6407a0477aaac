package shim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/shim"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/kube/runner"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// sink keeps what a log hands over.
type sink struct {
	build.Sink

	mutex  sync.Mutex
	out    bytes.Buffer // lines, those of standard error behind "e:"
	pieces int          // entries that are not whole lines
	notes  []string
	seen   map[string]chan struct{} // closed when a line has come
	err    error
}

func (s *sink) Output(entries []build.Entry) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, e := range entries {
		if e.Stderr {
			s.out.WriteString("e:")
		}
		s.out.Write(e.Text)
		if e.Partial {
			s.pieces++
		}
		s.out.WriteString(e.Ending())
		if seen := s.seen[string(e.Text)]; seen != nil {
			close(seen)
		}
	}
	return s.err
}

func (s *sink) Note(text string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.notes = append(s.notes, text)
	return nil
}

// pod is the folders of a pod and its shims.
type pod struct {
	shim.Config
	address string
	ended   chan error // end of the shim that listens
}

func newPod(t *testing.T) *pod {
	t.Helper()
	p := &pod{Config: shim.Config{Token: token, Folder: t.TempDir(), Repo: t.TempDir(), Silence: time.Hour}}
	return p
}

// listen starts init or serve.
func (p *pod) listen(t *testing.T, run func(context.Context, net.Listener) error) {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = listener.Addr().String()
	ctx := childtest.Context(t)
	ended := make(chan error, 1)
	p.ended = ended
	go func() { ended <- run(ctx, listener) }()
}

func (p *pod) init(t *testing.T) {
	p.listen(t, func(ctx context.Context, l net.Listener) error { return shim.Init(ctx, p.Config, os.Args[0], l) })
}

func (p *pod) serve(t *testing.T) {
	p.listen(t, func(ctx context.Context, l net.Listener) error { return shim.Serve(ctx, p.Config, l) })
}

// exec runs a script to its end.
func (p *pod) exec(t *testing.T, script string, environ ...string) (int, error) {
	t.Helper()
	return shim.Exec(childtest.Context(t), p.Config, []string{"/bin/sh", "-c", script},
		append([]string{"PATH=" + os.Getenv("PATH")}, environ...))
}

func (p *pod) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-childtest.Context(t).Done():
		t.Fatal("the shim did not end")
		return nil
	}
}

func (p *pod) client() *runner.Client {
	return runner.NewClient(token, func(ctx context.Context) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", p.address)
	})
}

// cutClient returns a client whose connections are cut after so many bytes in one of both directions.
func (p *pod) cutClient(reads, writes int) *runner.Client {
	return runner.NewClient(token, func(ctx context.Context) (net.Conn, error) {
		var dialer net.Dialer
		c, err := dialer.DialContext(ctx, "tcp", p.address)
		return &cutConn{Conn: c, reads: reads, writes: writes}, err
	})
}

type cutConn struct {
	net.Conn
	reads, writes int
}

func (c *cutConn) Read(b []byte) (int, error) {
	if c.reads <= 0 {
		return 0, errors.Join(errCut, c.Close())
	}
	n, err := c.Conn.Read(b[:min(len(b), c.reads)])
	c.reads -= n
	return n, err
}

func (c *cutConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b[:min(len(b), c.writes)])
	if c.writes -= n; err == nil && n < len(b) {
		err = errors.Join(errCut, c.Close())
	}
	return n, err
}

func upload(t *testing.T, client *runner.Client, file *os.File) error {
	t.Helper()
	_, err := client.Upload(t.Context(), file)
	return err
}

// snapshot packs a folder with a large file that does not compress, a program and a link.
func snapshot(t *testing.T) (file *os.File, digest string) {
	t.Helper()
	root := t.TempDir()
	var large bytes.Buffer
	for i := range 20_000 {
		fmt.Fprintf(&large, "%x", i*2_654_435_761)
	}
	for name, content := range map[string]string{"large": large.String(), "sub/run": "#!/bin/sh\necho ran\n"} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("sub/run", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	packed, err := workspace.PackPart(t.Context(), file, root, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return file, packed.Digest
}

// follow reads the whole spool over connections of one kind, and returns how many were needed.
func follow(t *testing.T, client *runner.Client, log *runner.Log) (connections int) {
	t.Helper()
	for log.Trailer() == nil {
		if connections++; connections > 20_000 {
			t.Fatal("reading makes no progress")
		}
		spool, err := client.Output(t.Context(), log.Offset(), true)
		if err != nil {
			if errors.Is(err, errCut) {
				t.Fatalf("cut before the answer: %v", err)
			}
			t.Fatal(err)
		}
		_, err = log.ReadFrom(spool)
		_ = spool.Close()
		if errors.Is(err, build.ErrSpool) {
			t.Fatal(err)
		}
	}
	return connections
}

// silentPort returns a port that nothing else can take and at which nothing listens.
func silentPort(t *testing.T) int {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return at.(*syscall.SockaddrInet4).Port
}
