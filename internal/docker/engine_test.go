package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/networktest"
)

// fakeEngine is a Docker Engine in memory, for the bubble of a test. It has the faults that a real one has at moments
// which no test can choose.
type fakeEngine struct {
	*Engine

	// program runs in every container from its start to its end, and returns its exit status.
	program func(c *fakeContainer) int
	// faults answer a request, by method and path, instead of the Engine. They return false to leave it to the Engine.
	faults map[string]func(w http.ResponseWriter, r *http.Request) bool
	kept   []byte // the archive of the workspace after a step

	mu         sync.Mutex
	images     map[string]string            // users, by name
	containers map[string]*fakeContainer    // by name, which is also the id
	others     map[string]map[string]labels // networks and volumes by kind and name
	calls      []string                     // methods and paths of requests that change something
	removed    []string
}

type labels = map[string]string

// fakeContainer is a container of a fakeEngine.
type fakeContainer struct {
	made     container.CreateRequest
	files    map[string]string // copied into it, by name
	signals  chan string
	exited   chan struct{}
	code     int
	oom      bool
	mu       sync.Mutex
	attached net.Conn
	log      bytes.Buffer
}

// newFakeEngine starts an Engine that has the image shop:1.
func newFakeEngine(t *testing.T) *fakeEngine {
	t.Helper()
	e := &fakeEngine{
		program:    func(*fakeContainer) int { return 0 },
		faults:     map[string]func(http.ResponseWriter, *http.Request) bool{},
		images:     map[string]string{"shop:1": ""},
		containers: map[string]*fakeContainer{},
		others:     map[string]map[string]labels{"networks": {}, "volumes": {}},
		kept:       archiveOf(t, nil),
	}
	network := networktest.NewMemory(0)
	server := &http.Server{Handler: e.routes()} //nolint:gosec // a test
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(network) // it runs until it is closed
	}()
	api, err := client.New(
		client.WithHost("tcp://engine:2375"),
		client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
			return network.Dial(ctx)
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	e.Engine = &Engine{Version: "1", OS: "linux", api: api}
	t.Cleanup(func() {
		_ = errors.Join(api.Close(), server.Close())
		<-served
	})
	return e
}

// runner returns a runner of steps on the Engine.
func (e *fakeEngine) runner(t *testing.T, c Config) *Runner {
	t.Helper()
	c.Workers = t.TempDir()
	r, remarks, err := NewRunner(t.Context(), e.Engine, c)
	if err != nil || len(remarks) != 0 {
		t.Fatal(remarks, err)
	}
	t.Cleanup(func() { _, _ = r.Close() }) // closed twice
	return r
}

