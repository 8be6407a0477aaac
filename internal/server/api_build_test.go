package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// hostile is text as a program prints it that wants to take over a terminal or a page.
const hostile = "ok \x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J\u009b5n\u202eevil <script>alert(1)</script>\xff"

// failed makes an ended build: lint/vet completed, test/unit failed, and image/shop was skipped.
func failed(t *testing.T, builds, id string) *servertest.Build {
	t.Helper()
	b := servertest.NewBuild(t, builds, id, servertest.BuildPlan("lint/vet", "test/unit", "image/shop"))
	b.Status(0, build.Running, "")
	b.Run(1, build.Completed, "vet is happy", "bye")
	b.Status(2, build.Running, "")
	b.Append(2, build.Entry{Text: []byte("one")}, build.Entry{Text: []byte(hostile), Marks: build.Marks{Stderr: true}},
		build.Entry{Text: []byte("a line "), Marks: build.Marks{Partial: true}}, build.Entry{Text: []byte("in two parts")},
		build.Entry{Text: []byte("retried"), Marks: build.Marks{Waybill: true}})
	b.Artifact(2, "../out/<b>report</b>\u202e.html", "<script>alert(1)</script>")
	b.Tests(2, testresult.Result{Suite: "cart", Name: "Sum", Outcome: testresult.Failed, Message: "got 12, want 15\u202e",
		File: "cart_test.go", Line: 41},
		testresult.Result{Suite: "cart", Name: "Add", Outcome: testresult.Passed})
	b.Status(2, build.Failed, "exit status 1")
	b.Status(3, build.Skipped, "test/unit failed")
	b.Status(0, build.Failed, "test/unit failed")
	b.Kill()
	return b
}

// get requests a path and decodes the answer.
func get[T any](t *testing.T, s *testServer, path string) (answer T) {
	t.Helper()
	status, text, _ := s.ask(t, http.MethodGet, path, "", "Authorization", bearer)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, status, text)
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("GET %s: %v in %s", path, err, text)
	}
	return answer
}

func TestABuildIsServedWithItsStepsAndTests(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	failed(t, s.Builds, "7")
	view := get[operation.BuildView](t, s, "/api/build/7")
	if view.Status != build.Failed || view.StatusID != 3 || view.Reason != "test/unit failed" || view.Tests != nil || len(view.Steps) != 3 {
		t.Errorf("%+v", view)
	}
	if diff := cmp.Diff([]buildview.Param{{Name: "level", Value: "debug"}, {Name: "token", Value: "***"}}, view.Params); diff != "" {
		t.Error(diff)
	}
	steps := get[[]buildview.StepView](t, s, "/api/build/7/step")
	unit := steps[1]
	if unit.Path() != "test/unit" || *unit.ExitCode != 1 || unit.LogEntries != 5 || unit.Tests.Failed != 1 ||
		unit.FinishedOn.Sub(unit.StartedOn) != 12*time.Second {
		t.Errorf("%+v", unit)
	}
	tests := get[[]buildview.Test](t, s, "/api/build/7/test-result/detail?outcome=failed")
	if len(tests) != 1 || tests[0].StepID != 2 || tests[0].File != "cart_test.go" || tests[0].Line != 41 {
		t.Errorf("%+v", tests)
	}
	if counts := get[testresult.Counts](t, s, "/api/build/7/test-result/list-summary"); counts.Tests != 2 || counts.Failed != 1 {
		t.Errorf("%+v", counts)
	}
	if files := get[[]buildview.TestSummary](t, s, "/api/build/7/test-result/summary"); len(files) != 1 ||
		files[0].Name != "out/unit.xml" || files[0].Failed != 1 {
		t.Errorf("%+v", files)
	}
	if artifacts := get[[]buildview.Artifact](t, s, "/api/build/7/artifact?step=test/unit"); len(artifacts) != 1 || artifacts[0].StepID != 2 {
		t.Errorf("%+v", artifacts)
	}
}

