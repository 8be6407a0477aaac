package docker

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/build"
)

func TestWhenImagesArePulled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pull   Pull
		image  string
		pulls  int
		fails  string
		ofStep bool
	}{
		"missing, and there":     {PullMissing, "shop:1", 0, "", false},
		"missing, and not there": {PullMissing, "other:1", 1, "", false},
		"always, and there":      {PullAlways, "shop:1", 1, "", false},
		"always, and not there":  {PullAlways, "other:1", 1, "", false},
		"never, and there":       {PullNever, "shop:1", 0, "", false},
		"never, and not there":   {PullNever, "other:1", 0, "--pull never forbids", true},
		"of no name":             {PullMissing, "other:1:2", 0, "invalid reference", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				e := newFakeEngine(t)
				r := e.runner(t, Config{Pull: test.pull})
				_, err := r.image(t.Context(), test.image, &log{})
				if got := e.called("/images/create"); got != test.pulls {
					t.Errorf("%d pulls, want %d", got, test.pulls)
				}
				if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
					t.Errorf("%v, want %s", err, test.fails)
				}
				if _, ofStep := errors.AsType[*build.StepError](err); ofStep != test.ofStep {
					t.Errorf("the step's fault: %t", ofStep)
				}
			})
		})
	}
}

// TestAPullIsNoted: at its beginning and end, and every few seconds.
func TestAPullIsNoted(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		e, sink := newFakeEngine(t), &log{}
		e.faults["POST /images/create"] = func(w http.ResponseWriter, _ *http.Request) bool {
			for i := range 12 {
				_, _ = fmt.Fprintf(
					w,
					`{"id": "a", "status": "Downloading", "progressDetail": {"current": %d, "total": 12582912}}`+"\n",
					i<<20,
				)
				_ = http.NewResponseController(w).Flush()
				<-time.After(time.Second) // of the bubble
			}
			e.images["other:1"] = "ana:staff"
			return true
		}
		found, err := e.runner(t, Config{}).image(t.Context(), "other:1", sink)
		if err != nil || found.user != "ana" {
			t.Errorf("%+v, %v", found, err)
		}
		want := []string{
			"pull other:1",
			"pull other:1  5.0 MiB of 12 MiB",
			"pull other:1  10 MiB of 12 MiB",
			"pulled other:1 in 12s",
		}
		if diff := cmp.Diff(want, sink.notes); diff != "" {
			t.Error(diff)
		}
	})
}

// TestAPullThatFails: in its answer, or in the middle of its messages; a pull that was cut is not a pull.
func TestAPullThatFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		text   string
		ofStep bool
	}{
		"unknown":   {404, `{"message": "manifest unknown"}`, true},
		"forbidden": {403, `{"message": "no"}`, true},
		"broken":    {500, `{"message": "registry is away"}`, false},
		"in its messages": {200,
			`{"status": "Pulling"}` + "\n" + `{"errorDetail": {"message": "unexpected EOF"}, "error": "unexpected EOF"}` + "\n", false},
		"unlike JSON": {200, `{"status": "Pulling"}` + "\n<html>", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				e := newFakeEngine(t)
				e.faults["POST /images/create"] = func(w http.ResponseWriter, _ *http.Request) bool {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(test.status)
					_, _ = io.WriteString(w, test.text)
					return true
				}
				_, err := e.runner(t, Config{}).image(t.Context(), "other:1", &log{})
				_, ofStep := errors.AsType[*build.StepError](err)
				if err == nil || ofStep != test.ofStep || !strings.Contains(err.Error(), "other:1") {
					t.Errorf("the step's fault: %t: %v", ofStep, err)
				}
				if err := e.Pull(t.Context(), "other:1"); err == nil ||
					!strings.Contains(err.Error(), "pull image other:1: ") {
					t.Errorf("Pull: %v", err)
				}
			})
		})
	}
}

// TestStepsThatWantOneImagePullItOnce: the second one finds it, and one that wants another image does not wait.
func TestStepsThatWantOneImagePullItOnce(t *testing.T) {
	t.Parallel()
	e, begun, release := newFakeEngine(t), make(chan struct{}, 3), make(chan struct{})
	e.faults["POST /images/create"] = func(http.ResponseWriter, *http.Request) bool {
		begun <- struct{}{}
		<-release
		return false
	}
	r := e.runner(t, Config{})
	var steps sync.WaitGroup
	for range 3 {
		steps.Go(func() {
			if _, err := r.image(t.Context(), "other:1", &log{}); err != nil {
				t.Error(err)
			}
		})
	}
	<-begun
	if _, err := r.image(t.Context(), "shop:1", &log{}); err != nil {
		t.Error(err)
	}
	close(release)
	steps.Wait()
	if got := e.called("/images/create"); got != 1 {
		t.Errorf("%d pulls", got)
	}
}

