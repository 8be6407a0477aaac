package broker_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/bubbletest"
)

// watched is a catalog that is watched, in a bubble.
type watched struct {
	*broker.Catalog
	t    *testing.T
	file string

	mu       sync.Mutex
	log      bytes.Buffer
	reports  []string // faults; "": none
	handlers map[string]broker.Handler
}

// watcher returns one that keeps the log and the reports.
func (w *watched) watcher() broker.Watcher {
	return broker.Watcher{Log: slog.New(slog.NewTextHandler(w, nil)), Report: func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		text := ""
		if err != nil {
			text = err.Error()
		}
		w.reports = append(w.reports, text)
	}}
}

// reported returns the reports since the last call.
func (w *watched) reported() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, w.reports = w.reports, nil
	return all
}

// Write takes lines of the log.
func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

// lines returns the lines of the log since the last call.
func (w *watched) lines() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.log.Reset()
	return w.log.String()
}

// setHandlers puts handlers with these names in force.
func (w *watched) setHandlers(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers = map[string]broker.Handler{}
	for _, name := range names {
		w.handlers[name] = broker.Handler{}
	}
}

func (w *watched) offer() broker.Offer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return broker.Offer{Handlers: w.handlers}
}

// watch watches the catalog of the tests until the bubble ends.
func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{t: t, file: t.TempDir() + "/catalog.yaml"}
	w.setHandlers("make", "change", "remove")
	w.write(catalogFile)
	var err error
	w.Catalog, err = broker.OpenCatalog(w.file, w.offer)
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Watch(ctx, w.watcher())
	}()
	t.Cleanup(func() { stop(); <-ended })
	return w
}

func (w *watched) write(content string) {
	w.t.Helper()
	check(w.t, os.WriteFile(w.file, []byte(content), 0o600))
}

// settle lets five seconds pass, in which a change must be in force.
func (w *watched) settle() {
	<-time.After(5 * time.Second)
	synctest.Wait()
}

// wants fails the test unless the catalog has a name for the folder, and lines of the log were written since the last call.
func (w *watched) wants(step, name string, lines int) {
	w.t.Helper()
	w.settle()
	if got := w.Now().Service("folder").Name; got != name {
		w.t.Errorf("%s: the service is called %q, want %q", step, got, name)
	}
	written := w.lines()
	if got := strings.Count(written, "\n"); got != lines {
		w.t.Errorf("%s: %d lines, want %d:\n%s", step, got, lines, written)
	}
}

// renamed returns the catalog with another name of the folder.
func renamed(name string) string {
	return strings.Replace(catalogFile, "name: folder", "name: "+name, 1)
}

func TestCatalogsAreReadAgain(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := watch(t)
		tag := w.Now().ETag()
		w.wants("unchanged", "folder", 0)
		w.write(renamed("second"))
		w.wants("changed", "second", 1)
		if w.Now().ETag() == tag {
			t.Error("another catalog has the same tag")
		}
		w.write("services: [")
		w.wants("broken", "second", 1)
		w.wants("still broken", "second", 0)
		w.write(strings.Replace(renamed("third"), "id: box", "id: folder", 1))
		w.wants("an id twice", "second", 1)
		w.write(renamed("second"))
		w.wants("as before", "second", 1)
		w.write("services: [")
		w.wants("broken again", "second", 1)
		check(t, os.Remove(w.file))
		w.wants("removed", "second", 1)
		w.wants("still removed", "second", 0)
		w.write(renamed("fourth"))
		w.wants("there again", "fourth", 1)
	})
}

// TestChangesOfTheCatalogAreLogged by name, and faults reported once.
func TestChangesOfTheCatalogAreLogged(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.write(strings.Replace(renamed("second"), "id: crate", "id: chest", 1))
		w.settle()
		const want = `changes="plan box/chest added, plan box/crate removed, service folder changed"`
		if got := w.lines(); !strings.Contains(got, want) {
			t.Errorf("logged %s\nwant %s", got, want)
		}
		w.write("services: [")
		w.settle()
		w.settle()
		w.write(renamed("second"))
		w.settle()
		if got := w.reported(); len(got) != 2 || !strings.Contains(got[0], "catalog.yaml:1:") || got[1] != "" {
			t.Errorf("reported %q, want one fault and its end", got)
		}
		if err := w.Ready(); err != nil {
			t.Errorf("with the former catalog: %v", err)
		}
	})
}

