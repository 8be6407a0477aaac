package provisioner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/builder/provisioner"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
)

// platform is a back end in memory.
type platform struct {
	hangs   func(ctx context.Context, l provisioner.Launch) // while a worker is created; may be nil
	mu      sync.Mutex
	workers []provisionerv1.Worker
	broken  error
	tokens  []string
	traces  []string
	forced  []bool
}

func (p *platform) Create(ctx context.Context, l provisioner.Launch) (provisionerv1.Worker, bool, error) {
	if p.hangs != nil {
		p.hangs(ctx, l)
	}
	if ctx.Err() != nil {
		return provisionerv1.Worker{}, false, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.workers,
		func(w provisionerv1.Worker) bool { return w.BuildID == l.BuildID && w.Instance == l.Instance }); i >= 0 {
		return p.workers[i], false, p.broken
	}
	w := provisionerv1.Worker{WorkerID: fmt.Sprint("w", l.BuildID), BuildID: l.BuildID, Project: l.Project,
		Instance: l.Instance, Status: "Running"}
	p.workers, p.tokens = append(p.workers, w), append(p.tokens, l.Token)
	p.traces = append(p.traces, l.Trace)
	return w, true, p.broken
}

func (p *platform) List(context.Context) ([]provisionerv1.Worker, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.workers), p.broken
}

func (p *platform) Delete(_ context.Context, _ string, force bool) error {
	p.forced = append(p.forced, force)
	return p.broken
}

// serving serves a platform.
func serving(t *testing.T, p *platform) (*provisionerv1.Client, string) {
	t.Helper()
	server := httptest.NewServer(newServer(p))
	t.Cleanup(server.Close)
	return clientOf(server.URL), server.URL
}

func wanted(id int64, project string) provisionerv1.CreateWorker {
	return provisionerv1.CreateWorker{BuildID: id, Project: project, Instance: "shop", Nonce: "0123456789abcdef", Snapshot: "sha256/x"}
}

func TestWaitingForRoomIsAnAnswer(t *testing.T) {
	t.Parallel()
	p := &platform{workers: []provisionerv1.Worker{{WorkerID: "old", BuildID: 1, Project: "a", Status: "Ended"}}}
	client, _ := serving(t, p)
	var got []string
	for i, project := range []string{"a", "a", "a", "a", "a", "b", "b", "b", "b", "c"} {
		created, err := client.Create(t.Context(), wanted(int64(i+10), project))
		switch {
		case err != nil:
			t.Fatal(err)
		case created.Waiting != nil:
			got = append(got, fmt.Sprintf("%d: %+v %s", i+10, *created.Waiting, created.Retry))
		}
	}
	want := []string{"14: {Running:4 Limit:4 Project:a} 5s", "19: {Running:8 Limit:8 Project:} 5s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for deleted, want := range map[time.Time]time.Duration{time.Now().Add(time.Hour): time.Second,
		time.Now().Add(-time.Hour): 5 * time.Second} {
		for i, status := range []string{"Ended", "Running"} {
			p.workers[i].DeletedAt, p.workers[i].Status = deleted, status
		}
		if created, err := client.Create(t.Context(), wanted(14, "a")); err != nil || created.Waiting == nil || created.Retry != want {
			t.Errorf("a worker ends: %+v, %v, want %s", created, err, want)
		}
	}
	if _, err := client.Create(t.Context(), wanted(10, "a")); err != nil || len(p.workers) != 9 {
		t.Errorf("a build that has a worker waits for room: %v", err)
	}
	if want := keys[0].WorkerToken("shop", 10, "0123456789abcdef"); p.tokens[0] != want {
		t.Errorf("token %s, want %s", p.tokens[0], want)
	}
}

func TestAWorkerKnowsTheSpanThatAskedForIt(t *testing.T) {
	t.Parallel()
	const span = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	p := &platform{}
	client, url := serving(t, p)
	for id, header := range []string{span, ""} {
		ctx := trace.ContextWithRemoteSpanContext(t.Context(), obs.Linked(header))
		if _, err := client.Create(ctx, wanted(int64(id+1), "a")); err != nil {
			t.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/worker",
		strings.NewReader(`{"buildId":9,"instance":"shop","nonce":"0123456789abcdef","snapshot":"sha256/x"}`))
	if err != nil {
		t.Fatal(err)
	}
	token, err := client.Token()
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Traceparent": {"what; is this"}}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if diff := cmp.Diff([]string{span, "", ""}, p.traces); diff != "" {
		t.Error(diff)
	}
}

