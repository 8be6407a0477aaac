package assembly

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor/handler/eventflow"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs"
)

// flowPlace returns a home with a server.yaml that has a section flow, whose cluster answers nothing but 404.
func flowPlace(t *testing.T, section string) Place {
	t.Helper()
	return flowPlaceOf(t, section, http.NotFound)
}

// flowPlaceOf returns a home whose cluster answers by a function.
func flowPlaceOf(t *testing.T, section string, answer http.HandlerFunc) Place {
	t.Helper()
	cluster := httptest.NewServer(answer)
	t.Cleanup(cluster.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"server.yaml": section,
		"kubeconfig": `apiVersion: v1
kind: Config
current-context: dev
clusters: [{name: dev, cluster: {server: "` + cluster.URL + `"}}]
contexts: [{name: dev, context: {cluster: dev, user: dev}}]
users: [{name: dev, user: {token: t}}]
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Place{Dir: dir, Environment: func(string) string { return "" }, Flags: Flags{Home: dir, Config: filepath.Join(dir, "server.yaml")}}
}

// TestTheRoleFlowRunsWithoutALog: the store that server.yaml names does not exist, and no file is made.
func TestTheRoleFlowRunsWithoutALog(t *testing.T) {
	t.Parallel()
	place := flowPlace(t, "flow: {kubeconfig: kubeconfig, elect: false}\nledger: {url: postgres://127.0.0.1:1/none}\n")
	flows, err := place.OpenFlowRoles(place.Dir)
	if err != nil {
		t.Fatal(err)
	}
	roles, err := flows.ServingRoles(t.Context(), RoleOptions{Log: slog.New(slog.DiscardHandler), Registry: obs.NewRegistry()}, RoleFlow)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- lifecycle.Run(ctx, roles...) }()
	for path, want := range map[string]string{"/healthz": `"program":"waybill"`, "/metrics": "waybill_flow_claim_conflicts_total"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, flows.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: got %.100s, %v, want %s", path, body, err, want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(place.Dir, "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("files are made: %v, %v", left, err)
	}
}

func TestTheRoleFlowNeedsACluster(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]string{
		"":                            "server.yaml does not have the section flow",
		"flow: {}\n":                  "no kubeconfig is named",
		"flow: {kubeconfig: other}\n": "role flow: kubeconfig",
		"flow: {kubeconfig: kubeconfig, context: prod}\n": "prod",
	} {
		place := flowPlace(t, section)
		flows, err := place.OpenFlowRoles(place.Dir)
		if err != nil {
			t.Fatalf("%q: %v", section, err)
		}
		_, err = flows.ServingRoles(t.Context(), RoleOptions{Registry: obs.NewRegistry()}, RoleFlow)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", section, err, want)
		}
	}
	remote := flowPlace(t, "flow: {}\n")
	remote.Flags.Server = "http://127.0.0.1:1"
	if _, err := remote.OpenFlowRoles(remote.Dir); !fault.Is(err, fault.Invalid) {
		t.Errorf("with --server: got %v", err)
	}
}

// TestCommandsNameTheClusterOrServerYAMLDoes: no role runs.
func TestCommandsNameTheClusterOrServerYAMLDoes(t *testing.T) {
	t.Parallel()
	place := flowPlace(t, "")
	flows, err := place.OpenFlowRoles(place.Dir)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = flows.session.FlowCluster(kube.Config{})
	if !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "role") || !strings.Contains(fault.HintOf(err), "--kubeconfig and --context") {
		t.Errorf("got %v, %q", err, fault.HintOf(err))
	}
	_, applications, err := flows.session.FlowCluster(kube.Config{Kubeconfig: filepath.Join(place.Dir, "kubeconfig")})
	if want := config.DefaultFlow().Applications; err != nil || !slices.Equal(applications, want) {
		t.Errorf("got %q, %v, want %q", applications, err, want)
	}
}

// TestTheConfigurationOfFlowsIsFollowed: a second controller begins with the new section, which a reload has put in force. The process
// is ready once the first one has seen the cluster, and from then on, also while the second one waits for an answer.
func TestTheConfigurationOfFlowsIsFollowed(t *testing.T) {
	t.Parallel()
	began, answer := make(chan struct{}), make(chan struct{})
	place := flowPlaceOf(t, "flow: {kubeconfig: kubeconfig, elect: false}\n", func(w http.ResponseWriter, r *http.Request) {
		isList := r.URL.Query().Get("sendInitialEvents") == "true"
		if !isList || !sent(r.Context(), began) || !sent(r.Context(), answer) {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	flows, err := place.OpenFlowRoles(place.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s := flows.session
	role, ready, err := s.flowRole(RoleOptions{Registry: obs.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- role.Run(ctx) }()
	await(t, began)
	if err := ready(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("before the first answer: %v", err)
	}
	await(t, answer)
	every := time.NewTicker(time.Millisecond)
	defer every.Stop()
	for deadline := time.After(time.Minute); ready() != nil; {
		select {
		case <-every.C:
		case <-deadline:
			t.Fatal(ready())
		}
	}
	next, section := *s.Live.Now(), *s.Live.Now().Flow
	section.Applications = []string{"other"}
	next.Flow = &section
	s.Live.Swap(next)
	await(t, began)
	if err := ready(); err != nil {
		t.Errorf("while the second controller waits: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// sent sends a signal, and reports whether ctx has not ended before.
func sent(ctx context.Context, signal chan<- struct{}) bool {
	select {
	case signal <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// await receives a signal.
func await(t *testing.T, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(time.Minute):
		t.Fatal("the cluster had no request")
	}
}

// TestAConductorServesServiceInstancesThatAreFlows if the configuration names their cluster. People cannot add such actions.
func TestAConductorServesServiceInstancesThatAreFlows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := placeIn(dir, nil)
	settings(t, p, "conductors: {other: {handlers: [noop]}}\n")
	s, err := p.Open(t.Context(), dir, Serve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, err := s.Roles(t.Context(), RoleOptions{Log: slog.New(slog.DiscardHandler)}, RoleConductor); err != nil {
		t.Fatal(err)
	}
	if s.handlers.Load().table.Handlers[flow.Handler] != nil {
		t.Error("there is a handler without a cluster")
	}
	kubeconfig := filepath.Join(dir, "leaf.yaml")
	write(t, kubeconfig, strings.ReplaceAll(leafKubeconfig, "\t", " "))
	next := *s.Live.Now()
	next.Flow = &config.Flow{Kubeconfig: filepath.Join(dir, "missing.yaml")}
	if _, err := s.rebuildHandlers(t.Context(), &next); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "handler eventflow: kubeconfig") {
		t.Errorf("without the kubeconfig: %v", err)
	}
	next.Flow.Kubeconfig = kubeconfig
	commit, err := s.rebuildHandlers(t.Context(), &next)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	table := s.handlers.Load().table
	handler, is := table.Handlers[flow.Handler].(eventflow.Handler)
	id, err := s.Ledger.ID(t.Context())
	if err != nil || !is || handler.Log != id.String() || handler.Cluster.Host() != "https://leaf.example.com" {
		t.Errorf("got %+v, %v", table.Handlers[flow.Handler], err)
	}
	if limits := table.Limits[flow.Handler]; limits.Workers != flowWorkers {
		t.Errorf("%d workers", limits.Workers)
	}
	if _, is := orderable(&next)[flow.Handler]; is {
		t.Error("people can add its actions")
	}
	s.serving = "other"
	if commit, err = s.rebuildHandlers(t.Context(), &next); err != nil {
		t.Fatal(err)
	}
	if commit(); s.handlers.Load().table.Handlers[flow.Handler] != nil {
		t.Error("a conductor serves a handler that is not in its list")
	}
}