func TestAStepThatWaitsSaysForWhat(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	b := servertest.NewBuild(t, s.Builds, "8", servertest.BuildPlan("a/one", "a/two", "b/three"))
	b.Status(0, build.Running, "")
	b.Status(1, build.Running, "")
	b.Run(2, build.Completed)
	steps := get[[]buildview.StepView](t, s, "/api/build/8/step")
	if got := steps[2].Waits; got != "waits for a/one" {
		t.Errorf("b/three %q", got)
	}
	b.Status(1, build.Completed, "")
	if got := get[[]buildview.StepView](t, s, "/api/build/8/step")[2].Waits; got != "waits for its turn" {
		t.Errorf("b/three %q", got)
	}
	b.Kill()
	view := get[operation.BuildView](t, s, "/api/build/8")
	if view.Status != build.Lost || view.StatusID != 3 || view.Steps[2].Waits != "" {
		t.Errorf("after its worker died: %s, %q", view.Status, view.Steps[2].Waits)
	}
}

func TestBuildsAreListedInPagesAndFiltered(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	for i := range 7 {
		failed(t, s.Builds, fmt.Sprintf("%d", i))
	}
	servertest.NewBuild(t, s.Builds, "running", servertest.BuildPlan("a/one")).Status(0, build.Running, "")
	var seen []string
	for after := ""; ; {
		page := get[buildview.List](t, s, "/api/build?limit=3&status=Failed&after="+after)
		for _, b := range page.Builds {
			seen = append(seen, b.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(seen) != 7 {
		t.Errorf("pages have %v", seen)
	}
	for query, want := range map[string]int{"status=Running": 1, "status=running": 1, "q=RUNNING": 1, "commit=3f9c": 8,
		"commit=9": 0, "stage=image": 7, "q=debug": 8, "q=***": 0, "pipeline=none": 0} {
		if page := get[buildview.List](t, s, "/api/build?"+query); len(page.Builds) != want {
			t.Errorf("%s: %d builds, want %d", query, len(page.Builds), want)
		}
	}
}

func TestABuildOfADeploymentNamesIt(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	s.Apply(t, servertest.Definition)
	s.Script.Hold("build build-completed")
	ref := s.Ship(t, "greeter", "3f2c9a1")
	view := s.Until(t, ref, "builds", func(v service.DeploymentView) bool { return v.State.Live == 1 })
	id := view.Stages[0].Steps[0].Action
	failed(t, s.Builds, id.String()+".1")
	failed(t, s.Builds, action.DerivedID(time.Unix(1, 0), "another").String()+".1")
	page := get[buildview.List](t, s, "/api/build?pipeline=greeter")
	if len(page.Builds) != 1 || page.Builds[0].Deployment != ref.Number || page.Builds[0].Action != id.String() ||
		page.Builds[0].Subject != "Greet the world, part 3f2c9a1" {
		t.Errorf("%+v", page)
	}
	if page := get[buildview.List](t, s, "/api/build?branch=topic/greet"); len(page.Builds) != 1 || page.Builds[0].Branch != "topic/greet" {
		t.Errorf("%+v", page)
	}
	if page := get[buildview.List](t, s, "/api/build?action="+id.String()); len(page.Builds) != 1 {
		t.Errorf("%+v", page)
	}
	s.Script.Release("build build-completed")
	s.Until(t, ref, "ends", servertest.Ended)
}

func TestALogIsReadInRangesOfEntriesAndTimes(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	b := servertest.NewBuild(t, s.Builds, "7", servertest.BuildPlan("a/one", "a/two"))
	b.Status(0, build.Running, "")
	began := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for step := 1; step <= 2; step++ {
		b.Status(step, build.Running, "")
		for first := 0; first < 5000; first += 1000 {
			var entries []build.Entry
			for n := first + 1; n <= first+1000; n++ {
				entries = append(entries, build.Entry{At: began.Add(time.Duration(n) * time.Second), Text: fmt.Appendf(nil, "line %d", n)})
			}
			b.Append(step, entries...)
		}
	}
	b.Status(2, build.Completed, "") // one step with a trailer and one without
	for _, c := range []struct{ query, first, last string }{
		{"step=1&after=0&limit=2", "1:1", "1:2"},
		{"step=1&after=4000&limit=1", "1:4001", "1:4001"},
		{"step=2&after=4998", "2:4999", "2:5000"},
		{"step=2&after=10", "2:11", "2:1010"},
		{"step=2&tail=3", "2:4998", "2:5000"},
		{"step=1&tail=3", "1:4998", "1:5000"},
		{"after=1:4999&limit=3", "1:5000", "2:2"},
		{"step=a/two&since=2026-01-02T00:50:00Z&limit=1", "2:3000", "2:3000"},
		{"step=1&since=2026-01-02T00:50:00Z&before=2026-01-02T00:50:02Z", "1:3000", "1:3001"},
		{"step=1&before=2026-01-02T00:50:00Z&tail=2", "1:2998", "1:2999"},
		{"step=2&after=7000", "", ""},
	} {
		entries := get[[]buildview.LogEntry](t, s, "/api/build/7/log?"+c.query)
		first, last := "", ""
		if n := len(entries); n > 0 {
			first, last = fmt.Sprintf("%d:%d", entries[0].StepID, entries[0].ID), fmt.Sprintf("%d:%d", entries[n-1].StepID, entries[n-1].ID)
			if entries[0].Message != fmt.Sprintf("line %d", entries[0].ID) {
				t.Errorf("%s: %+v", c.query, entries[0])
			}
		}
		if first != c.first || last != c.last {
			t.Errorf("%s: %s to %s, want %s to %s", c.query, first, last, c.first, c.last)
		}
	}
	_, _, header := s.ask(t, http.MethodGet, "/api/build/7/log?step=2&limit=2", "", "Authorization", bearer)
	if want := `</api/build/7/log?after=2%3A2&limit=2&step=2>; rel="next"`; header.Get("Link") != want {
		t.Errorf("Link %s, want %s", header.Get("Link"), want)
	}
}

func TestForeignTextNeverControls(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	failed(t, s.Builds, "7")
	_, text, header := s.ask(t, http.MethodGet, "/api/build/7/log?step=test/unit", "", "Authorization", bearer, "Accept", "text/plain")
	want := "one\nok redevil <script>alert(1)</script>\ufffd\na line in two parts\nretried\n"
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
	if header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%v", header)
	}
	_, text, _ = s.ask(t, http.MethodGet, "/api/build/7/log?step=2", "", "Authorization", bearer)
	if strings.ContainsAny(text, "\x1b\u009b\u202e\x07") || !strings.Contains(text, `\u009b5n\u202e`) {
		t.Errorf("JSON has what a terminal obeys: %q", text)
	}
	var entries []buildview.LogEntry
	if err := json.Unmarshal([]byte(text), &entries); err != nil ||
		entries[1].Message != strings.ToValidUTF8(hostile, "\ufffd") || entries[2].LineEnding != "" || entries[4].Stream != "waybill" {
		t.Errorf("%v: %+v", err, entries)
	}
	for path, want := range map[string]int{"artifact": 200, "test-result": 200, "log?step=%C2%9B31m%E2%80%AE": 404} {
		if status, text, _ := s.ask(t, http.MethodGet, "/api/build/7/"+path, "", "Authorization", bearer); status != want ||
			strings.ContainsAny(text, "\x1b\u009b\u202e\x07") || !strings.Contains(text, `\u202e`) {
			t.Errorf("%s: %d, and JSON has what a terminal obeys: %q", path, status, text)
		}
	}
	status, text, header := s.ask(t, http.MethodGet, "/api/build/7/artifact/1", "", "Authorization", bearer, "Range", "bytes=0-6")
	if status != http.StatusPartialContent || text != "<script" || header.Get("Content-Type") != "application/octet-stream" ||
		header.Get("Content-Disposition") != "attachment; filename=b____.html" &&
			!strings.HasPrefix(header.Get("Content-Disposition"), "attachment; filename=") ||
		header.Get("X-Content-Type-Options") != "nosniff" || header.Get("ETag") == "" {
		t.Errorf("%d %q %v", status, text, header)
	}
	if name := header.Get("Content-Disposition"); strings.ContainsAny(name, "<>/\\\"") {
		t.Errorf("a file is saved as %s", name)
	}
}

func TestRawIsTheFile(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	b := failed(t, s.Builds, "7")
	reader, err := results.Open(b.Dir())
	if err != nil {
		t.Fatal(err)
	}
	want, err := readFile(reader.LogPath(2))
	if err != nil {
		t.Fatal(err)
	}
	_, whole, header := s.ask(t, http.MethodGet, "/api/build/7/log?step=2&raw", "", "Authorization", bearer)
	last, err := reader.Last(2)
	if err != nil || whole != want || header.Get("ETag") != `"`+last.Trailer.SHA256+`"` {
		t.Errorf("%v: %q, want %q; %v", err, whole, want, header)
	}
	for _, from := range []int{0, 1, 40, len(want) - 1} {
		_, part, _ := s.ask(t, http.MethodGet, "/api/build/7/log?step=2&raw", "", "Authorization", bearer, "Range",
			fmt.Sprintf("bytes=%d-", from))
		if part != want[from:] {
			t.Errorf("from byte %d: %q", from, part)
		}
	}
	for _, path := range []string{"log?step=2&raw", "artifact/1"} { // each range would be a read of its own
		if status, _, header := s.ask(t, http.MethodGet, "/api/build/7/"+path, "", "Authorization", bearer, "Range",
			"bytes=0-0,1-1"); status != 200 || header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("several ranges of %s: %d %v", path, status, header)
		}
	}
}

func TestALogIsSearchedFromItsEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	b := servertest.NewBuild(t, s.Builds, "7", servertest.BuildPlan("a/one", "a/two"))
	b.Status(0, build.Running, "")
	for step := 1; step <= 2; step++ {
		b.Status(step, build.Running, "")
		for first := 0; first < 6000; first += 500 {
			var lines []string
			for n := first + 1; n <= first+500; n++ {
				text := "nothing to see"
				if n%1000 == 1 {
					text = "an \x1b[31mERR\x1b[1mor\x1b[0m"
				}
				lines = append(lines, fmt.Sprintf("%-60d%s", n, text))
			}
			b.Print(step, lines...)
		}
	}
	var got []string
	for after := ""; ; {
		found := get[buildview.Matches](t, s, "/api/build/7/log/search?q=ErrOr&limit=4&after="+after)
		for _, m := range found.Matches {
			got = append(got, fmt.Sprintf("%d:%d", m.StepID, m.ID))
			if !strings.HasSuffix(m.Message, "an ERRor") {
				t.Errorf("%q", m.Message)
			}
		}
		if after = found.Next; after == "" {
			break
		}
	}
	want := []string{"2:5001", "2:4001", "2:3001", "2:2001", "2:1001", "2:1", "1:5001", "1:4001", "1:3001", "1:2001", "1:1001", "1:1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBoundsOfBuildRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	failed(t, s.Builds, "7")
	for path, want := range map[string]int{
		"/api/build/8": 404, "/api/build/..%2f7": 404, "/api/build/" + strings.Repeat("9", 200): 400,
		"/api/build/7/artifact/2": 404, "/api/build/7/artifact/x": 404,
		"/api/build/7/log?limit=10001": 400, "/api/build/7/log?tail=-1": 400, "/api/build/7/log?step=none": 404,
		"/api/build/7/log?after=3": 400, "/api/build/7/log?step=1&after=x": 400,
		"/api/build/7/log?since=now": 400, "/api/build/7/log?stp=1": 400, "/api/build/7/log?raw": 400, "/api/build/7/log/search": 400,
		"/api/build/7/log/search?q=" + strings.Repeat("x", 201): 400, "/api/build?limit=501": 400, "/api/build?after=x": 400,
	} {
		status, text, header := s.ask(t, http.MethodGet, path, "", "Authorization", bearer)
		if status != want || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("GET %.80s: %d, want %d: %s", path, status, want, text)
		}
	}
	for _, id := range []string{"x", "1/2/3", "1/2/3/4/5", "1/1/0-99999999/", "1/1//99:1", "1/1//1:-1", "1/1/1-2,2/",
		"1/1/0-1,0-1/", strings.Repeat("1", 70_000)} {
		if status, text, _ := s.ask(t, http.MethodGet, "/api/build/7/stream", "", "Authorization", bearer, "Last-Event-ID", id); status != 400 {
			t.Errorf("Last-Event-ID %.40s: %d %s", id, status, text)
		}
	}
}