// archiveOf returns a tar of /mnt/repo with files.
func archiveOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "repo/", Mode: 0o755})
	for name, content := range files {
		err = errors.Join(
			err,
			w.WriteHeader(
				&tar.Header{Typeflag: tar.TypeReg, Name: "repo/" + name, Mode: 0o600, Size: int64(len(content))},
			),
		)
		_, more := io.WriteString(w, content)
		err = errors.Join(err, more)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var version = regexp.MustCompile(`^/v1\.\d+`)

// routes returns the handler of the Engine API.
func (e *fakeEngine) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.52") })
	mux.HandleFunc("GET /images/{name}/json", e.inspectImage)
	mux.HandleFunc("POST /images/create", e.pullImage)
	mux.HandleFunc("POST /containers/create", e.create)
	mux.HandleFunc("GET /containers/json", func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		list := []map[string]any{}
		for name, c := range e.containers {
			list = append(list, map[string]any{"Id": name, "Labels": c.made.Labels})
		}
		answer(w, 200, list)
	})
	for path, do := range map[string]func(w http.ResponseWriter, r *http.Request, c *fakeContainer){
		"GET /containers/{id}/json": inspect, "POST /containers/{id}/attach": attach, "POST /containers/{id}/start": e.start,
		"POST /containers/{id}/wait": wait,
		"POST /containers/{id}/kill": kill, "GET /containers/{id}/logs": logs, "PUT /containers/{id}/archive": take,
		"GET /containers/{id}/archive": e.give,
		"DELETE /containers/{id}":      e.remove,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			e.mu.Lock()
			c := e.containers[r.PathValue("id")]
			e.mu.Unlock()
			if c == nil {
				refuse(w, http.StatusNotFound, "no such container")
				return
			}
			do(w, r, c)
		})
	}
	for kind := range e.others {
		mux.HandleFunc("GET /"+kind, func(w http.ResponseWriter, _ *http.Request) { e.list(w, kind) })
		mux.HandleFunc("DELETE /"+kind+"/{name}", func(_ http.ResponseWriter, r *http.Request) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.removed = append(e.removed, r.PathValue("name"))
			delete(e.others[kind], r.PathValue("name"))
		})
	}
	mux.HandleFunc("POST /networks/create", func(w http.ResponseWriter, r *http.Request) {
		var made struct{ Name string }
		_ = json.NewDecoder(r.Body).Decode(&made) // by the client
		e.mu.Lock()
		defer e.mu.Unlock()
		e.others["networks"][made.Name] = labels{}
		answer(w, 201, map[string]string{"Id": made.Name})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = version.ReplaceAllString(r.URL.Path, "")
		call := r.Method + " " + r.URL.Path
		e.mu.Lock()
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			e.calls = append(e.calls, call)
		}
		fault := e.faults[call]
		e.mu.Unlock()
		if fault == nil || !fault(w, r) {
			mux.ServeHTTP(w, r)
		}
	})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // a client that has gone needs no answer
}

func refuse(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]string{"message": text})
}

func (e *fakeEngine) inspectImage(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	user, ok := e.images[r.PathValue("name")]
	if !ok {
		refuse(w, http.StatusNotFound, "No such image: "+r.PathValue("name"))
		return
	}
	answer(w, 200, map[string]any{"Config": map[string]string{"User": user}})
}

func (e *fakeEngine) pullImage(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := r.URL.Query().Get("fromImage") + ":" + r.URL.Query().Get("tag")
	name = name[strings.LastIndexByte(name, '/')+1:]
	e.images[name] = ""
	answer(w, 200, map[string]string{"status": "Downloaded newer image for " + name})
}

func (e *fakeEngine) create(w http.ResponseWriter, r *http.Request) {
	c := &fakeContainer{files: map[string]string{}, signals: make(chan string, 10), exited: make(chan struct{})}
	if err := json.NewDecoder(r.Body).Decode(&c.made); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	name := r.URL.Query().Get("name")
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.containers[name] != nil {
		refuse(w, http.StatusConflict, "the name is in use")
		return
	}
	e.containers[name] = c
	answer(w, 201, map[string]string{"Id": name})
}

func inspect(w http.ResponseWriter, r *http.Request, c *fakeContainer) {
	answer(w, 200, map[string]any{"Id": r.PathValue("id"), "State": map[string]any{"OOMKilled": c.oom}})
}

func attach(w http.ResponseWriter, _ *http.Request, c *fakeContainer) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	c.mu.Lock() // the client may start the container as soon as it has read the answer
	defer c.mu.Unlock()
	_, _ = io.WriteString(
		conn,
		"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
	)
	c.attached = conn
}

func (e *fakeEngine) start(w http.ResponseWriter, _ *http.Request, c *fakeContainer) {
	w.WriteHeader(http.StatusNoContent)
	go func() {
		c.code = e.program(c)
		c.cut()
		close(c.exited)
	}()
}

// print writes to one of the container's outputs, and to the log.
func (c *fakeContainer) print(stream byte, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	frame := append(binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(text))), text...)
	c.log.Write(frame)
	if c.attached != nil {
		_, _ = c.attached.Write(frame) // a client that has gone reads the log
	}
}

