package build_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/action"
	domain "github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// ends has build 1 begin, and end with a status.
func ends(ctx context.Context, stored *builds.Builds, status domain.Status) error {
	for id, s := range []domain.Status{domain.Running, status} {
		e, err := stored.Record(ctx, 1, builds.Event{Source: builds.API, EventID: fmt.Sprint(id), Status: s, Reason: "because"})
		if err != nil || !e.Applied {
			return errors.Join(err, fmt.Errorf("the build cannot be %s", s))
		}
	}
	return nil
}

// repository makes a repository with one commit on the branch main, and returns its folder and the commit.
func repository(t *testing.T) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	git := func(arguments ...string) string {
		c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=Ana", "-c", "user.email=ana@example.net"}, arguments...)...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", arguments, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "one")
	return dir, git("rev-parse", "HEAD")
}

// alone stores builds without a deployment of the repository in a folder, and makes the handler's action that of the first.
func alone(t *testing.T, s *setup, stored *builds.Builds, dir string, wanted ...builds.Build) {
	t.Helper()
	keys := domain.BuilderKeys{{Number: 1, Secret: []byte(strings.Repeat("k", 32))}}
	s.handler.Workers.Keys = keys
	s.handler.Workers.Project = func(name string) (build.Project, error) {
		if name != "shop" {
			return build.Project{}, fault.New(fault.NotFound, "no project %s", name)
		}
		return build.Project{ID: "42", URL: dir, Subdirectory: "app", Credential: "github"}, nil
	}
	for i, b := range wanted {
		b.Project, b.ActionID, b.Nonce = "shop", action.DerivedID(time.Unix(int64(i+1), 0), t.Name()), strings.Repeat("n", 20)
		created, err := stored.Create(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			continue
		}
		s.action = action.Action{ID: b.ActionID, Handler: build.Name}
		if err := builds.Describe(&s.action, created); err != nil {
			t.Fatal(err)
		}
	}
}

func TestABuildWithoutADeploymentBuildsTheCommitThatItsBranchWasAt(t *testing.T) {
	t.Parallel()
	s, stored, y := inWorkers(t, func(ctx context.Context, stored *builds.Builds) error {
		return ends(ctx, stored, domain.Completed)
	})
	dir, commit := repository(t)
	alone(t, s, stored, dir, builds.Build{Environment: "stage", Stages: []string{"test"}, Inputs: map[string]string{"level": "debug"}})
	y.waiting = &provisionerv1.Waiting{Running: 4, Limit: 4}
	if o := s.do(t.Context(), 1); o.Kind != action.RetryAfter {
		t.Errorf("%+v", o)
	}
	if err := os.RemoveAll(dir); err != nil { // it is requested once
		t.Fatal(err)
	}
	y.waiting = nil
	if o := s.do(t.Context(), 2); o.Kind != action.Done || o.Ref != "build/1" || string(o.Output) != `{"build":"1"}` {
		t.Errorf("%+v", o)
	}
	want := provisionerv1.CreateWorker{BuildID: 1, Project: "shop", ProjectID: "42", Instance: "shop",
		Nonce: strings.Repeat("n", 20), Revision: commit[:7],
		Repository:  &provisionerv1.Repository{URL: dir, Commit: commit, Branch: "main", Subdirectory: "app", Credential: "github"},
		Environment: "stage", Stages: []string{"test"}, Inputs: map[string]string{"level": "debug"}}
	if diff := cmp.Diff([]provisionerv1.CreateWorker{want, want}, y.asked); diff != "" {
		t.Error(diff)
	}
	row, err := stored.Build(t.Context(), 1)
	if err != nil || row.Commit != commit || row.Branch != "main" {
		t.Errorf("%+v, %v", row, err)
	}
	if diff := cmp.Diff([]string{"w"}, y.deleted); diff != "" {
		t.Error(diff)
	}
}

// TestABuildShowsTheNewestTroubleWithItsRepository also if it was the trouble before, and stores it once for as long as it stays.
func TestABuildShowsTheNewestTroubleWithItsRepository(t *testing.T) {
	t.Parallel()
	s, stored, _ := inWorkers(t, fails)
	alone(t, s, stored, "", builds.Build{})
	one, other := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), strings.Repeat("long/", 100))
	for i, dir := range []string{one, other, one} {
		s.handler.Workers.Project = func(string) (build.Project, error) { return build.Project{URL: dir}, nil }
		for range 2 {
			if o := s.do(t.Context(), 1); o.Kind == action.Done || o.Kind == action.Fatal {
				t.Fatalf("%+v", o)
			}
			row, err := stored.Build(t.Context(), 1)
			if err != nil || row.LastSeq != int64(i+1) || row.Reason != "Repository" || !strings.Contains(row.Message, dir) {
				t.Errorf("after %d events of %.100s: %+v, %v", row.LastSeq, dir, row, err)
			}
		}
	}
}