func TestAPreviewPullsNothing(t *testing.T) {
	t.Parallel()
	steps := []build.PlanStep{
		{Spec: build.Spec{Image: "shop:1", OS: "linux", Services: []build.Service{{Image: "db:1"}}}},
		{Spec: build.Spec{Image: "db:1", OS: "linux"}},
	}
	for pull, want := range map[Pull][]string{
		PullMissing: {"image shop:1 is in the Engine", "image db:1 would be pulled"},
		PullAlways:  {"image shop:1 is in the Engine, and its registry would be asked for a newer one", "image db:1 would be pulled"},
		PullNever:   {"image shop:1 is in the Engine"},
	} {
		bubbletest.Test(t, func(t *testing.T) {
			e := newFakeEngine(t)
			remarks, problems := Preview(t.Context(), e.Engine, Config{Pull: pull}, steps)
			if diff := cmp.Diff(want, remarks); diff != "" {
				t.Errorf("%s: %s", pull, diff)
			}
			if (problems.Err() != nil) != (pull == PullNever) || len(e.calls) != 0 {
				t.Errorf("%s: %v, calls %q", pull, problems.Err(), e.calls)
			}
		})
	}
}

func TestWhatAnEngineCannotRunIsListed(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		r := newFakeEngine(t).runner(t, Config{Clusters: map[string][]byte{"dev": []byte("x")}})
		_, problems := Preview(t.Context(), r.engine, r.Config, []build.PlanStep{
			{
				Stage: "a",
				Name:  "fits",
				Spec: build.Spec{
					Image:  "shop:1",
					OS:     "linux",
					Mounts: []build.Mount{{Variable: build.KubeconfigVariable, Object: "dev"}},
				},
			},
			{Stage: "a", Name: "windows", Spec: build.Spec{Image: "shop:1", OS: "windows"}},
			{
				Stage: "a",
				Name:  "account",
				Type:  "container",
				Spec:  build.Spec{Image: "shop:1", OS: "linux", Token: true},
			},
			{
				Stage: "a",
				Name:  "image",
				Spec:  build.Spec{Image: "Shop:1", OS: "linux", Services: []build.Service{{Image: ""}}},
			},
			{
				Stage: "a",
				Name:  "mounts",
				Spec: build.Spec{
					Image: "shop:1",
					OS:    "linux",
					Mounts: []build.Mount{
						{Variable: build.KubeconfigVariable, Object: "prod"},
						{Object: build.CertificatesObject},
					},
				},
			},
		})
		var got []string
		for _, p := range problems {
			got = append(got, p.Scope+" "+p.Code)
		}
		slices.Sort(got)
		want := []string{
			"a/account cluster-only",
			"a/image image-invalid",
			"a/image image-invalid",
			"a/mounts certificates-missing",
			"a/mounts cluster-missing",
			"a/windows os-unfit",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestAnImageThatAStepMadeIsLoaded: and looked for under its names, as an Engine may answer that it has loaded it although it has not.
func TestAnImageThatAStepMadeIsLoaded(t *testing.T) {
	t.Parallel()
	for name, names := range map[string][]string{"loaded": {"made:1"}, "not loaded": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				e, sink := newFakeEngine(t), &log{}
				e.kept = archiveOf(t, nil)
				e.faults["POST /images/load"] = func(_ http.ResponseWriter, r *http.Request) bool {
					_, _ = io.Copy(io.Discard, r.Body)
					for _, image := range names {
						e.images[image] = ""
					}
					return true
				}
				_, err := e.runner(t, Config{}).Run(t.Context(), runOf(t, func(s *build.PlanStep) {
					s.Spec.Build = &build.ImageBuild{Destinations: []string{"made:1"}}
				}), sink)
				if (err == nil) != (len(names) > 0) ||
					err != nil &&
						!strings.Contains(
							err.Error(),
							"load the image of test/unit into the Engine: look up image made:1",
						) {
					t.Error(err)
				}
				if got := strings.Join(sink.notes, ", "); strings.Contains(
					got,
					"image made:1 is in the Engine",
				) != (err == nil) {
					t.Errorf("noted %q", got)
				}
			})
		})
	}
}

