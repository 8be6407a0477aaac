package web_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/testresult"
	"github.com/waybill-dev/waybill/internal/web"
)

// serveProjects serves the pages of a world with the project shop, whose builds never get a worker.
func serveProjects(t *testing.T) *site {
	t.Helper()
	w := servertest.Start(t)
	w.Service = service.New(w.Ledger, w.Blobs, service.Options{
		Projects: service.Projects{
			All: func() map[string]config.Project {
				return map[string]config.Project{"shop": {Repository: "https://git.example.org/shop.git"}}
			},
			Ready:   func() error { return nil },
			Engine:  config.Builds{Engines: map[string]config.Handler{"jenkins": {}}}.EngineOf,
			Engines: func() []string { return []string{"jenkins"} },
			Keys: func() (build.BuilderKeys, error) {
				return build.BuilderKeys{{Number: 1, Secret: []byte(strings.Repeat("k", 32))}}, nil
			},
		},
		Builds: &buildview.Tables{Rows: w.Ledger.Builds, Folders: buildview.NewFolders(w.Builds, nil), Blobs: w.Blobs,
			Waiter: servertest.BuildWaiter(w.Ledger)},
	})
	s := listen(t, w, web.New(w.Service))
	s.people(t)
	return s
}

// row returns a build of the database.
func (s *site) row(t *testing.T, id builds.ID) builds.Build {
	t.Helper()
	row, err := s.Ledger.Builds.Build(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func TestABuildIsStartedAtAnotherEngineByTheForm(t *testing.T) {
	t.Parallel()
	s := serveProjects(t)
	const executor = "token-of-dan"
	for engine, want := range map[string]int{"jenkins": http.StatusSeeOther, "jenkin": http.StatusBadRequest} {
		if got := s.post(t, "/builds", executor, "", url.Values{"project": {"shop"}, "engine": {engine}}); got != want {
			t.Errorf("engine %s: %d", engine, got)
		}
	}
	if b := s.row(t, 1); b.Engine != "jenkins" {
		t.Errorf("%+v", b)
	}
	if page := s.page(t, "/builds", executor); !strings.Contains(page,
		`<option id="run-engine-waybill" value="waybill">`) || !strings.Contains(page, `<option id="run-engine-jenkins" value="jenkins">`) {
		t.Error("the form has no choice of engines")
	}
}

func TestBuildsAreStartedCanceledRepeatedAndDeletedByForms(t *testing.T) {
	t.Parallel()
	s := serveProjects(t)
	const operator, executor = "token-of-cyd", "token-of-dan"
	if page := s.page(t, "/builds", operator); strings.Contains(page, "Build a project") {
		t.Error("without the scope execute there is a form")
	}
	if page := s.page(t, "/builds", executor); !strings.Contains(page, `<option id="run-project-shop" value="shop">`) {
		t.Error("the form is missing")
	}
	fields := url.Values{"project": {"shop"}, "branch": {"topic"}, "stages": {"test image"}, "inputs": {"level=debug\r\n\r\n"}, "newest": {""}}
	if got := s.post(t, "/builds", operator, "", fields); got != http.StatusForbidden {
		t.Errorf("%d", got)
	}
	if got := s.post(t, "/builds", executor, "https://evil.example.org", fields); got != http.StatusForbidden {
		t.Errorf("from another site: %d", got)
	}
	for range 2 { // the button is pressed twice
		if got := s.post(t, "/builds", executor, "", fields); got != http.StatusSeeOther {
			t.Errorf("%d", got)
		}
	}
	if b := s.row(t, 1); b.Branch != "topic" || len(b.Stages) != 2 || b.Inputs["level"] != "debug" {
		t.Errorf("%+v", b)
	}
	if all, err := s.Ledger.Builds.List(t.Context(), builds.Query{}); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if got := s.post(t, "/builds", executor, "", url.Values{"project": {"shop"}, "inputs": {"level"}}); got != http.StatusBadRequest {
		t.Errorf("%d", got)
	}
	page := s.page(t, "/builds/1", operator)
	for _, want := range []string{"Build 1 of shop", "queued, 1st of 1", `action="/builds/1/cancel"`, "branch topic"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(s.page(t, "/builds/1", executor), "/cancel") {
		t.Error("without the scope operate there is a button")
	}
	if got := s.post(t, "/builds/1/cancel", operator, "", nil); got != http.StatusSeeOther || s.row(t, 1).Status != build.Canceled {
		t.Errorf("%d", got)
	}
	if got := s.post(t, "/builds/1/cancel", operator, "", nil); got != http.StatusConflict {
		t.Errorf("%d", got)
	}
	page = s.page(t, "/builds/1", executor)
	if !strings.Contains(page, `id="ask-rerun"`) || !strings.Contains(page, `id="ask-resume"`) || strings.Contains(page, "/delete") {
		t.Error("want the buttons Rerun and Resume")
	}
	if page := s.page(t, "/builds/1", operator); strings.Contains(page, "ask-resume") {
		t.Error("without the scope execute there is a button")
	}
	if got := s.post(t, "/builds/1/rerun", executor, "", nil); got != http.StatusSeeOther || s.row(t, 2).RerunOf != 1 {
		t.Errorf("%d", got)
	}
	if got := s.post(t, "/builds/2/delete", operator, "", nil); got != http.StatusConflict {
		t.Errorf("%d", got)
	}
	if got := s.post(t, "/builds/1/delete", operator, "", nil); got != http.StatusSeeOther {
		t.Errorf("%d", got)
	}
}

func TestARerunAsksForPasswords(t *testing.T) {
	t.Parallel()
	s := serveProjects(t)
	if _, _, err := s.Service.RunBuild(t.Context(),
		service.NewBuild{Project: "shop", Passwords: map[string]string{"key": "swordfish"}, By: "ana"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Service.CancelBuild(t.Context(), "1", "ana"); err != nil {
		t.Fatal(err)
	}
	if page := s.page(t, "/builds/1", "token-of-dan"); !strings.Contains(page,
		`<input type="password" name="password-key"`) || !strings.Contains(page, "key = <code>***</code>") {
		t.Error("the page asks for no password")
	}
	if got := s.post(t, "/builds/1/rerun", "token-of-dan", "", nil); got != http.StatusBadRequest {
		t.Errorf("%d", got)
	}
	if got := s.post(t, "/builds/1/rerun", "token-of-dan", "",
		url.Values{"password-key": {"again"}}); got != http.StatusSeeOther || s.row(t, 2).RerunOf != 1 {
		t.Errorf("%d", got)
	}
}

func TestABuildIsResumedByAForm(t *testing.T) {
	t.Parallel()
	s := serveProjects(t)
	if _, _, err := s.Service.RunBuild(t.Context(), service.NewBuild{Project: "shop", By: "ana"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Service.CancelBuild(t.Context(), "1", "ana"); err != nil {
		t.Fatal(err)
	}
	fields := url.Values{"newest": {"1"}, "resume": {"true"}}
	if got := s.post(t, "/builds/1/rerun", "token-of-cyd", "", fields); got != http.StatusForbidden {
		t.Errorf("without the scope execute: %d", got)
	}
	for range 2 { // the button is pressed twice
		if got := s.post(t, "/builds/1/rerun", "token-of-dan", "", fields); got != http.StatusSeeOther ||
			!s.row(t, 2).Resume || s.row(t, 2).RerunOf != 1 {
			t.Errorf("%d, %+v", got, s.row(t, 2))
		}
	}
	none := sha256.Sum256(nil)
	empty := &build.Trailer{SHA256: hex.EncodeToString(none[:])}
	reused := builds.Batch{Steps: []builds.Step{{ID: 1, Stage: "test", Name: "unit"}}, Events: []builds.Event{
		{Source: builds.Worker, EventID: "1", Status: build.Running},
		{Source: builds.Worker, EventID: "2", Step: 1, Status: build.Reused, Reason: "reused from build 1", Trailer: empty},
		{Source: builds.Worker, EventID: "3", Status: build.Completed, Trailer: empty, Final: &build.Final{Steps: 1, Events: 3}}}}
	if _, err := s.Ledger.Builds.Ingest(t.Context(), 2, reused); err != nil {
		t.Fatal(err)
	}
	page := s.page(t, "/builds/2", "token-of-dan")
	for _, want := range []string{`resumes <a href="/builds/1">1</a>`,
		`reused</span> <span class="took">from <a href="/builds/1#step-1">build 1</a>`, `id="ask-rerun"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, "ask-resume") {
		t.Error("a build that completed can be resumed")
	}
}

func TestABuildOfAnotherEngineIsShownWhateverItsStepsAreNumbered(t *testing.T) {
	t.Parallel()
	s := serveProjects(t)
	stored := s.Ledger.Builds
	b, err := stored.Create(t.Context(), builds.Build{Project: "shop", Engine: "jenkins"})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(nil)
	report := &build.TestFile{Format: testresult.JUnit, Report: testresult.Report{Counts: testresult.Counts{Tests: 1, Failed: 1},
		Results: []testresult.Result{{Name: "Sum", Outcome: testresult.Failed}}}}
	if _, err := stored.ReportArtifact(t.Context(), b.ID, builds.Artifact{Artifact: build.Artifact{Step: 100,
		Name: "unit.xml", Kind: "junit", SHA256: hex.EncodeToString(sum[:]), Path: "build/1/a"}}, report); err != nil {
		t.Fatal(err)
	}
	page := s.page(t, "/builds/1", "token-of-dan")
	for _, want := range []string{"log of jenkins/step-100", "<td>jenkins/step-100</td>", `id="log-100"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestABuildThatHasNotStartedSaysWhenItWasScheduled(t *testing.T) {
	t.Parallel()
	s := serveProjects(t)
	const executor = "token-of-dan"
	if got := s.post(t, "/builds", executor, "", url.Values{"project": {"shop"}}); got != http.StatusSeeOther {
		t.Fatal(got)
	}
	for _, path := range []string{"/builds", "/builds/1"} {
		if page := s.page(t, path, executor); !strings.Contains(page, "scheduled <time") {
			t.Errorf("%s does not say when the build was scheduled:\n%s", path, page)
		}
	}
}
