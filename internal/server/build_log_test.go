package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// TestACutLogIsResumed breaks the connection after every two events of a log of two steps.
func TestACutLogIsResumed(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	store, err := results.Create(filepath.Join(w.Builds, "7.1"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	plan := &build.Plan{File: ".wharf-ci.yml", Steps: []build.PlanStep{{ID: 1, Stage: "s", Name: "a"}, {ID: 2, Stage: "s", Name: "b"}}}
	if err := store.Describe(results.Build{ID: "7.1", Plan: plan}); err != nil {
		t.Fatal(err)
	}
	var want []string
	for id := 1; id <= 2; id++ {
		log, err := store.Log(id)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 5 {
			if err := log.Append(build.Entry{At: time.Now(), Text: fmt.Appendf(nil, "line %d\x1b[2J\xff", n)}); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("%s %d line %d\x1b[2J\ufffd", plan.Steps[id-1].Path(), n+1, n))
		}
		if _, err := store.Update(id, build.Update{Status: build.Completed, Timestamp: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	for _, status := range []build.Status{build.Running, build.Completed} {
		if _, err := store.Update(0, build.Update{Status: status, Timestamp: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	api := server.New(w.Service, server.Options{Token: homeToken}).Handler()
	var connections atomic.Int64
	cutting := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		connections.Add(1)
		api.ServeHTTP(&cut{ResponseWriter: rw, left: 2}, r)
	}))
	defer cutting.Close()
	reader, path := client.New(cutting.URL, "", "ana"), operation.BuildPath{ID: "7.1"}
	for _, follow := range []bool{false, true} {
		var got []string
		each := func(l buildview.Line) error {
			got = append(got, fmt.Sprintf("%s %d %s", l.Step, l.ID, l.Text))
			return nil
		}
		read := func() error {
			return operation.EachLine(t.Context(), reader, operation.BuildLogInput{BuildPath: path}, each)
		}
		if follow {
			read = func() error { return reader.FollowBuild(t.Context(), "7.1", "", each) }
		}
		if err := read(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("follow %v: got %q, want %q", follow, got, want)
		}
	}
	if n := connections.Load(); n < 10 {
		t.Errorf("%d connections: the stream was not cut", n)
	}
	if err := operation.EachLine(t.Context(), reader, operation.BuildLogInput{BuildPath: path, Step: "s/c"}, nil); err == nil ||
		!strings.Contains(err.Error(), `has no step "s/c"`) {
		t.Errorf("an unknown step: %v", err)
	}
}

// cut ends an answer after a number of events.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), "id:") {
		if c.left == 0 {
			return 0, errors.New("cut")
		}
		c.left--
	}
	return c.ResponseWriter.Write(p)
}

func (c *cut) Unwrap() http.ResponseWriter { return c.ResponseWriter }