// table returns a kernel's table of sockets with programs that listen at ports.
func table(ports ...int) string {
	text := "  sl  local_address rem_address   st\n"
	for i, port := range ports {
		text += fmt.Sprintf("   %d: 00000000:%04X 00000000:0000 0A\n", i, port)
	}
	return text
}

// exec answers the requests by which a program runs in a container: it prints a table, and ends with a status.
func (e *fakeEngine) exec(of string, print func() string, status int) {
	e.faults["POST /containers/"+of+"/exec"] = func(w http.ResponseWriter, _ *http.Request) bool {
		answer(w, 201, map[string]string{"Id": "x"})
		return true
	}
	e.faults["POST /exec/x/start"] = func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body) // the client writes it before it reads
		c := &fakeContainer{}
		attach(w, r, c)
		c.print(1, print())
		c.cut()
		return true
	}
	e.faults["GET /exec/x/json"] = func(w http.ResponseWriter, _ *http.Request) bool {
		answer(w, 200, map[string]int{"ExitCode": status})
		return true
	}
}

func TestAStepWaitsForItsServices(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		listens time.Duration // when the service does; 0: never
		ends    time.Duration // time of its automatic end; 0: never
		noCat   bool
		fails   string
		after   time.Duration
		note    string
	}{
		"ready":                  {listens: 3 * time.Second, after: 3 * time.Second, note: "service db is ready after 3"},
		"ready, and without cat": {listens: time.Millisecond, noCat: true, note: "service db is ready after 0s"},
		"never ready":            {fails: "service db did not listen at port 81 within 10s:\ndb | starting", after: 10 * time.Second},
		"ended": {ends: 2 * time.Second,
			fails: "service db ended with exit status 9 before it was ready:\ndb | starting", after: 2 * time.Second},
		"ended during the step": {listens: time.Millisecond, ends: 20 * time.Second,
			note: "service db ended before the step did, exit status 9", after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				e, began := newFakeEngine(t), time.Now()
				e.program = func(c *fakeContainer) int {
					switch {
					case len(c.made.Cmd) > 0 && strings.Contains(c.made.Cmd[1], "/proc/net/tcp"): // the shell of the step's image
						c.print(1, table(80, 81))
						return 0
					case c.made.Image == "shop:1":
						if test.ends > 0 && test.fails == "" {
							<-time.After(time.Minute) // of the bubble
						}
						return 0
					}
					c.print(1, "starting\n")
					if test.ends == 0 {
						<-c.signals
						return 137
					}
					select {
					case <-time.After(test.ends):
						return 9
					case <-c.signals:
						return 137
					}
				}
				e.images["db:1"] = ""
				r, sink := e.runner(t, Config{}), &log{}
				status := 0
				if test.noCat {
					status = 127
				}
				e.exec("waybill-"+r.worker.id+"-3-1-service-0", func() string {
					if test.listens > 0 && time.Since(began) >= test.listens && !test.noCat {
						return table(80, 81)
					}
					return table(80)
				}, status)
				_, err := r.Run(t.Context(), runOf(t, func(s *build.PlanStep) {
					s.Spec.Services = []build.Service{
						{Name: "db", Image: "db:1", Ports: []int{80, 81}, Ready: 10 * time.Second},
					}
				}), sink)
				if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
					t.Errorf("%v, want %s", err, test.fails)
				}
				if _, ofStep := errors.AsType[*build.StepError](err); ofStep != (err != nil) {
					t.Errorf("the step's fault: %t", ofStep)
				}
				if took := time.Since(began); took < test.after || took > test.after+3*settle {
					t.Errorf("after %s, want %s", took, test.after)
				}
				if got := strings.Join(sink.notes, ", "); !strings.Contains(got, test.note) {
					t.Errorf("noted %q, want %q", got, test.note)
				}
				r.removals.Wait()
				synctest.Wait()
				if len(e.containers)+len(e.others["networks"]) != 0 {
					t.Errorf("%d containers and %d networks are left", len(e.containers), len(e.others["networks"]))
				}
			})
		})
	}
}
