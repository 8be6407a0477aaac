package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// builderKeys are keys of passwords.
var builderKeys = build.BuilderKeys{{Number: 3, Secret: []byte(strings.Repeat("k", 32))}}

// onEachStore runs a test with the project shop, whose builds never get a worker, on each database.
func onEachStore(t *testing.T, test func(t *testing.T, s *testServer)) {
	t.Helper()
	t.Parallel()
	stores := map[string]func(testing.TB) *servertest.World{"sqlite": servertest.Start}
	maps.Copy(stores, sharedStores)
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, serveProjects(t, start(t), service.Projects{
				All: func() map[string]config.Project {
					return map[string]config.Project{"shop": {Repository: "https://git.example.org/shop.git"}}
				},
				Ready: func() error { return nil },
				Keys:  func() (build.BuilderKeys, error) { return builderKeys, nil },
			}))
		})
	}
}

func serveProjects(t *testing.T, w *servertest.World, projects service.Projects) *testServer {
	t.Helper()
	w.Service = service.New(w.Ledger, w.Blobs, service.Options{Projects: projects, Builds: &buildview.Tables{Rows: w.Ledger.Builds,
		Folders: buildview.NewFolders(w.Builds, nil), Blobs: w.Blobs, Waiter: servertest.BuildWaiter(w.Ledger)}})
	api := server.New(w.Service, server.Options{Listen: "127.0.0.1:7070", Token: homeToken, Version: "1.2.3"})
	s := httptest.NewServer(api.Handler())
	t.Cleanup(s.Close)
	return &testServer{World: w, Server: s, api: api}
}

// post sends a request with the home's token and a body of JSON.
func (s *testServer) post(t *testing.T, path, body string, headers ...string) (status int, answer string) {
	t.Helper()
	status, answer, _ = s.ask(t, "POST", path, body, append(headers, "Authorization", bearer, "Content-Type", "application/json")...)
	return status, answer
}

// start starts a build of shop.
func (s *testServer) start(t *testing.T, query, body string) buildview.Summary {
	t.Helper()
	status, answer := s.post(t, "/api/project/shop/build"+query, body)
	var made buildview.Summary
	if err := json.Unmarshal([]byte(answer), &made); status != http.StatusCreated || err != nil {
		t.Fatalf("%d %s, %v", status, answer, err)
	}
	return made
}

const commit = "3f9c2ab0123456789012345678901234567890ab"

func TestABuildOfAProjectIsStoredWithItsAction(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *testServer) {
		made := s.start(t, "?stage=test&stage=image&branch=topic/a&environment=stage",
			`{"inputs": {"level": "debug"}, "passwords": {"key": "swordfish"}}`)
		row, err := s.Ledger.Builds.Build(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		want := builds.Build{ID: 1, Project: "shop", Branch: "topic/a", Environment: "stage",
			Stages: []string{"test", "image"}, Inputs: map[string]string{"level": "debug"},
			Status: build.Scheduling, CreatedBy: row.CreatedBy, CreatedAt: row.CreatedAt, ActionID: row.ActionID, Nonce: row.Nonce}
		if diff := cmp.Diff(want, row); diff != "" || row.Nonce == "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]buildview.Param{{Name: "key", Value: "***"}, {Name: "level", Value: "debug"}},
			made.Params); diff != "" || made.Reason != "queued, 1st of 1" || made.Branch != "topic/a" {
			t.Errorf("%+v: %s", made, diff)
		}
		a, err := s.Ledger.Action(t.Context(), row.ActionID)
		if id, ok := builds.OfAction(&a.Action); err != nil || !ok || id != 1 || a.UniqueKey != "build/1" || a.Lane != "build/shop" {
			t.Errorf("%+v, %v", a, err)
		}
		passwords, err := s.Ledger.Builds.Passwords(t.Context(), 1)
		if err != nil || strings.Contains(string(passwords[1].Sealed), "swordfish") {
			t.Errorf("%v, %v", passwords, err)
		}
		values, err := builds.Unseal(builderKeys, row.ActionID, passwords[1].Sealed)
		if err != nil || values["key"] != "swordfish" {
			t.Errorf("%v, %v", values, err)
		}
		if made := s.start(t, "?stage=test&stage=ALL", ""); made.ID != "2" || len(made.Stages) != 0 || made.Reason != "queued, 2nd of 2" {
			t.Errorf("%+v", made)
		}
	})
}

