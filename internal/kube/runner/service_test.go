package runner

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/kube"
)

// recorder records lines and remarks.
type recorder struct {
	build.Sink
	mutex        sync.Mutex
	lines, notes []string
	came         chan struct{} // gets one for each line
}

func (r *recorder) Output(entries []build.Entry) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, e := range entries {
		r.lines = append(r.lines, string(e.Text))
		r.came <- struct{}{}
	}
	return nil
}

func (r *recorder) Note(text string) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.notes = append(r.notes, text)
	return nil
}

// podOf returns a pod whose service runs, in a cluster that answers as api does.
func podOf(t *testing.T, sink build.Sink, api http.HandlerFunc) *podAttempt {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(
		`{"clusters": [{"name": "c", "cluster": {"server": %q}}], "contexts": [{"name": "c", "context": {"cluster": "c", "namespace": "builds"}}], "current-context": "c"}`, server.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := kube.Open(kube.Config{Kubeconfig: config})
	if err != nil {
		t.Fatal(err)
	}
	r := New(cluster, Config{})
	r.seen.known["uid"] = podFrom(t, `{"containerStatuses": [{"name": "service-0-db", "state": {"running": {}}}]}`)
	step := build.PlanStep{Spec: build.Spec{Services: []build.Service{{Name: "db"}}}}
	return &podAttempt{runner: r, sink: sink, uid: "uid", pod: manifest{name: "p"}, run: build.Run{Step: step}, watched: map[string]bool{}}
}

// TestServicesAreInTheLog once, however the connection is cut, also the output until the step ends.
func TestServicesAreInTheLog(t *testing.T) {
	t.Parallel()
	sink := &recorder{came: make(chan struct{}, 10)}
	const log = "starting\nready\nstopping\n"
	read := 0
	a := podOf(t, sink, func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.URL.Path, "/api/v1/namespaces/builds/pods/p/log"; got != want || r.URL.Query().Get("container") != "service-0-db" {
			t.Errorf("asked for %s", r.URL)
		}
		switch read++; {
		case r.URL.Query().Get("follow") == "false":
			_, _ = w.Write([]byte(log))
		case read == 1: // cut inside a line
			_, _ = w.Write([]byte(log[:12]))
		case read == 2:
			_, _ = w.Write([]byte(log[:15]))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	stop := a.followServices(t.Context())
	<-sink.came
	<-sink.came
	stop()
	if want := []string{"db | starting", "db | ready", "db | stopping"}; !slices.Equal(sink.lines, want) {
		t.Errorf("got %q, want %q", sink.lines, want)
	}
}

// TestServicesWithoutTheRight to read logs do not fail the step.
func TestServicesWithoutTheRight(t *testing.T) {
	t.Parallel()
	sink := &recorder{}
	a := podOf(t, sink, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	s := &serviceLog{podAttempt: a, container: "service-0-db"}
	s.read(t.Context(), t.Context(), build.Service{Name: "db"})
	if want := []string{
		"what the service db prints is left out: this account may not read the logs of pods (pods/log)"}; !slices.Equal(sink.notes, want) {
		t.Errorf("got %q, want %q", sink.notes, want)
	}
}
