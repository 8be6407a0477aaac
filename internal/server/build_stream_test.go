package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

func readFile(path string) (string, error) {
	text, err := os.ReadFile(path)
	return string(text), err
}

// streamEvent is one event of a stream.
type streamEvent struct{ id, kind, data string }

// events reads a stream of a build after an event, and gives each event to visit until that returns false or the stream breaks.
func events(ctx context.Context, t *testing.T, url, after string, visit func(streamEvent) bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", bearer)
	r.Header.Set("Last-Event-ID", after)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var e streamEvent
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "":
			if e.kind != "" && !visit(e) {
				return
			}
			e = streamEvent{}
		}
	}
}

// TestAStreamIsCutAndResumed breaks the connection after every three events, while the build runs.
func TestAStreamIsCutAndResumed(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	b := servertest.NewBuild(t, w.Builds, "7", servertest.BuildPlan("a/one", "a/two", "b/three"))
	b.Status(0, build.Running, "")
	b.Status(1, build.Running, "")
	b.Print(1, "one 1", "one 2")
	api := server.New(w.Service, server.Options{Token: homeToken}).Handler()
	cutting := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(&cut{ResponseWriter: rw, left: 3}, r)
	}))
	defer cutting.Close()
	var got []string
	after, connections := "", 0
	advance := map[int]func(){
		3: func() { b.Run(2, build.Completed, "two 1", "two 2", "two 3"); b.Print(1, "one 3") },
		8: func() {
			b.Artifact(1, "a.txt", "x")
			b.Status(1, build.Completed, "")
			b.Run(3, build.Failed, "three 1")
			b.Status(0, build.Failed, "b/three failed")
		},
	}
	for ended := false; !ended; connections++ {
		events(t.Context(), t, cutting.URL+"/api/build/7/stream", after, func(e streamEvent) bool {
			after = e.id
			got = append(got, e.kind+" "+summaryOf(e.data))
			if do := advance[len(got)]; do != nil {
				do()
			}
			ended = e.kind == "end"
			return !ended
		})
	}
	count := map[string]int{}
	for _, e := range got {
		count[e]++
	}
	want := []string{"log 1 one 1", "log 1 one 2", "log 1 one 3", "log 2 two 1", "log 2 two 2", "log 2 two 3",
		"log 3 three 1", "artifact a.txt",
		"status 0 Running", "status 1 Running", "status 2 Running", "status 2 Completed", "status 1 Completed",
		"status 3 Running", "status 3 Failed", "status 0 Failed", "end Failed"}
	for _, e := range want {
		if count[e] != 1 {
			t.Errorf("%s came %d times", e, count[e])
		}
	}
	if len(got) != len(want) || connections < 5 {
		t.Errorf("%d events over %d connections: %q", len(got), connections, got)
	}
	if slices.Index(got, "log 2 two 3") > slices.Index(got, "status 2 Completed") {
		t.Errorf("a step ended before its log: %q", got)
	}
}

// TestTheLogsOfManyRunningStepsAreFollowed, of those whose turn comes late too.
func TestTheLogsOfManyRunningStepsAreFollowed(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	const steps = 200
	paths := make([]string, steps)
	for i := range paths {
		paths[i] = fmt.Sprintf("a/step%d", i+1)
	}
	b := servertest.NewBuild(t, s.Builds, "7", servertest.BuildPlan(paths...))
	b.Status(0, build.Running, "")
	for step := 1; step <= steps; step++ {
		b.Status(step, build.Running, "")
		b.Print(step, "first")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	got := map[string]int{}
	events(ctx, t, s.URL+"/api/build/7/stream", "", func(e streamEvent) bool {
		if e.kind != "log" {
			return true
		}
		if got[summaryOf(e.data)]++; len(got) == steps { // all were read up to their ends
			b.Print(steps, "second")
		}
		return len(got) <= steps
	})
	for step := 1; step <= steps; step++ {
		if n := got[fmt.Sprintf("%d first", step)]; n != 1 {
			t.Fatalf("the line of step %d came %d times", step, n)
		}
	}
}

// TestABuildWhoseStepsHaveGapsIsFollowed: another build engine reports the log of step 1000 before any status, and then begins step 3.
func TestABuildWhoseStepsHaveGapsIsFollowed(t *testing.T) {
	t.Parallel()
	s := serveProjects(t, servertest.Start(t), service.Projects{})
	stored := s.Ledger.Builds
	b, err := stored.Create(t.Context(), builds.Build{Project: "shop", Engine: "jenkins"})
	if err != nil {
		t.Fatal(err)
	}
	status := func(step int, to build.Status) {
		t.Helper()
		if _, err := stored.ReportStatus(t.Context(), b.ID, builds.ReportedStep{ID: step}, builds.Event{Status: to}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stored.ReportLog(t.Context(), b.ID, []build.Line{{Step: 1000, ID: 1, Entry: build.Entry{Text: []byte("one")}}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var got []string
	after := ""
	for len(got) < 5 && ctx.Err() == nil {
		events(ctx, t, fmt.Sprintf("%s/api/build/%d/stream", s.URL, b.ID), after, func(e streamEvent) bool {
			if got, after = append(got, e.kind+" "+summaryOf(e.data)), e.id; len(got) == 1 {
				status(3, build.Running)
				status(0, build.Failed)
			}
			return len(got) != 1 // the stream is cut after the first event
		})
	}
	want := []string{"log 1000 one", "status 3 Running", "status 3 Failed", "status 1000 Failed", "status 0 Failed", "end Failed"}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// summaryOf returns the fields of an event's data that tests compare.
func summaryOf(data string) string {
	var fields []string
	for _, name := range []string{"stepId", "status", "message", "name"} {
		if _, rest, ok := strings.Cut(data, fmt.Sprintf("%q:", name)); ok && !(name == "stepId" && strings.Contains(data, "artifactId")) {
			end := strings.IndexAny(rest, ",}")
			fields = append(fields, strings.Trim(rest[:end], `"`))
		}
	}
	return strings.Join(fields, " ")
}