// TestCatalogsWaitForTheirHandlers: whichever of the two files is written first, both are in force at the end.
func TestCatalogsWaitForTheirHandlers(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.write(strings.Replace(renamed("second"), "provision: make", "provision: craft", 1))
		w.wants("a handler is missing", "folder", 1)
		w.setHandlers("make", "craft", "change", "remove")
		w.wants("the handler is there", "second", 1)
		w.setHandlers()
		w.wants("the handlers left", "second", 0)
	})
}

// TestOperationsOfARemovedHandler: the catalog stays, and so do service instances; only the work has to wait.
func TestOperationsOfARemovedHandler(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	w.reach("ready", "demo")
	before := w.stored()
	w.setHandlers("handlers: {}\n")
	for _, r := range []request{provision("new"), update("demo", 4), deprovision("demo")} {
		a := w.send(r).want(503, "Unavailable").describes("server.yaml")
		if strings.Contains(a.body, "the log is away") || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: the log is there", a)
		}
	}
	w.send(get("demo")).want(200, "")
	w.send(provision("demo")).want(200, "")
	w.unchanged(before)
	w.setHandlers(handlersFile)
	w.send(deprovision("demo")).operation()
}

func TestFlowPlansNeedACluster(t *testing.T) {
	t.Parallel()
	handlers := map[string]broker.Handler{"make": {}, "change": {}, "remove": {}}
	if _, problems := broker.ParseCatalog("f", []byte(flowCatalog), broker.Offer{Handlers: handlers, Flows: true}); problems != nil {
		t.Error(problems)
	}
	_, problems := broker.ParseCatalog("f", []byte(flowCatalog), broker.Offer{Handlers: handlers})
	if len(problems) != 3 || !strings.Contains(problems[0].Text, "server.yaml has no section flow") || problems[0].Code != "section-missing" {
		t.Errorf("without a cluster: %s", problems)
	}
}

func TestCatalogsThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	handlers := func() broker.Offer {
		return broker.Offer{Handlers: map[string]broker.Handler{"make": {}, "change": {}}}
	}
	file := t.TempDir() + "/catalog.yaml"
	if _, err := broker.OpenCatalog(file, handlers); err == nil {
		t.Error("a file that is missing was opened")
	}
	check(t, os.WriteFile(file, []byte(catalogFile), 0o600))
	catalog, err := broker.OpenCatalog(file, handlers)
	if err == nil || !strings.Contains(err.Error(), `handler "remove" not found`) || !strings.Contains(err.Error(), ":14:") {
		t.Errorf("a handler is missing: %v", err)
	}
	b := broker.New(broker.Config{Catalog: catalog, Log: slog.New(slog.DiscardHandler),
		Users: func() map[string]broker.User {
			return map[string]broker.User{user: {Passwords: [][32]byte{digest(password)}}}
		}})
	r := httptest.NewRequest(http.MethodGet, "/v2/catalog", nil)
	r.SetBasicAuth(user, password)
	answer := httptest.NewRecorder()
	b.ServeHTTP(answer, r)
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
		t.Errorf("without a catalog: %d, %v", answer.Code, answer.Header())
	}
}

// TestAFaultyCatalogIsServedOnceItIsRight, although the broker started with its faults.
func TestAFaultyCatalogIsServedOnceItIsRight(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := &watched{t: t, file: t.TempDir() + "/catalog.yaml"}
		w.setHandlers("make", "change")
		w.write(catalogFile)
		var err error
		if w.Catalog, err = broker.OpenCatalog(w.file, w.offer); err == nil || w.Now() != nil {
			t.Fatalf("a handler is missing: %v", err)
		}
		if w.Ready() == nil {
			t.Error("ready without a catalog")
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Watch(ctx, w.watcher())
		}()
		w.setHandlers("make", "change", "remove")
		w.settle()
		if w.Now() == nil || w.Ready() != nil {
			t.Errorf("the catalog is not in force: %v", w.Ready())
		}
		if got := w.reported(); !slices.Equal(got, []string{""}) {
			t.Errorf("reported %q, want that the faults are gone", got)
		}
		stop()
		<-ended
	})
}