func TestBuildsNeedATokenBeyondLoopback(t *testing.T) {
	t.Parallel()
	s := serve(t, "0.0.0.0:7070")
	failed(t, s.Builds, "7")
	storeToken(t, s.Ledger, "reader", "a-reading-token-1", "read")
	for _, path := range []string{"/api/build", "/api/build/7", "/api/build/7/step", "/api/build/7/log",
		"/api/build/7/log?step=2&raw", "/api/build/7/log/search?q=x",
		"/api/build/7/stream", "/api/build/7/artifact", "/api/build/7/artifact/1", "/api/build/7/test-result",
		"/api/build/7/test-result/detail"} {
		for credentials, want := range map[string]int{"": http.StatusUnauthorized, "Bearer another": http.StatusUnauthorized,
			"Bearer a-reading-token-1": http.StatusOK} {
			if status, text, _ := s.ask(t, http.MethodGet, path, "", "Authorization", credentials); status != want ||
				want != http.StatusOK && strings.Contains(text, "unit") {
				t.Errorf("%s with %q: %d, want %d: %s", path, credentials, status, want, text)
			}
		}
	}
}

// TestLogsOfManyBuildsAreSearched newest build first, in pages and as a stream.
func TestLogsOfManyBuildsAreSearched(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	var want []string
	for i := range 4 {
		id := fmt.Sprintf("%d", i+1)
		b := servertest.NewBuild(t, s.Builds, id, servertest.BuildPlan("a/one"))
		b.Status(0, build.Running, "")
		b.Status(1, build.Running, "")
		b.Print(1, "a needle", "hay", "the needle \u202e again")
	}
	for _, b := range get[buildview.List](t, s, "/api/build").Builds {
		want = append(want, b.ID+" 3", b.ID+" 1")
	}
	const all = "/api/log/search?q=NEEDLE&since=2020-01-01T00:00:00Z"
	var got []string
	for after := ""; ; {
		found := get[buildview.Matches](t, s, all+"&limit=3&after="+url.QueryEscape(after))
		if len(found.Matches) > 3 {
			t.Errorf("%d matches", len(found.Matches))
		}
		for _, m := range found.Matches {
			got = append(got, fmt.Sprintf("%s %d", m.BuildID, m.ID))
		}
		if after = found.Next; after == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if found := get[buildview.Matches](t, s, all+"&project=none"); len(found.Matches) != 0 {
		t.Errorf("%+v", found)
	}
	if found := get[buildview.Matches](t, s, all+"&after="+url.QueryEscape("~99~1:2")); len(found.Matches) != 8 {
		t.Errorf("after a build that was removed: %+v", found)
	}
	_, text, header := s.ask(t, http.MethodGet, all, "", "Authorization", bearer, "Accept", "text/event-stream")
	if strings.Count(text, "event: match\n") != 8 || !strings.Contains(text, "event: end\n") ||
		strings.Contains(text, "\u202e") || header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("the stream is %v\n%s", header, text)
	}
	for _, query := range []string{"", "?q=x", "?q=x&until=2026-01-02T00:00:00Z", "?since=2020-01-01T00:00:00Z",
		"?q=x&since=now", "?q=x&project=a&after=x", "?q=x&project=a&limit=0", "?q=x&project=a&stp=1"} {
		if status, text, _ := s.ask(t, http.MethodGet, "/api/log/search"+query, "", "Authorization", bearer); status != 400 {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	client := client.New(s.URL, homeToken, "ana")
	for limit, n := range map[int]int{0: 8, 3: 3} {
		count := 0
		err := operation.EachMatch(t.Context(), client, operation.SearchLogsInput{
			LogSearch: operation.LogSearch{Text: "needle", Limit: limit}, Since: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)},
			func(buildview.LogEntry) error { count++; return nil })
		if err != nil || count != n {
			t.Errorf("limit %d: %d matches, %v", limit, count, err)
		}
	}
	list, err := operation.AllBuilds(t.Context(), client, operation.BuildsInput{Limit: 3, Value: "level=debug",
		Since: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil || len(list) != 3 {
		t.Errorf("%d builds, %v", len(list), err)
	}
}
