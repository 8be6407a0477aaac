//go:build services

// Package container_test runs builds in containers of a real Docker Engine.
package container_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/test/testbed"
)

// limit bounds every wait.
const limit = 5 * time.Minute

var program testbed.Product

func TestMain(m *testing.M) {
	code := m.Run()
	_ = program.Remove() // a temporary folder
	os.Exit(code)
}

func waybill(t *testing.T) string {
	t.Helper()
	return program.Path(t, filepath.Join("..", "..", ".."))
}

// project is a folder with a build, and a user of its own.
type project struct {
	t      *testing.T
	engine *testbed.Engine
	host   string // DOCKER_HOST
	dir    string
	home   string // home of the user
	name   string // no other project has it
	env    []string
	builds int
}

func newProject(t *testing.T, engine *testbed.Engine, files map[string]string) *project {
	t.Helper()
	p := &project{t: t, engine: engine, host: engine.Host, dir: t.TempDir(), home: t.TempDir(), name: strings.ToLower(rand.Text()[:8])}
	for name, content := range files {
		path := filepath.Join(p.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(content, "BUSYBOX", testbed.Busybox)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// outcome is the end of a command.
type outcome struct {
	status  int
	out     string // standard output and error
	id      string // id of the build
	results string // the folder
}

// start starts waybill run with results in a folder of their own.
func (p *project) start(arguments ...string) (*exec.Cmd, *bytes.Buffer, string) {
	p.t.Helper()
	p.builds++
	folder := filepath.Join(p.home, "results", p.id())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), limit)
	p.t.Cleanup(cancel)
	run := exec.CommandContext(ctx, waybill(p.t),
		append([]string{"run", "--runner", "docker", "--results-dir", folder, "--build-id", p.id()}, arguments...)...)
	run.Dir = p.dir
	run.Env = append(os.Environ(), "HOME="+p.home, "XDG_CACHE_HOME=", "DOCKER_HOST="+p.host, "WAYBILL_RUNNER=")
	run.Env = append(run.Env, p.env...)
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	if err := run.Start(); err != nil {
		p.t.Fatal(err)
	}
	return run, &out, folder
}

// id returns the id of the last build.
func (p *project) id() string { return fmt.Sprintf("%s-%d", p.name, p.builds) }

// run runs a build to its end.
func (p *project) run(arguments ...string) outcome {
	p.t.Helper()
	run, out, folder := p.start(arguments...)
	_ = run.Wait() // the status says it
	return outcome{run.ProcessState.ExitCode(), out.String(), p.id(), folder}
}

// want runs a build that ends with a status.
func (p *project) want(status int, arguments ...string) outcome {
	p.t.Helper()
	o := p.run(arguments...)
	if o.status != status {
		p.t.Fatalf("exit status %d, want %d\n%s", o.status, status, o.out[max(0, len(o.out)-4000):])
	}
	return o
}

// mustHave wants lines in an output.
func (o outcome) mustHave(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(o.out, text) {
			t.Errorf("no %q in\n%s", text, o.out[max(0, len(o.out)-4000):])
		}
	}
}

// printed returns the output of a step to one of its outputs, and its digest.
func printed(t *testing.T, folder string, step int, stderr bool) (text []byte, digest string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "steps", fmt.Sprint(step), "output.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.SplitAfterSeq(data, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		e := build.ParseEntry(bytes.TrimSuffix(line, []byte("\n")))
		if e.Waybill || e.Stderr != stderr {
			continue
		}
		text = append(text, e.Text...)
		if !e.Partial {
			text = append(text, '\n')
		}
	}
	sum := sha256.Sum256(text)
	return text, hex.EncodeToString(sum[:])
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// left lists what builds of the project have in the Engine.
func (p *project) left(filters client.Filters) (names []string) {
	p.t.Helper()
	api, ctx := p.engine.Client, context.WithoutCancel(p.t.Context())
	containers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range containers.Items {
		names = append(names, "container "+strings.Join(c.Names, " ")+" "+string(c.State))
	}
	volumes, err := api.VolumeList(ctx, client.VolumeListOptions{Filters: filters})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, v := range volumes.Items {
		names = append(names, "volume "+v.Name)
	}
	networks, err := api.NetworkList(ctx, client.NetworkListOptions{Filters: filters})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, n := range networks.Items {
		names = append(names, "network "+n.Name)
	}
	return names
}

// running counts the running containers of the last build.
func (p *project) running() int {
	p.t.Helper()
	found, err := p.engine.Client.ContainerList(p.t.Context(), client.ContainerListOptions{Filters: ofBuild(p.id())})
	if err != nil {
		p.t.Fatal(err)
	}
	return len(found.Items)
}

// ofBuild selects what one build made.
func ofBuild(id string) client.Filters {
	return make(client.Filters).Add("label", "dev.waybill.build="+id)
}

// proxy is a connection to the Engine that can be cut.
type proxy struct {
	mu    sync.Mutex
	after int64 // bytes of one connection, after which it is cut, once; 0: never
}

func newProxy(t *testing.T, to string) (host string, p *proxy) {
	t.Helper()
	folder, err := os.MkdirTemp("", "px")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	listener, err := net.Listen("unix", filepath.Join(folder, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	p = &proxy{}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(from, to)
		}
	}()
	return "unix://" + listener.Addr().String(), p
}

// cutAfter has the next connection cut that carries so many bytes, and returns what was set before; 0: none.
func (p *proxy) cutAfter(n int64) (before int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.after = p.after, n
	return before
}

func (p *proxy) serve(from net.Conn, to string) {
	defer from.Close()
	engine, err := net.Dial("unix", to)
	if err != nil {
		return
	}
	defer engine.Close()
	go func() {
		_, _ = io.Copy(engine, from)
		_ = engine.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(&metered{p, from, 0}, engine)
}

// metered counts the bytes of one connection.
type metered struct {
	p    *proxy
	to   net.Conn
	sent int64
}

func (m *metered) Write(data []byte) (int, error) {
	m.p.mu.Lock()
	m.sent += int64(len(data))
	cut := m.p.after > 0 && m.sent > m.p.after
	if cut {
		m.p.after = 0
	}
	m.p.mu.Unlock()
	if cut {
		_, _ = m.to.Write(data[:len(data)/3])
		_ = m.to.Close()
		return 0, syscall.EPIPE
	}
	return m.to.Write(data)
}