func TestARepeatedRequestIsOneBuild(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *testServer) {
		for i, want := range []struct {
			status int
			body   string
		}{{http.StatusCreated, `{}`}, {http.StatusOK, `{}`}, {http.StatusUnprocessableEntity, `{"inputs": {"a": "b"}}`}} {
			status, answer := s.post(t, "/api/project/shop/build", want.body, "Idempotency-Key", "once")
			if status != want.status || status < 300 && !strings.Contains(answer, `"buildId":"1"`) {
				t.Errorf("%d: %d %s", i, status, answer)
			}
		}
		if all, err := s.Ledger.Builds.List(t.Context(), builds.Query{}); err != nil || len(all) != 1 {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// TestInputsCannotBeGuessedFromTheDigestOfTheirRequest which is kept for a day, when a password among them is long erased: it has another
// digest under another builder key, and a new key in front leaves it the same.
func TestInputsCannotBeGuessedFromTheDigestOfTheirRequest(t *testing.T) {
	t.Parallel()
	keys, failed := builderKeys, error(nil)
	s := serveProjects(t, servertest.Start(t), service.Projects{
		All: func() map[string]config.Project {
			return map[string]config.Project{"shop": {Repository: "https://git.example.org/shop.git"}}
		},
		Ready: func() error { return nil },
		Keys:  func() (build.BuilderKeys, error) { return keys, failed },
	})
	other := build.BuilderKey{Number: 4, Secret: []byte(strings.Repeat("o", 32))}
	for i, c := range []struct {
		keys   build.BuilderKeys
		failed error
		body   string
		status int
	}{
		{builderKeys, nil, `{"inputs": {"a": "hunter22"}}`, http.StatusCreated},
		{builderKeys, nil, `{"inputs": {"a": "hunter22"}}`, http.StatusOK},
		{append(build.BuilderKeys{other}, builderKeys...), nil, `{"inputs": {"a": "hunter22"}}`, http.StatusOK},
		{build.BuilderKeys{other}, nil, `{"inputs": {"a": "hunter22"}}`, http.StatusUnprocessableEntity},
		{builderKeys, nil, `{"inputs": {"a": "hunter23"}}`, http.StatusUnprocessableEntity},
		{nil, fault.New(fault.Unavailable, "no such file"), `{"inputs": {"a": "hunter22"}}`, http.StatusConflict},
	} {
		keys, failed = c.keys, c.failed
		if status, answer := s.post(t, "/api/project/shop/build", c.body, "Idempotency-Key", "once"); status != c.status {
			t.Errorf("%d: %d %s", i, status, answer)
		}
	}
}

func TestWhatABuildCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	keyless := fault.New(fault.Unavailable, "no such file")
	ready := error(nil)
	s := serveProjects(t, servertest.Start(t), service.Projects{
		All: func() map[string]config.Project {
			return map[string]config.Project{"shop": {Repository: "https://git.example.org/shop.git"}, "cart": {}}
		},
		Ready: func() error { return ready },
		Keys:  func() (build.BuilderKeys, error) { return nil, keyless },
	})
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/api/project/shpo/build", `{}`, http.StatusNotFound, `did you mean \"shop\"?`},
		{"/api/project/other/build", `{}`, http.StatusNotFound, "the projects of server.yaml are cart, shop"},
		{"/api/project/shop/build?branch=a..b", `{}`, http.StatusBadRequest, "want a name that git accepts"},
		{"/api/project/shop/build?branch=%E2%80%AEniam", `{}`, http.StatusBadRequest, "turn the direction of text"},
		{"/api/project/shop/build?environment=%C2%9B31m", `{}`, http.StatusBadRequest, "turn the direction of text"},
		{"/api/project/shop/build?stage=a&stage=%E2%81%A6b", `{}`, http.StatusBadRequest, "turn the direction of text"},
		{"/api/project/shop/build", `{"inputs": {"\u202ea": "x"}}`, http.StatusBadRequest, "turn the direction of text"},
		{"/api/project/shop/build", `{"passwords": {"\u0085a": "x"}}`, http.StatusBadRequest, "turn the direction of text"},
		{"/api/project/shop/build", `{"commit": "3f9c2ab"}`, http.StatusBadRequest, "want all 40 hex digits"},
		{"/api/project/shop/build?engine=x", `{}`, http.StatusBadRequest, "engine"},
		{"/api/project/shop/build", `{"inputs": {"a=b": ""}}`, http.StatusBadRequest, "want names of 1 to 100 bytes"},
		{"/api/project/shop/build?branch=a..b", `{"inputs": {"a=b": ""}}`, http.StatusBadRequest, "want a name that git accepts"}, // both faults
		{"/api/project/shop/build", `{"inputs": {"a": "` + strings.Repeat("x", 40<<10) + `"}, "passwords": {"b": "` +
			strings.Repeat("x", 30<<10) + `"}}`, http.StatusBadRequest, "65536 are allowed"},
		{"/api/project/shop/build", `{"inputs": {"a": "1"}, "passwords": {"a": "2"}}`, http.StatusBadRequest, `\"a\" is an input already`},
		{"/api/project/shop/build", `{"passwords": {"a": "swordfish"}}`, http.StatusConflict, "needs a builder key"},
		{"/api/build/7/cancel", ``, http.StatusNotFound, "build 7 not found"},
		{"/api/build/7/rerun", ``, http.StatusNotFound, "build 7 not found"},
		{"/api/build/x/rerun", ``, http.StatusNotFound, "build x not found"},
	} {
		if status, answer := s.post(t, c.path, c.body); status != c.status || !strings.Contains(answer, c.want) ||
			strings.Contains(answer, "swordfish") {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, answer)
		}
	}
	if status, _, _ := s.ask(t, "POST", "/api/project/shop/build", "{}", "Content-Type",
		"application/json"); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
	ready = fault.New(fault.Refused, "no provisioner")
	if status, answer := s.post(t, "/api/project/shop/build", "{}"); status != http.StatusConflict ||
		!strings.Contains(answer, "no provisioner") {
		t.Errorf("%d %s", status, answer)
	}
	if all, err := s.Ledger.Builds.List(t.Context(), builds.Query{}); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestWhatTheFileRefusesIsRefusedBeforeAnythingIsStored(t *testing.T) {
	t.Parallel()
	var asked []string
	away := error(nil)
	s := serveProjects(t, servertest.Start(t), service.Projects{
		All: func() map[string]config.Project {
			return map[string]config.Project{"shop": {Repository: "https://git.example.org/shop.git"}}
		},
		Ready: func() error { return nil },
		Keys:  func() (build.BuilderKeys, error) { return builderKeys, nil },
		File: func(_ context.Context, project, branch, commit string) (*build.File, error) {
			asked = append(asked, project+" "+branch+" "+commit)
			root, _ := yamltree.Parse(build.FileName, []byte(`inputs: [{name: level, type: string}, {name: key, type: password}, {name: count, type: number}]
test: {unit: {container: {image: golang, cmds: [make]}}}
sign: {all: {container: {image: golang, cmds: ['sign ${key}']}}}
`), yamltree.BuildFile)
			file, _ := build.Parse(root)
			return file, away
		},
	})
	const path = "/api/project/shop/build?branch=topic"
	status, answer := s.post(t, path, `{"inputs": {"level": "debug", "key": "swordfish"}}`)
	if status != http.StatusBadRequest || !strings.Contains(answer, `the input \"key\" is a password`) ||
		!strings.Contains(answer, "-p key") || strings.Contains(answer, "swordfish") {
		t.Errorf("%d %s", status, answer)
	}
	if all, err := s.Ledger.Builds.List(t.Context(), builds.Query{}); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if status, answer := s.post(t, path, ""); status != http.StatusBadRequest ||
		!strings.Contains(answer, `the password \"key\" is not given, and has no default; give it by -p key`) {
		t.Errorf("%d %s", status, answer)
	}
	s.start(t, "?branch=topic&stage=test", "") // the file does not use it
	s.start(t, "?branch=topic", `{"commit": "`+commit+`", "inputs": {"level": "debug"}, "passwords": {"key": "swordfish"}}`)
	away = fault.New(fault.Unavailable, "the repository is away")
	s.start(t, "?branch=topic", `{"inputs": {"level": "debug"}}`) // the conductor looks again
	s.start(t, "?branch=topic", `{"passwords": {"key": "swordfish"}}`)
	dry := func(body string, want int, says string) {
		t.Helper()
		status, answer := s.post(t, path+"&dry-run=true", body)
		if status != want || !strings.Contains(answer, says) || strings.Contains(answer, "swordfish") {
			t.Errorf("%d %s", status, answer)
		}
	}
	dry(`{"inputs": {"level": "debug"}}`, http.StatusServiceUnavailable, "the repository is away")
	away = nil
	dry(`{"inputs": {"key": "swordfish"}}`, http.StatusBadRequest, "is a password")
	dry(`{"inputs": {"level": "debug", "Key": "swordfish"}}`, http.StatusBadRequest, `input \"Key\" not found`)
	dry(`{"inputs": {"level": "debug"}, "passwords": {"key": "swordfish"}}`, http.StatusOK,
		`"params":[{"name":"key","value":"***"},{"name":"level","value":"debug"}]`)
	if all, err := s.Ledger.Builds.List(t.Context(), builds.Query{}); err != nil || len(all) != 4 {
		t.Errorf("%+v, %v", all, err)
	}
	dry(`{"inputs": {"count": "many"}}`, http.StatusBadRequest, `\"many\" is not a number`)
	if status, answer := s.post(t, path+"&stage=tset&environment=prod", ""); status != http.StatusBadRequest ||
		!strings.Contains(answer, `stage \"tset\" not found`) || !strings.Contains(answer, `environment \"prod\" not found`) {
		t.Errorf("%d %s", status, answer)
	}
	topic := "shop topic "
	if diff := cmp.Diff([]string{topic, topic, topic, topic + commit, topic, topic, topic, topic, topic, topic, topic,
		topic}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestABuildIsCanceledRepeatedAndDeleted(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *testServer) {
		s.start(t, "?stage=test&environment=stage&branch=main",
			`{"commit": "`+commit+`", "inputs": {"level": "debug"}, "passwords": {"key": "swordfish"}}`)
		if status, answer := s.post(t, "/api/build/1/rerun", ""); status != http.StatusConflict || !strings.Contains(answer, "cancel it first") {
			t.Errorf("%d %s", status, answer)
		}
		if status, answer, _ := s.ask(t, "DELETE", "/api/build/1", "", "Authorization",
			bearer); status != http.StatusConflict || !strings.Contains(answer, "cancel it first") {
			t.Errorf("%d %s", status, answer)
		}
		if status, answer := s.post(t, "/api/build/1/cancel", ""); status != http.StatusAccepted ||
			!strings.Contains(answer, `"status":"Canceled"`) {
			t.Errorf("%d %s", status, answer)
		}
		if status, answer := s.post(t, "/api/build/1/cancel", ""); status != http.StatusConflict ||
			!strings.Contains(answer, "it can be run again, or deleted") {
			t.Errorf("%d %s", status, answer)
		}
		if left, err := s.Ledger.Builds.Passwords(t.Context(), 1); err != nil || left[1].Sealed != nil {
			t.Errorf("the password is kept: %v, %v", left, err)
		}
		for body, want := range map[string]string{"": "passwords are not kept", `{"passwords": {"kye": "x"}}`: "passwords are not kept"} {
			if status, answer := s.post(t, "/api/build/1/rerun", body); status != http.StatusBadRequest || !strings.Contains(answer, want) {
				t.Errorf("%d %s", status, answer)
			}
		}
		if status, answer := s.post(t, "/api/build/1/rerun",
			`{"passwords": {"key": "again"}}`); status != http.StatusCreated || !strings.Contains(answer, `"rerunOf":"1"`) {
			t.Errorf("%d %s", status, answer)
		}
		again, err := s.Ledger.Builds.Build(t.Context(), 2)
		if err != nil || again.Commit != commit || again.Branch != "main" || again.Environment != "stage" ||
			again.RerunOf != 1 || again.Inputs["level"] != "debug" {
			t.Errorf("%+v, %v", again, err)
		}
		key, _, _, err := s.Blobs.Put(t.Context(), builds.Folder(1)+"/1", strings.NewReader("artifact"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if status, answer, _ := s.ask(t, "DELETE", "/api/build/1", "", "Authorization", bearer); status != http.StatusNoContent {
				t.Errorf("%d %s", status, answer)
			}
		}
		if has, err := s.Blobs.Has(t.Context(), key); has || err != nil {
			t.Errorf("the artifact is there: %v", err)
		}
		if status, _, _ := s.ask(t, "GET", "/api/build/1", ""); status != http.StatusNotFound {
			t.Errorf("%d", status)
		}
		if status, answer, _ := s.ask(t, "GET", "/api/build/77", ""); status != http.StatusNotFound ||
			!strings.Contains(answer, "waybill build list shows those that are") {
			t.Errorf("%d %s", status, answer)
		}
	})
}

// TestBuildsAreChangedAlike: a caller in this process changes builds as one over HTTP does.
func TestBuildsAreChangedAlike(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *testServer) {
		for i, to := range []operation.Caller{server.NewLocal(s.Service, "ana"), s.client()} {
			first, again := operation.BuildPath{ID: fmt.Sprint(2*i + 1)}, fmt.Sprint(2*i+2)
			made, err := operation.RunBuild.Call(t.Context(), to, operation.RunBuildInput{Project: "shop", Stages: []string{"test"},
				Branch: "topic", Body: &operation.RunBuildBody{Commit: commit, Passwords: map[string]string{"key": "swordfish"}}})
			if err != nil || made.ID != first.ID || made.Commit != commit || made.Branch != "topic" ||
				!slices.Equal(made.Stages, []string{"test"}) {
				t.Errorf("run: %+v, %v", made, err)
			}
			now, err := operation.CancelBuild.Call(t.Context(), to, first)
			if err != nil || now.Status != build.Canceled {
				t.Errorf("cancel: %+v, %v", now, err)
			}
			rerun := operation.RerunBuildInput{BuildPath: first, Resume: true}
			if _, err := operation.RerunBuild.Call(t.Context(), to, rerun); !fault.Is(err, fault.Invalid) {
				t.Errorf("rerun without the password: %v", err)
			}
			rerun.Body = &operation.RerunBuildBody{Passwords: map[string]string{"key": "again"}}
			made, err = operation.RerunBuild.Call(t.Context(), to, rerun)
			if err != nil || made.ID != again || made.RerunOf != first.ID || !made.Resume {
				t.Errorf("rerun: %+v, %v", made, err)
			}
			if _, err := operation.DeleteBuild.Call(t.Context(), to, first); err != nil {
				t.Errorf("delete: %v", err)
			}
			if _, err := operation.GetBuild.Call(t.Context(), to, first); !fault.Is(err, fault.NotFound) {
				t.Errorf("after its deletion: %v", err)
			}
		}
	})
}

