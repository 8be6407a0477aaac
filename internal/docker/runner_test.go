package docker

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/build"
)

func TestAStepRunsInAContainer(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		e := newFakeEngine(t)
		var made *fakeContainer
		e.program = func(c *fakeContainer) int {
			made = c
			c.print(1, "one\ntw")
			c.print(2, "fault\n")
			c.print(1, "o\n")
			return 0
		}
		e.kept = archiveOf(t, map[string]string{"out.txt": "made", "file": "content"})
		r := e.runner(t, Config{Environ: []string{"A=b"}})
		var sink log
		exit, err := r.Run(t.Context(), runOf(t, func(s *build.PlanStep) {
			s.Artifacts = []build.ArtifactRule{{Path: "out.txt", When: build.Success}}
			s.Spec.Environ = []string{"OWN=1"}
		}), &sink)
		if err != nil || exit != (build.Exit{}) {
			t.Fatalf("%+v, %v", exit, err)
		}
		if diff := cmp.Diff([][]string{{"one", "e:fault", "two"}, {string(build.Initializing), string(build.Running)}},
			[][]string{sink.lines, {string(sink.phases[0]), string(sink.phases[1])}}); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string]string{"out.txt": "made"}, sink.kept); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"sh", "-c", "true"}, append(made.made.Entrypoint, made.made.Cmd...)); diff != "" ||
			made.made.WorkingDir != workdir {
			t.Error(diff, made.made.WorkingDir)
		}
		for _, want := range []string{"A=b", "OWN=1", "WAYBILL_BUILD_ID=7", "PWD=" + workdir} {
			if !strings.Contains(strings.Join(made.made.Env, "\n"), want) {
				t.Errorf("the environment lacks %s: %q", want, made.made.Env)
			}
		}
		if got := made.files["/mnt repo/file"]; got != "600 content" {
			t.Errorf("the workspace has %q", made.files)
		}
		if remarks, err := r.Close(); err != nil || len(remarks) != 0 || len(e.containers) != 0 {
			t.Errorf("%q, %v, %d containers are left", remarks, err, len(e.containers))
		}
	})
}

func TestHowAContainerEnds(t *testing.T) {
	t.Parallel()
	refused := func(status int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, status, "the Engine says no")
			return true
		}
	}
	for name, test := range map[string]struct {
		code   int
		oom    bool
		limit  int64
		faults map[string]int // by the end of a request's path
		want   build.Exit
		fails  string
		ofStep bool
	}{
		"status": {code: 3, want: build.Exit{Code: 3}},
		"memory": {code: 137, oom: true, limit: 64 << 20,
			want: build.Exit{Code: 137, Reason: "OOMKilled, the memory limit is 64 MiB"}},
		"not started: no such program":   {faults: map[string]int{"start": 400}, fails: "start test/unit…the Engine says no", ofStep: true},
		"not started: no such container": {faults: map[string]int{"start": 404}, fails: "start test/unit…the Engine says no", ofStep: true},
		"not started: a broken Engine":   {faults: map[string]int{"start": 500}, fails: "start test/unit…the Engine says no"},
		"not created":                    {faults: map[string]int{"create": 500}, fails: "create the container of test/unit…the Engine says no"},
		"not attached":                   {faults: map[string]int{"attach": 500}, fails: "attach to test/unit…500"},
		"not filled":                     {faults: map[string]int{"archive": 500}, fails: "fill the workspace of test/unit…the Engine says no"},
		"not awaited":                    {code: 3, faults: map[string]int{"wait": 500}, fails: "run test/unit…the Engine says no"},
		"not explained": {code: 3, faults: map[string]int{"json": 500},
			fails: "run test/unit: its end is unknown…the Engine says no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				e := newFakeEngine(t)
				e.program = func(c *fakeContainer) int {
					c.oom = test.oom
					return test.code
				}
				r := e.runner(t, Config{})
				id := "waybill-" + r.worker.id + "-3-1-step"
				for end, status := range test.faults {
					for _, call := range []string{"POST /containers/" + id + "/", "POST /containers/", "PUT /containers/" + id + "/",
						"GET /containers/" + id + "/"} {
						e.faults[call+end] = refused(status)
					}
				}
				exit, err := r.Run(
					t.Context(),
					runOf(t, func(s *build.PlanStep) { s.Spec.Limits.Memory = test.limit }),
					&log{},
				)
				if test.fails == "" && (err != nil || exit != test.want) {
					t.Errorf("%+v, %v", exit, err)
				}
				for part := range strings.SplitSeq(test.fails, "…") {
					if part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
						t.Errorf("%v, want %s", err, test.fails)
					}
				}
				if _, ofStep := errors.AsType[*build.StepError](err); ofStep != test.ofStep {
					t.Errorf("the step's fault: %t: %v", ofStep, err)
				}
				r.removals.Wait()
				if len(e.containers) != 0 {
					t.Error("the container is left")
				}
			})
		})
	}
}

