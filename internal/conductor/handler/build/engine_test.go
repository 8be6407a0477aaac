package build_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	domain "github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// ci is another build engine, which only takes builds.
type ci struct {
	asked  []map[string]any
	answer action.Outcome
}

func (c *ci) Do(_ context.Context, a conductor.Attempt) action.Outcome {
	var parameters map[string]any
	if err := json.Unmarshal(a.Action.Parameters, &parameters); err != nil {
		return action.Outcome{Kind: action.BadInput, Error: err.Error()}
	}
	c.asked = append(c.asked, parameters)
	return c.answer
}

// atJenkins gives a handler without a provisioner a build of the engine jenkins. wait is called while an attempt
// waits.
func atJenkins(t *testing.T, b builds.Build, wait func(ctx context.Context,
	stored *builds.Builds) error) (s *setup, stored *builds.Builds, jenkins *ci, dir, commit string) {
	t.Helper()
	s, stored, _ = inWorkers(t, wait)
	s.handler.Workers.Provisioner = nil
	dir, commit = repository(t)
	b.Engine = "jenkins"
	alone(t, s, stored, dir, b)
	jenkins = &ci{answer: action.Outcome{Kind: action.Done}}
	s.handler.Workers.Engine = func(name string) (build.Engine, error) {
		if name != "jenkins" {
			return build.Engine{}, fault.New(fault.NotFound, "no engine %s", name)
		}
		return build.Engine{Start: jenkins, API: "https://waybill.example.org"}, nil
	}
	return s, stored, jenkins, dir, commit
}

// reports has the build engine of build 1 report that it runs, then a status.
func reports(status domain.Status) func(context.Context, *builds.Builds) error {
	return func(ctx context.Context, stored *builds.Builds) error {
		for _, s := range []domain.Status{domain.Running, status} {
			if _, err := stored.ReportStatus(ctx, 1, builds.ReportedStep{}, builds.Event{Status: s, Reason: "said so"}); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestAnotherBuildEngineStartsABuildOnceAndReportsItsEnd(t *testing.T) {
	t.Parallel()
	var ends error // while the first attempt waits, its process goes away
	s, stored, jenkins, dir, commit := atJenkins(t,
		builds.Build{Environment: "stage", Stages: []string{"test"}, Inputs: map[string]string{"level": "debug"}},
		func(ctx context.Context, stored *builds.Builds) error {
			if ends != nil {
				return ends
			}
			return reports(domain.Completed)(ctx, stored)
		})
	jenkins.answer = action.Outcome{Kind: action.Throttle, Code: "http_503", Error: "503", Refused: true,
		DisableLane: true, PauseLane: time.Now()}
	o := s.do(t.Context(), 1)
	if o.Kind != action.Throttle || o.Error != "the build engine jenkins did not take the build: 503" || o.DisableLane ||
		o.Refused || !o.PauseLane.IsZero() {
		t.Errorf("%+v", o)
	}
	jenkins.answer, ends = action.Outcome{Kind: action.Done}, errors.New("the process goes away")
	if o := s.do(t.Context(), 2); o.Kind != action.Retry {
		t.Errorf("%+v", o)
	}
	ends = nil
	if o := s.do(t.Context(), 3); o.Kind != action.Done || o.Ref != "build/1" || string(o.Output) != `{"build":"1"}` {
		t.Errorf("%+v", o)
	}
	want := map[string]any{"build": 1.0, "project": "shop", "repository": dir, "subdirectory": "app", "commit": commit,
		"branch": "main", "environment": "stage",
		"stages": []any{"test"}, "inputs": map[string]any{"level": "debug"}, "report": "https://waybill.example.org/api/build/1"}
	if diff := cmp.Diff([]map[string]any{want, want}, jenkins.asked); diff != "" {
		t.Error(diff)
	}
	if o := s.do(t.Context(), 4); o.Kind != action.Done || len(jenkins.asked) != 2 {
		t.Errorf("%+v, asked %d times", o, len(jenkins.asked))
	}
	if row, err := stored.Build(t.Context(), 1); err != nil || row.Status != domain.Completed {
		t.Errorf("%+v, %v", row, err)
	}
}

func TestTheEndThatABuildEngineReportsIsThatOfTheAction(t *testing.T) {
	t.Parallel()
	for status, want := range map[domain.Status]action.OutcomeKind{
		domain.Failed: action.Fatal, domain.Canceled: action.Stopped, domain.TimedOut: action.Expired, domain.Skipped: action.Done,
	} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			s, _, jenkins, _, _ := atJenkins(t, builds.Build{}, reports(status))
			if o := s.do(t.Context(), 1); o.Kind != want || o.Ref != "build/1" {
				t.Errorf("%+v", o)
			}
			if got := jenkins.asked[0]; got["inputs"] == nil || got["stages"] == nil {
				t.Errorf("null is neither a list nor an object: %v", got)
			}
		})
	}
}