func TestTheEndOfAnActionEndsItsBuild(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *testServer) {
		for range 2 {
			s.start(t, "", "")
		}
		if err := s.Ledger.Builds.Assign(t.Context(), 2, "w", "nonce"); err != nil {
			t.Fatal(err)
		}
		for id := builds.ID(1); id <= 2; id++ {
			row, err := s.Ledger.Builds.Build(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Service.CancelAction(t.Context(), row.ActionID); err != nil {
				t.Fatal(err)
			}
			waiter := s.Ledger.NewWaiter()
			for state, err := s.Ledger.Action(t.Context(),
				row.ActionID); !state.Thread.Status.Ended(); state, err = s.Ledger.Action(t.Context(), row.ActionID) {
				if err != nil || waiter.Wait(t.Context(), "action", time.Now().Add(time.Second)) != nil {
					t.Fatal(err)
				}
			}
		}
		one, err := s.Ledger.Builds.Build(t.Context(), 1)
		if err != nil || one.Status != build.Canceled {
			t.Errorf("%+v, %v", one, err)
		}
		two, err := s.Ledger.Builds.Build(t.Context(), 2)
		if err != nil || two.Status.Ended() || two.CancelRequestedAt.IsZero() {
			t.Errorf("it has a worker, which ends it: %+v, %v", two, err)
		}
	})
}

