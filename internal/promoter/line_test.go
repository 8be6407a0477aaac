package promoter_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/store"
)

// line carries the effects of one process on the world: commits to the log, writes to clusters, pushes and calls that change the Git host.
// It kills the process after one such effect: from then on no effect leaves it, as if it had been ended by SIGKILL, and the answer is
// lost. A process that dies before a call, or at a read, leaves the same world as one that dies after the call before.
type line struct {
	mu     sync.Mutex
	calls  []string
	killAt int // number of the call, from 1; 0: none
	dead   bool
	killed chan struct{} // closed when the process dies
}

func newLine() *line { return &line{killed: make(chan struct{})} }

var errDead = errors.New("the process was killed")

// pass makes one call, unless the process is dead. What is done is done once: a call that was begun before the death of the process may
// end after it, as on a network.
func (l *line) pass(name string, do func() error) error {
	l.mu.Lock()
	l.calls = append(l.calls, name)
	isLast := len(l.calls) == l.killAt
	dead := l.dead
	l.mu.Unlock()
	if dead {
		return errDead
	}
	err := do()
	l.mu.Lock()
	defer l.mu.Unlock()
	if isLast && l.killAt > 0 && !l.dead {
		l.dead = true
		close(l.killed)
	}
	if l.dead {
		return errDead
	}
	return err
}

// arm kills the process at a call from now on.
func (l *line) arm(killAt int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls, l.killAt = nil, killAt
}

// disarm keeps the line from a kill that has not happened, and reports whether it came in time.
func (l *line) disarm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.killAt = 0
	return !l.dead
}

// made returns the calls.
func (l *line) made() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.calls...)
}

// isDead reports whether the process was killed.
func (l *line) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// log is a database whose writes pass the line.
type log struct {
	ledger.Driver
	line *line
}

func (d log) Write(ctx context.Context, use store.Use, fn func(store.Rows) error) error {
	if isIn(".Heartbeat") { // renews the lease of an instance, as often as time passes
		if d.line.isDead() {
			return errDead
		}
		return d.Driver.Write(ctx, use, fn)
	}
	name := "commit"
	if isIn(".Grant") {
		name = "share"
	}
	return d.line.pass(name, func() error { return d.Driver.Write(ctx, use, fn) })
}

// isIn reports whether a function whose name has the ending is among the callers.
func isIn(ending string) bool {
	var callers [24]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, ending) {
			return true
		}
		if !more {
			return false
		}
	}
}

func (d log) Read(ctx context.Context, use store.Use, fn func(store.Rows) error) error {
	if d.line.isDead() {
		return errDead
	}
	return d.Driver.Read(ctx, use, fn)
}

// cluster returns a cluster whose writes pass the line.
func (l *line) cluster(c *kube.Cluster) *kube.Cluster {
	return &kube.Cluster{Interface: api{c.Interface, l}, Namespace: c.Namespace}
}

type api struct {
	dynamic.Interface
	line *line
}

func (a api) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return resources{a.Interface.Resource(r), r.Resource, a.line}
}

type resources struct {
	dynamic.NamespaceableResourceInterface
	name string
	line *line
}

func (r resources) Namespace(namespace string) dynamic.ResourceInterface {
	return objects{r.NamespaceableResourceInterface.Namespace(namespace), r.name, r.line}
}

// objects writes objects of one kind through the line.
type objects struct {
	dynamic.ResourceInterface
	name string
	line *line
}

type object = unstructured.Unstructured

func (o objects) pass(verb string, do func() (*object, error)) (made *object, err error) {
	err = o.line.pass(verb+" "+o.name, func() (err error) {
		made, err = do()
		return err
	})
	return made, err
}

func (o objects) Create(ctx context.Context, one *object, options metav1.CreateOptions, sub ...string) (*object, error) {
	return o.pass("create", func() (*object, error) { return o.ResourceInterface.Create(ctx, one, options, sub...) })
}

func (o objects) UpdateStatus(ctx context.Context, one *object, options metav1.UpdateOptions) (*object, error) {
	return o.pass("update", func() (*object, error) { return o.ResourceInterface.UpdateStatus(ctx, one, options) })
}

func (o objects) Apply(ctx context.Context, name string, one *object, options metav1.ApplyOptions, sub ...string) (*object, error) {
	return o.pass("apply", func() (*object, error) { return o.ResourceInterface.Apply(ctx, name, one, options, sub...) })
}

// serve lets a request that changes something through the line, and drops the connection of a process that is dead.
func (l *line) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	do := func() error {
		next.ServeHTTP(answer, r)
		return nil
	}
	var err error
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "git-upload-pack") {
		if err = do(); l.isDead() {
			err = errDead
		}
	} else {
		err = l.pass(fmt.Sprintf("%s %s", r.Method, r.URL.Path), do)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}