func TestACancelEndsABuildOfAnotherEngineAtOnce(t *testing.T) {
	t.Parallel()
	s, stored, jenkins, _, _ := atJenkins(t, builds.Build{}, func(ctx context.Context, stored *builds.Builds) error {
		_, err := stored.Cancel(ctx, 1, "ana")
		return err
	})
	for attempt := range 2 {
		if o := s.do(t.Context(), attempt+1); o.Kind != action.Stopped || o.Code != action.CodeCanceled || len(jenkins.asked) != 1 {
			t.Errorf("%+v", o)
		}
	}
	if err := reports(domain.Completed)(t.Context(), stored); !fault.Is(err, fault.Conflict) ||
		!strings.Contains(err.Error(), "takes no more reports") {
		t.Error(err)
	}
}

func TestABuildOfAnotherEngineTakesItsTimeOnly(t *testing.T) {
	t.Parallel()
	for name, waited := range map[string]error{"while it waits": context.Canceled, "while the build is read": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			s, stored, _, _, _ := atJenkins(t, builds.Build{}, func(context.Context, *builds.Builds) error {
				cancel(conductor.ErrAttemptTimeout)
				return waited
			})
			if o := s.do(ctx, 1); o.Kind != action.Expired || o.Ref != "build/1" {
				t.Errorf("%+v", o)
			}
			if row, err := stored.Build(t.Context(), 1); err != nil || row.Status != domain.TimedOut {
				t.Errorf("%+v, %v", row, err)
			}
		})
	}
}

func TestABuildOfAnotherEngineThatCannotBegin(t *testing.T) {
	t.Parallel()
	s, stored, jenkins, dir, _ := atJenkins(t, builds.Build{}, fails)
	project := s.handler.Workers.Project
	s.handler.Workers.Project = func(string) (build.Project, error) { return build.Project{URL: filepath.Join(dir, "gone")}, nil }
	if o := s.do(t.Context(), 1); o.Kind != action.Retry || !strings.Contains(o.Error, "for its branches") {
		t.Errorf("%+v", o)
	}
	if b, err := stored.Build(t.Context(), 1); err != nil || !strings.Contains(b.Message, "for its branches") {
		t.Errorf("the build does not say what it waits for: %+v, %v", b, err)
	}
	s.handler.Workers.Project = project
	jenkins.answer = action.Outcome{Kind: action.Fatal, Code: "http_404", Error: "404"}
	if o := s.do(t.Context(), 1); o.Kind != action.Fatal || o.Code != "http_404" ||
		!strings.Contains(o.Error, "jenkins did not take the build: 404") {
		t.Errorf("%+v", o)
	}
	s.handler.Workers.Engine = func(string) (build.Engine, error) { return build.Engine{}, errors.New("no engine jenkins") }
	if o := s.do(t.Context(), 2); o.Kind != action.Fatal || o.Code != "no_engine" {
		t.Errorf("%+v", o)
	}
	if queue, err := stored.Queue(t.Context()); err != nil || len(queue) != 0 {
		t.Errorf("it does not wait for a worker: %v, %v", queue, err)
	}
}