func TestABuildOfADeploymentIsNotRepeatedHere(t *testing.T) {
	t.Parallel()
	s := serveProjects(t, servertest.Start(t), service.Projects{})
	if _, err := s.Ledger.Builds.Create(t.Context(), builds.Build{Project: "shop", Revision: "3f9c2ab"}); err != nil {
		t.Fatal(err)
	}
	if status, answer := s.post(t, "/api/build/1/cancel", ""); status != http.StatusAccepted {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := s.post(t, "/api/build/1/rerun", ""); status != http.StatusConflict ||
		!strings.Contains(answer, "waybill deployment retry") {
		t.Errorf("%d %s", status, answer)
	}
}

func TestPasswordsAreSealedForOneAction(t *testing.T) {
	t.Parallel()
	one, other := action.DerivedID(time.Unix(1, 0), "a"), action.DerivedID(time.Unix(1, 0), "b")
	sealed, err := builds.Seal(builderKeys, one, map[string]string{"key": "swordfish"})
	if err != nil {
		t.Fatal(err)
	}
	rotated := append(build.BuilderKeys{{Number: 4, Secret: []byte(strings.Repeat("n", 32))}}, builderKeys...)
	if values, err := builds.Unseal(rotated, one, sealed); err != nil || values["key"] != "swordfish" {
		t.Errorf("after a rotation: %v, %v", values, err)
	}
	damaged := []byte(string(sealed))
	damaged[len(damaged)-1]++
	for name, got := range map[string]func() (map[string]string, error){
		"another action": func() (map[string]string, error) { return builds.Unseal(builderKeys, other, sealed) },
		"another key":    func() (map[string]string, error) { return builds.Unseal(rotated[:1], one, sealed) },
		"damage":         func() (map[string]string, error) { return builds.Unseal(builderKeys, one, damaged) },
		"a cut":          func() (map[string]string, error) { return builds.Unseal(builderKeys, one, sealed[:10]) },
		"nothing":        func() (map[string]string, error) { return builds.Unseal(builderKeys, one, nil) },
	} {
		if values, err := got(); err == nil {
			t.Errorf("%s: %v", name, values)
		}
	}
	if _, err := builds.Seal(nil, one, nil); !fault.Is(err, fault.Refused) {
		t.Error(err)
	}
}

// atEngines serves the project shop without a provisioner, and with the build engine jenkins.
func atEngines(t *testing.T) *testServer {
	t.Helper()
	c := config.Builds{Engine: "jenkins", Engines: map[string]config.Handler{"jenkins": {}},
		Projects: map[string]config.Project{"shop": {Repository: "https://git.example.org/shop.git"}}}
	return serveProjects(t, servertest.Start(t), service.Projects{
		All: func() map[string]config.Project { return c.Projects }, Engine: c.EngineOf, MayReport: c.MayReport,
		Ready: func() error { return fault.New(fault.Refused, "no provisioner") },
		Keys:  func() (build.BuilderKeys, error) { return builderKeys, nil },
	})
}

func TestABuildIsOfTheEngineThatItNames(t *testing.T) {
	t.Parallel()
	s := atEngines(t)
	for i, query := range []string{"?engine=jenkins", ""} {
		made := s.start(t, query, `{"inputs": {"level": "debug"}}`)
		row, err := s.Ledger.Builds.Build(t.Context(), builds.ID(i+1))
		if err != nil || row.Engine != "jenkins" || made.Engine != "jenkins" || strings.Contains(made.Reason, "queued") {
			t.Errorf("%+v, %+v, %v", made, row, err)
		}
	}
	for query, want := range map[string]string{"?engine=jenkin": `build engine \"jenkin\" not found`, "?engine=waybill": "no provisioner"} {
		if status, answer := s.post(t, "/api/project/shop/build"+query, ""); status < 400 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", query, status, answer)
		}
	}
	status, answer := s.post(t, "/api/project/shop/build", `{"passwords": {"key": "swordfish"}}`)
	if status != http.StatusConflict && status != http.StatusUnprocessableEntity ||
		!strings.Contains(answer, "jenkins is given no passwords") || strings.Contains(answer, "swordfish") {
		t.Errorf("%d %s", status, answer)
	}
	if all, err := s.Ledger.Builds.List(t.Context(), builds.Query{}); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestACancelEndsTheActionOfABuildOfAnotherEngine(t *testing.T) {
	t.Parallel()
	s := atEngines(t)
	s.start(t, "", "")
	row, err := s.Ledger.Builds.Build(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if status, answer := s.post(t, "/api/build/1/cancel", ""); status != http.StatusAccepted || !strings.Contains(answer, `"Canceled"`) {
		t.Errorf("%d %s", status, answer)
	}
	if a, err := s.Ledger.Action(t.Context(), row.ActionID); err != nil || a.Thread.Status != action.Canceled && a.Thread.CancelAt.IsZero() {
		t.Errorf("%+v, %v", a, err)
	}
	if status, answer, _ := s.ask(t, "PUT", "/api/build/1/status", `{"status": "Running"}`, "Authorization", bearer,
		"Content-Type", "application/json"); status != http.StatusConflict {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := s.post(t, "/api/build/1/rerun?resume=true", ""); status != http.StatusConflict ||
		!strings.Contains(answer, "was run by the build engine jenkins, whose steps Waybill cannot reuse") {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := s.post(t, "/api/build/1/rerun", ""); status != http.StatusCreated || !strings.Contains(answer, `"engine":"jenkins"`) {
		t.Errorf("%d %s", status, answer)
	}
}

func TestABuildIsResumed(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *testServer) {
		s.start(t, "?stage=test&branch=main", `{"commit": "`+commit+`"}`)
		if status, answer := s.post(t, "/api/build/1/rerun?resume=true", ""); status != http.StatusConflict ||
			!strings.Contains(answer, "cancel it first") {
			t.Errorf("%d %s", status, answer)
		}
		if status, _ := s.post(t, "/api/build/1/cancel", ""); status != http.StatusAccepted {
			t.Fatal(status)
		}
		if status, answer := s.post(t, "/api/build/1/rerun?resume=yes", ""); status != http.StatusUnprocessableEntity &&
			status != http.StatusBadRequest || !strings.Contains(answer, "resume") {
			t.Errorf("%d %s", status, answer)
		}
		for i, want := range []int{http.StatusCreated, http.StatusOK} {
			status, answer := s.post(t, "/api/build/1/rerun?resume=true", "", "Idempotency-Key", "once")
			if status != want || !strings.Contains(answer, `"buildId":"2"`) || !strings.Contains(answer, `"rerunOf":"1","resume":true`) {
				t.Errorf("request %d: %d %s", i, status, answer)
			}
		}
		if status, answer := s.post(t, "/api/build/1/rerun", "", "Idempotency-Key", "once"); status == http.StatusOK ||
			status == http.StatusCreated {
			t.Errorf("without resume it is another request: %d %s", status, answer)
		}
		made, err := s.Ledger.Builds.Build(t.Context(), 2)
		if err != nil || !made.Resume || made.RerunOf != 1 || made.Commit != commit {
			t.Errorf("%+v, %v", made, err)
		}
		none := sha256.Sum256(nil)
		reused := builds.Batch{Steps: []builds.Step{{ID: 1, Stage: "test", Name: "unit"}}, Events: []builds.Event{
			{Source: builds.Worker, EventID: "1", Status: build.Running}, {Source: builds.Worker, EventID: "2", Step: 1,
				Status: build.Reused, Reason: "reused from build 1", Trailer: &build.Trailer{SHA256: hex.EncodeToString(none[:])}}}}
		if _, err := s.Ledger.Builds.Ingest(t.Context(), 2, reused); err != nil {
			t.Fatal(err)
		}
		if _, answer, _ := s.ask(t, "GET", "/api/build/2/step", "", "Authorization", bearer); !strings.Contains(answer,
			`"status":"Reused","reason":"reused from build 1","reusedFrom":"1"`) {
			t.Error(answer)
		}
	})
}

func TestOpenAPISaysHowABuildIsResumed(t *testing.T) {
	t.Parallel()
	s := serveProjects(t, servertest.Start(t), service.Projects{})
	_, document, _ := s.ask(t, "GET", "/api/v1/openapi.json", "")
	if !strings.Contains(document, "reuse the steps that completed and are still the same") || !strings.Contains(document, `"reusedFrom"`) {
		t.Error("the document lacks the query parameter resume, or the field reusedFrom")
	}
}

func TestAnUnknownProjectIsAnsweredWithAFewThatAreKnown(t *testing.T) {
	t.Parallel()
	all := map[string]config.Project{}
	s := serveProjects(t, servertest.Start(t), service.Projects{All: func() map[string]config.Project { return all }})
	ask := func(want string) {
		t.Helper()
		if status, answer := s.post(t, "/api/project/other/build", `{}`); status != http.StatusNotFound || !strings.Contains(answer, want) {
			t.Errorf("%d %s, want %s", status, answer, want)
		}
	}
	ask("projects are described in server.yaml")
	for i := range 22 {
		all[fmt.Sprintf("team-%02d", i)] = config.Project{}
	}
	ask("team-18, team-19 and 2 more")
}