func TestTheEndOfABuildWithoutADeploymentIsThatOfItsAction(t *testing.T) {
	t.Parallel()
	for status, want := range map[domain.Status]struct {
		kind action.OutcomeKind
		code string
	}{
		domain.Failed: {action.Fatal, "build_failed"}, domain.Canceled: {action.Stopped, "canceled"},
		domain.TimedOut: {action.Expired, "build_timed_out"}, domain.Lost: {action.Fatal, "build_lost"},
	} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			s, stored, _ := inWorkers(t, func(ctx context.Context, stored *builds.Builds) error {
				return ends(ctx, stored, status)
			})
			dir, commit := repository(t)
			alone(t, s, stored, dir, builds.Build{Commit: commit})
			if o := s.do(t.Context(), 1); o.Kind != want.kind || o.Code != want.code || o.Ref != "build/1" {
				t.Errorf("%+v", o)
			}
			if o := s.do(t.Context(), 2); o.Kind != want.kind {
				t.Errorf("again: %+v", o)
			}
		})
	}
}

func TestABuildWithoutADeploymentThatCannotBegin(t *testing.T) {
	t.Parallel()
	s, stored, y := inWorkers(t, fails)
	dir, _ := repository(t)
	alone(t, s, stored, dir, builds.Build{Branch: "none"})
	if o := s.do(t.Context(), 1); o.Kind != action.Fatal || o.Error != dir+" has no branch none" {
		t.Errorf("%+v", o)
	}
	project := s.handler.Workers.Project
	s.handler.Workers.Project = func(string) (build.Project, error) { return project("other") }
	if o := s.do(t.Context(), 2); o.Kind != action.Fatal || o.Error != "no project other" {
		t.Errorf("%+v", o)
	}
	s.handler.Workers.Project = func(string) (build.Project, error) { return build.Project{URL: filepath.Join(dir, "gone")}, nil }
	if o := s.do(t.Context(), 3); o.Kind != action.Retry || !strings.Contains(o.Error, "for its branches") {
		t.Errorf("%+v", o)
	}
	if b, err := stored.Build(t.Context(), 1); err != nil || b.Status != domain.Scheduling ||
		!strings.Contains(b.Message, "for its branches") {
		t.Errorf("the build does not say what it waits for: %+v, %v", b, err)
	}
	s.handler.Workers.Provisioner = nil
	if o := s.do(t.Context(), 4); o.Kind != action.Throttle || !strings.Contains(o.Error, "names no provisioner") {
		t.Errorf("%+v", o)
	}
	if len(y.asked) != 0 {
		t.Errorf("%+v", y.asked)
	}
}

// TestAPasswordAmongPlainInputsIsErased leaves nothing of it in the files of the database, whatever else was written
// in the meantime.
func TestAPasswordAmongPlainInputsIsErased(t *testing.T) {
	t.Parallel()
	for _, length := range []int{20, 60 << 10} { // a part of a page, and many pages
		s, stored, y := inWorkers(t, fails)
		dir, commit := repository(t)
		secret := strings.Repeat("marlin-", length/len("marlin-")+1)
		alone(t, s, stored, dir, builds.Build{Commit: commit, Inputs: map[string]string{"level": "debug", "key": secret}})
		for range 30 { // the changes move rows from page to page
			if _, err := stored.Create(t.Context(), builds.Build{Project: "other", Inputs: map[string]string{"level": "debug"}}); err != nil {
				t.Fatal(err)
			}
		}
		if !stores(t, s.database, "marlin") {
			t.Error("the test does not find what is stored")
		}
		s.handler.Workers.Inputs = func(_ context.Context, project, branch, at string) ([]domain.Input, error) {
			if project != "shop" || branch != "" || at != commit {
				t.Errorf("%s %s %s", project, branch, at)
			}
			return []domain.Input{{Name: "level", Type: domain.StringInput}, {Name: "key", Type: domain.PasswordInput}}, nil
		}
		o := s.do(t.Context(), 1)
		if o.Kind != action.Fatal || !strings.Contains(o.Error, `the input "key" is a password`) ||
			!strings.Contains(o.Error, "-p key") || strings.Contains(o.Error, "marlin") {
			t.Errorf("%+v", o)
		}
		if again := s.do(t.Context(), 2); again.Kind != action.Fatal || again.Error != o.Error || len(y.asked) != 0 {
			t.Errorf("%+v, %+v", again, y.asked)
		}
		if stores(t, s.database, "marlin") {
			t.Errorf("a password of %d bytes is still stored", len(secret))
		}
	}
}