// TestACanceledStepIsEnded: by SIGTERM, and by SIGKILL after the grace.
func TestACanceledStepIsEnded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		obeys   bool
		signals []string
		after   time.Duration
	}{
		"it obeys":      {true, []string{"SIGTERM"}, 0},
		"it is blocked": {false, []string{"SIGTERM", "SIGKILL"}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				e := newFakeEngine(t)
				var signals []string
				ctx, cancel := contextWithCause(t)
				e.program = func(c *fakeContainer) int {
					c.print(1, "begun\n")
					for s := range c.signals {
						if signals = append(signals, s); s == "SIGKILL" || test.obeys {
							break
						}
					}
					c.print(1, "ended\n")
					return 143
				}
				e.kept = archiveOf(t, map[string]string{"out.txt": "made"})
				sink := log{got: func() { // so the answer to the start has come
					cancel(build.Ending{Reason: "its time is over", Fault: build.Timeout})
				}}
				began := time.Now()
				exit, err := e.runner(t, Config{Grace: 30 * time.Second}).Run(ctx, runOf(t, func(s *build.PlanStep) {
					s.Artifacts = []build.ArtifactRule{{Path: "out.txt", When: build.Fail}}
				}), &sink)
				if err != nil || exit.Code != 143 || time.Since(began) != test.after {
					t.Errorf("%+v, %v after %s", exit, err, time.Since(began))
				}
				if diff := cmp.Diff([][]string{test.signals, {"begun", "ended"}}, [][]string{signals, sink.lines}); diff != "" {
					t.Error(diff)
				}
				if sink.kept["out.txt"] != "made" {
					t.Errorf("kept are %q", sink.kept)
				}
			})
		})
	}
}

// TestALogThatCannotBeWrittenEndsTheStep: further output would be lost.
func TestALogThatCannotBeWrittenEndsTheStep(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		full, e := errors.New("the disk is full"), newFakeEngine(t)
		e.program = func(c *fakeContainer) int {
			c.print(1, "one\n")
			<-c.signals
			return 143
		}
		if _, err := e.runner(t, Config{Grace: time.Minute}).Run(t.Context(), runOf(t, nil), &log{refuses: full}); !errors.Is(
			err,
			full,
		) {
			t.Error(err)
		}
	})
}

// TestOutputThatIsCutIsReadFromTheLog: each line once, wherever the connection breaks, and also when the log cannot be read at first.
func TestOutputThatIsCutIsReadFromTheLog(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cut   int // after so many lines
		fails int // how often the log is not given
	}{"at once": {0, 0}, "after a line": {1, 0}, "after all": {4, 0}, "and the log is late": {2, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				e := newFakeEngine(t)
				e.program = func(c *fakeContainer) int {
					for i, line := range []string{"one\n", "two\n", "three\n", "four\n"} {
						if i == test.cut {
							c.cut()
						}
						c.print(byte(1+i%2), line)
					}
					c.cut()
					<-time.After(3 * settle) // of the bubble: the container outlives its output
					c.print(1, "five\n")
					return 0
				}
				r, sink := e.runner(t, Config{}), &log{}
				left := test.fails
				e.faults["GET /containers/waybill-"+r.worker.id+"-3-1-step/logs"] = func(http.ResponseWriter, *http.Request) bool {
					if left == 0 {
						return false
					}
					left--
					panic(http.ErrAbortHandler) // the way to cut the connection
				}
				if exit, err := r.Run(t.Context(), runOf(t, nil), sink); err != nil || exit.Code != 0 {
					t.Fatal(exit, err)
				}
				var got [2][]string
				for _, line := range sink.lines {
					i := 0
					if strings.HasPrefix(line, "e:") {
						i = 1
					}
					got[i] = append(got[i], line)
				}
				if diff := cmp.Diff([2][]string{{"one", "three", "five"}, {"e:two", "e:four"}}, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestCommandsWithPasswordsAreAFile: arguments are shown to all users of the Engine.
func TestCommandsWithPasswordsAreAFile(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		e := newFakeEngine(t)
		e.images["shop:1"] = "app:app"
		var made *fakeContainer
		e.program = func(c *fakeContainer) int {
			made = c
			return 0
		}
		if _, err := e.runner(t, Config{}).Run(t.Context(), runOf(t, func(s *build.PlanStep) {
			s.Spec.Secret, s.Spec.Argv = true, []string{"sh", "-c", "login --password s3cret"}
		}), &log{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"sh", "/mnt/waybill-commands"}, append(made.made.Entrypoint, made.made.Cmd...)); diff != "" {
			t.Error(diff)
		}
		want := map[string]string{
			"/mnt repo/":            "777 ",
			"/mnt repo/file":        "666 content",
			"/mnt waybill-commands": "444 login --password s3cret",
		}
		if diff := cmp.Diff(want, made.files); diff != "" { // the image's user is not root, so files can be written by all
			t.Error(diff)
		}
	})
}

// TestAContainerWhoseAnswerWasLostIsTaken: a second one would run the step twice.
func TestAContainerWhoseAnswerWasLostIsTaken(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		e, lost := newFakeEngine(t), false
		e.faults["POST /containers/create"] = func(_ http.ResponseWriter, r *http.Request) bool {
			if lost {
				return false
			}
			lost = true
			e.create(discard{}, r)
			panic(http.ErrAbortHandler) // the way to cut the connection
		}
		starts := 0
		e.program = func(*fakeContainer) int {
			starts++
			return 0
		}
		if exit, err := e.runner(t, Config{}).Run(t.Context(), runOf(t, nil), &log{}); err != nil || exit.Code != 0 ||
			starts != 1 {
			t.Errorf("%+v, %v, %d starts", exit, err, starts)
		}
	})
}
