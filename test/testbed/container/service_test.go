//go:build services

package container_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/docker"
	"github.com/waybill-dev/waybill/test/testbed"
)

// heard is the report of one attempt.
type heard struct {
	mu    sync.Mutex
	lines bytes.Buffer
	seen  func(line string) // may be nil
}

func (h *heard) line(text string) {
	h.mu.Lock()
	h.lines.WriteString(text + "\n")
	h.mu.Unlock()
	if h.seen != nil {
		h.seen(text)
	}
}

func (h *heard) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines.String()
}

func (h *heard) Phase(s build.Status) error { h.line("phase " + string(s)); return nil }
func (h *heard) Note(text string) error     { h.line("note " + text); return nil }
func (h *heard) Output(entries []build.Entry) error {
	for _, e := range entries {
		h.line(string(e.Text))
	}
	return nil
}
func (h *heard) Artifact(string, string, bool, io.Reader) error { return nil }
func (h *heard) Tests(string, []build.TestSource) error         { return nil }

// attempt runs a step that is described by hand.
func attempt(ctx context.Context, t *testing.T, engine *testbed.Engine, spec build.Spec) (build.Exit, *heard, error) {
	t.Helper()
	return attemptWith(ctx, t, engine, spec, &heard{})
}

func attemptWith(ctx context.Context, t *testing.T, engine *testbed.Engine, spec build.Spec, h *heard) (build.Exit, *heard, error) {
	t.Helper()
	connected, err := docker.ConnectTo(ctx, engine.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	runner, remarks, err := docker.NewRunner(ctx, connected, docker.Config{Grace: time.Second, Pull: docker.PullNever, Workers: t.TempDir()})
	if err != nil || len(remarks) > 0 {
		t.Fatal(err, remarks)
	}
	if spec.Image == "" {
		spec.Image = testbed.Busybox
	}
	name := strings.ReplaceAll(t.Name(), "/", "-")
	exit, err := runner.Run(ctx, build.Run{Build: name,
		Step: build.PlanStep{ID: 1, Stage: "test", Name: "unit", Spec: spec}, Attempt: 1, Tree: t.TempDir(), Scratch: t.TempDir()}, h)
	if remarks, err := runner.Close(); err != nil || len(remarks) > 0 {
		t.Error(err, remarks)
	}
	if left := (&project{t: t, engine: engine}).left(ofBuild(name)); len(left) > 0 {
		t.Errorf("left in the Engine: %q", left)
	}
	return exit, h, err
}

func shell(script string) []string { return []string{"/bin/sh", "-c", script} }

const server = `echo starting; sleep 1; mkdir -p /tmp/www; echo "hello from $NAME" > /tmp/www/index.html; exec httpd -f -v -p 8080 -h /tmp/www`

// services: a step reaches what runs beside it by name, once it listens.
func services(t *testing.T, engine *testbed.Engine) {
	exit, h, err := attempt(t.Context(), t, engine, build.Spec{Argv: shell(
		"wget -qO- http://web:8080/; wget -qO- http://bare:8080/"), Services: []build.Service{
		{Name: "web", Image: testbed.Busybox, Argv: shell(server), Environ: []string{"NAME=web"}, Ports: []int{8080}, Ready: time.Minute},
		// This one has no cat where a program searches for it.
		{Name: "bare", Image: testbed.Busybox, Argv: shell("rm /bin/cat; " + server), Environ: []string{"NAME=bare"},
			Ports: []int{8080}, Ready: time.Minute},
	}})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%v, %v\n%s", exit, err, h.text())
	}
	for _, want := range []string{"web | starting\n", "note service web is ready after",
		"note service bare is ready after", "\nhello from web\n", "\nhello from bare\n"} {
		if !strings.Contains(h.text(), want) {
			t.Errorf("no %q in\n%s", want, h.text())
		}
	}
}

// unreadyServices: a step does not begin without its services.
func unreadyServices(t *testing.T, engine *testbed.Engine) {
	for want, svc := range map[string]build.Service{
		"service db ended with exit status 3 before it was ready:\ndb | no disk": {Argv: shell("echo no disk; exit 3"), Ready: time.Minute},
		"service db did not listen at port 5432 within 1s:\ndb | deaf":           {Argv: shell("echo deaf; sleep 1000"), Ready: time.Second},
		"service db did not listen at port 5432 within 1.5s": {Argv: shell("httpd -f -p 127.0.0.1:5432"),
			Ready: 1500 * time.Millisecond},
		"start service db: ": {Argv: []string{"/bin/absent"}, Ready: time.Minute},
		"image local/absent:1 is not in the Docker Engine, and --pull never forbids to pull it": {Image: "local/absent:1", Ready: time.Minute},
	} {
		if svc.Image == "" {
			svc.Image = testbed.Busybox
		}
		svc.Name, svc.Ports = "db", []int{5432}
		_, h, err := attempt(t.Context(), t, engine, build.Spec{Argv: shell("echo begun"), Services: []build.Service{svc}})
		if _, ok := errors.AsType[*build.StepError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if strings.Contains(h.text(), "\nbegun\n") {
			t.Errorf("the step began\n%s", h.text())
		}
	}
}

// limits: the Engine keeps a step to its memory and its share of the processors.
func limits(t *testing.T, engine *testbed.Engine) {
	const eat = `x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done`
	exit, h, err := attempt(t.Context(), t, engine, build.Spec{Argv: shell(eat), Limits: build.Resources{Memory: 32 << 20, CPU: 500}})
	if err != nil || exit.Code == 0 || exit.Reason != "OOMKilled, the memory limit is 32 MiB" {
		t.Errorf("%+v, %v\n%s", exit, err, h.text())
	}
}

// removedContainer: a step whose container was removed under it has failed.
func removedContainer(t *testing.T, engine *testbed.Engine) {
	h := &heard{}
	begun := make(chan struct{})
	h.seen = func(line string) {
		if line == "begun" {
			close(begun)
		}
	}
	go func() {
		<-begun
		found, err := engine.Client.ContainerList(context.Background(),
			client.ContainerListOptions{Filters: ofBuild(strings.ReplaceAll(t.Name(), "/", "-"))})
		if err == nil && len(found.Items) == 1 {
			_, _ = engine.Client.ContainerRemove(context.Background(), found.Items[0].ID, client.ContainerRemoveOptions{Force: true})
		}
	}()
	exit, _, err := attemptWith(t.Context(), t, engine, build.Spec{Argv: shell("echo begun; sleep 1000")}, h)
	if err == nil {
		t.Errorf("%+v, want an error", exit)
	}
}