// cut ends the connection that has the output.
func (c *fakeContainer) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached != nil {
		_ = c.attached.Close()
		c.attached = nil
	}
}

func wait(w http.ResponseWriter, r *http.Request, c *fakeContainer) {
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	select {
	case <-c.exited:
		_ = json.NewEncoder(w).Encode(map[string]int{"StatusCode": c.code})
	case <-r.Context().Done():
	}
}

func kill(w http.ResponseWriter, r *http.Request, c *fakeContainer) {
	c.signals <- r.URL.Query().Get("signal")
	w.WriteHeader(http.StatusNoContent)
}

func logs(w http.ResponseWriter, r *http.Request, c *fakeContainer) {
	if r.URL.Query().Get("follow") == "1" {
		select {
		case <-c.exited:
		case <-r.Context().Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = w.Write(c.log.Bytes())
}

func take(w http.ResponseWriter, r *http.Request, c *fakeContainer) {
	archive := tar.NewReader(r.Body)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		content, _ := io.ReadAll(archive)
		c.files[r.URL.Query().Get("path")+" "+h.Name] = fmt.Sprintf("%o %s", h.Mode, content)
	}
}

func (e *fakeEngine) give(w http.ResponseWriter, _ *http.Request, _ *fakeContainer) {
	w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString([]byte("{}")))
	_, _ = w.Write(e.kept)
}

func (e *fakeEngine) remove(w http.ResponseWriter, r *http.Request, _ *fakeContainer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removed = append(e.removed, r.PathValue("id"))
	delete(e.containers, r.PathValue("id"))
	w.WriteHeader(http.StatusNoContent)
}

func (e *fakeEngine) list(w http.ResponseWriter, kind string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []map[string]any{}
	for name, labels := range e.others[kind] {
		list = append(list, map[string]any{"Id": name, "Name": name, "Labels": labels})
	}
	if kind == "volumes" {
		answer(w, 200, map[string]any{"Volumes": list})
		return
	}
	answer(w, 200, list)
}

// log is a sink that records the reports of a step.
type log struct {
	mu      sync.Mutex
	lines   []string
	notes   []string
	phases  []build.Status
	kept    map[string]string
	refuses error  // of output
	got     func() // is called after each output
}

func (l *log) Phase(s build.Status) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phases = append(l.phases, s)
	return nil
}

func (l *log) Output(entries []build.Entry) error {
	if l.got != nil {
		defer l.got()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		text := string(e.Text)
		if e.Stderr {
			text = "e:" + text
		}
		l.lines = append(l.lines, text)
	}
	return l.refuses
}

func (l *log) Note(text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, text)
	return nil
}

func (l *log) Artifact(name, _ string, _ bool, r io.Reader) error {
	content, err := io.ReadAll(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		l.kept = map[string]string{}
	}
	l.kept[name] = string(content)
	return err
}

func (l *log) Tests(string, []build.TestSource) error { return nil }

// runOf returns an attempt at a step that runs true in shop:1.
func runOf(t *testing.T, change func(*build.PlanStep)) build.Run {
	t.Helper()
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	step := build.PlanStep{
		ID:    3,
		Stage: "test",
		Name:  "unit",
		Spec:  build.Spec{Image: "shop:1", OS: "linux", Argv: []string{"sh", "-c", "true"}},
	}
	if change != nil {
		change(&step)
	}
	return build.Run{Build: "7", Step: step, Attempt: 1, Tree: tree, Scratch: t.TempDir()}
}

// called counts the requests whose paths end so.
func (e *fakeEngine) called(end string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, call := range e.calls {
		if strings.HasSuffix(call, end) {
			n++
		}
	}
	return n
}

// contextWithCause returns a context of the test that can be ended.
func contextWithCause(t *testing.T) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	return ctx, cancel
}

// discard is an answer that is lost.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