func TestListsHavePagesAndFilters(t *testing.T) {
	t.Parallel()
	p := &platform{}
	for i := range 2500 {
		p.workers = append(p.workers, provisionerv1.Worker{WorkerID: fmt.Sprint("w", i), BuildID: int64(2500 - i),
			Instance: []string{"shop", "other"}[i%2], Status: []string{"Running", "Ended", "Unknown"}[i%3]})
	}
	client, address := serving(t, p)
	list := func(f provisionerv1.Filter) provisionerv1.WorkerList {
		t.Helper()
		all, err := client.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := list(provisionerv1.Filter{})
	sorted := slices.IsSortedFunc(all.Workers, func(a, b provisionerv1.Worker) int { return int(a.BuildID - b.BuildID) })
	if len(all.Workers) != 2500 || !all.Complete || !sorted || all.Now.IsZero() {
		t.Errorf("%d workers, complete %v, sorted %v, %s", len(all.Workers), all.Complete, sorted, all.Now)
	}
	if got := list(provisionerv1.Filter{Instance: "shop", Statuses: []string{"Running", "Unknown"}}).Workers; len(got) != 834 {
		t.Errorf("%d workers match", len(got))
	}
	if got := list(provisionerv1.Filter{BuildID: 7}).Workers; len(got) != 1 || got[0].BuildID != 7 {
		t.Errorf("%+v", got)
	}
	p.broken = errors.New("the platform is away")
	if got := list(provisionerv1.Filter{}); got.Complete || len(got.Workers) != 2500 {
		t.Errorf("complete %v, %d workers", got.Complete, len(got.Workers))
	}
	for _, bad := range []string{"limit=0", "limit=1001", "limit=x", "cursor=x", "buildId=x", "colour=red",
		"buildId=1&buildId=2", "limit=1&limit=1"} {
		if status, problem := ask(t, http.MethodGet, address+"/api/worker?"+bad, token, ""); status != 400 || problem.Type != "waybill:invalid" {
			t.Errorf("%s: %d %+v", bad, status, problem)
		}
	}
}

// ask sends a request, and returns the status and the problem that answers it.
func ask(t *testing.T, method, address, with, body string) (int, provisionerv1.Problem) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if with != "" {
		request.Header.Set("Authorization", "Bearer "+with)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p provisionerv1.Problem
	if strings.HasPrefix(response.Header.Get("Content-Type"), provisionerv1.ProblemType) {
		if err := json.Unmarshal(text, &p); err != nil {
			t.Errorf("%v: %s", err, text)
		}
	}
	return response.StatusCode, p
}

func TestBadRequestsAreProblems(t *testing.T) {
	t.Parallel()
	p := &platform{}
	_, address := serving(t, p)
	for name, c := range map[string]struct {
		method, path, token, body string
		status                    int
		detail                    string
	}{
		"no token":      {http.MethodGet, "/api/worker", "", "", 401, "a token with the scope worker is needed"},
		"another token": {http.MethodGet, "/api/worker", "x", "", 401, "this token is not known"},
		"not JSON": {http.MethodPost, "/api/worker", token, `{"inputs": {"password": "swordfish"`, 400,
			"want one object of JSON that this version of Waybill knows"},
		"unknown field": {http.MethodPost, "/api/worker", token, `{"swordfish": 1}`, 400,
			"want one object of JSON that this version of Waybill knows"},
		"too large": {http.MethodPost, "/api/worker", token, strings.Repeat(" ", provisionerv1.MostBody+1), 413,
			"want a body of at most 1048576 bytes"},
		"path": {http.MethodGet, "/api/workers", token, "", 404, `GET "/api/workers" not found`},
		"long id": {http.MethodDelete, "/api/worker/" + strings.Repeat("a", 300), token, "", 400,
			"want a worker's id, and force=true or nothing"},
		"status": {http.MethodGet, "/api/worker?status=Running&status=ended", token, "", 400,
			`no worker has the status "ended": want Pending, Running, Ended or Unknown`},
		"force twice": {http.MethodDelete, "/api/worker/a?force=false&force=true", token, "", 400,
			`parameter "force" is given 2 times, and may be given once`},
		"no such query": {http.MethodPost, "/api/worker?force=true", token, "{}", 400, `parameter "force" not found: want none`},
		"force":         {http.MethodDelete, "/api/worker/a?force=yes", token, "", 400, "want a worker's id, and force=true or nothing"},
		"nothing wanted": {http.MethodPost, "/api/worker", token, `{}`, 400,
			"nonce: want 16 to 100 letters and digits\nbuildId: want a number above zero\n" +
				"instance: want at most 100 letters, digits, dots, hyphens and underscores\nrepository: want either repository or snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, problem := ask(t, c.method, address+c.path, c.token, c.body)
			if status != c.status || problem.Status != c.status || problem.Detail != c.detail {
				t.Errorf("%d %+v, want %d %s", status, problem, c.status, c.detail)
			}
		})
	}
}

func TestAPlatformThatIsAwayIsNotFull(t *testing.T) {
	t.Parallel()
	client, _ := serving(t, &platform{broken: errors.New("the platform is away")})
	if created, err := client.Create(t.Context(), wanted(1, "a")); !fault.Is(err, fault.Unavailable) || created.Waiting != nil {
		t.Errorf("%+v, %v", created, err)
	}
}

func TestTheClientSaysWhatHappened(t *testing.T) {
	t.Parallel()
	p := &platform{}
	client, _ := serving(t, p)
	for _, force := range []bool{false, true} {
		if err := client.Delete(t.Context(), "w/1", force); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]bool{false, true}, p.forced); diff != "" {
		t.Error(diff)
	}
	p.broken = fault.New(fault.Unavailable, "the platform is away")
	if err := client.Delete(t.Context(), "w1", false); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "delete worker w1: the platform is away") {
		t.Error(err)
	}
	away := clientOf("http://127.0.0.1:1")
	if _, err := away.List(t.Context(), provisionerv1.Filter{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a provisioner that cannot be reached: %v", err)
	}
	var seen string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Get("Authorization") }))
	defer thief.Close()
	elsewhere := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer elsewhere.Close()
	if _, err := clientOf(elsewhere.URL).List(t.Context(), provisionerv1.Filter{}); !fault.Is(err, fault.Unavailable) || seen != "" {
		t.Errorf("a redirect: %v; its target was shown %q", err, seen)
	}
	gateway := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }))
	defer gateway.Close()
	if err := clientOf(gateway.URL).Delete(t.Context(), "w1", false); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "502 Bad Gateway") {
		t.Errorf("a gateway's answer: %v", err)
	}
}