// stores reports whether a file of a database has a text.
func stores(t *testing.T, database, text string) (found bool) {
	t.Helper()
	files, err := filepath.Glob(database + "*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found = found || strings.Contains(string(data), text)
	}
	return found
}

func TestInputsAreCheckedOnceAndOnlyWithTheFile(t *testing.T) {
	t.Parallel()
	s, stored, y := inWorkers(t, fails)
	dir, commit := repository(t)
	alone(t, s, stored, dir, builds.Build{Commit: commit, Inputs: map[string]string{"key": "x"}})
	s.handler.Workers.Inputs = func(context.Context, string, string, string) ([]domain.Input, error) { return nil, errors.New("away") }
	if o := s.do(t.Context(), 1); o.Kind != action.Retry || o.Error != "away" || len(y.asked) != 0 {
		t.Errorf("%+v, %v", o, y.asked)
	}
	read := 0
	s.handler.Workers.Inputs = func(context.Context, string, string, string) ([]domain.Input, error) {
		read++
		return []domain.Input{{Name: "key", Type: domain.StringInput}}, nil
	}
	y.waiting = &provisionerv1.Waiting{Running: 4, Limit: 4}
	for n := range 2 {
		if o := s.do(t.Context(), n+2); o.Kind != action.RetryAfter || read != 1 {
			t.Errorf("%+v, read %d times", o, read)
		}
	}
}

func TestBuildsOfAProjectTakeTurns(t *testing.T) {
	t.Parallel()
	s, stored, y := inWorkers(t, fails)
	dir, commit := repository(t)
	alone(t, s, stored, dir, builds.Build{Commit: commit}, builds.Build{Commit: commit})
	second, err := stored.Build(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := builds.Describe(&s.action, second); err != nil {
		t.Fatal(err)
	}
	if o := s.do(t.Context(), 1); o.Kind != action.RetryAfter ||
		o.Error != "queued: older builds of project shop that wait: 1" || len(y.asked) != 0 {
		t.Errorf("%+v", o)
	}
	if _, err := stored.Cancel(t.Context(), 1, "ana"); err != nil {
		t.Fatal(err)
	}
	if o := s.do(t.Context(), 2); o.Kind != action.Fatal || len(y.asked) != 1 {
		t.Errorf("%+v", o)
	}
}

func TestACanceledBuildLosesItsWorkerAndKeepsItsResults(t *testing.T) {
	t.Parallel()
	asked := 0
	var y *yard
	s, stored, made := inWorkers(t, func(ctx context.Context, stored *builds.Builds) error {
		if asked++; asked == 1 {
			_, err := stored.Cancel(ctx, 1, "ana")
			return err
		}
		if len(y.deleted) != 1 {
			t.Errorf("deleted %v", y.deleted)
		}
		return ends(ctx, stored, domain.Canceled)
	})
	y = made
	dir, commit := repository(t)
	alone(t, s, stored, dir, builds.Build{Commit: commit})
	if o := s.do(t.Context(), 1); o.Kind != action.Stopped || o.Code != action.CodeCanceled || asked != 2 {
		t.Errorf("%+v after %d waits", o, asked)
	}
}

func TestABuildThatTakesTooLongIsTimedOut(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	s, stored, y := inWorkers(t, func(waiting context.Context, _ *builds.Builds) error {
		cancel(conductor.ErrAttemptTimeout)
		return context.Cause(waiting)
	})
	dir, commit := repository(t)
	alone(t, s, stored, dir, builds.Build{Commit: commit})
	if o := s.do(ctx, 1); o.Kind != action.Expired {
		t.Errorf("%+v", o)
	}
	if row, err := stored.Build(t.Context(), 1); err != nil || row.Status != domain.TimedOut || len(y.deleted) == 0 {
		t.Errorf("%+v, deleted %v, %v", row, y.deleted, err)
	}
}

func TestADeploymentsBuildThatAPersonCancelsIsNotRetried(t *testing.T) {
	t.Parallel()
	s, _, y := inWorkers(t, func(ctx context.Context, stored *builds.Builds) error {
		if _, err := stored.Cancel(ctx, 1, "ana"); err != nil {
			return err
		}
		return ends(ctx, stored, domain.Canceled)
	})
	if o := s.do(t.Context(), 1); o.Kind != action.Fatal || o.Code != "build_canceled" || len(y.deleted) == 0 {
		t.Errorf("%+v, deleted %v", o, y.deleted)
	}
}
