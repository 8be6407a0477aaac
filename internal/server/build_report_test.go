package server_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// TestAnotherEngineReportsABuild from its beginning to its end, and is answered what it may not report.
func TestAnotherEngineReportsABuild(t *testing.T) {
	t.Parallel()
	s := serve(t, "0.0.0.0:7070")
	storeToken(t, s.Ledger, "jenkins", "a-worker-token-11", "worker")
	storeToken(t, s.Ledger, "reader", "a-reading-token-1", "read")
	b, err := s.Ledger.Builds.Create(t.Context(), builds.Build{Project: "shop", Engine: "jenkins"})
	if err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/api/build/%d", b.ID)
	report := func(method, at, body string, want int, part string) {
		t.Helper()
		kind := "application/json"
		if method == http.MethodPost {
			kind = "application/octet-stream"
		}
		status, text, _ := s.ask(t, method, path+at, body, "Authorization", "Bearer a-worker-token-11", "Content-Type", kind)
		if status != want || !strings.Contains(text, part) {
			t.Errorf("%s %s %s: %d %s", method, at, body, status, text)
		}
	}
	for credentials, want := range map[string]int{"": 401, "Bearer a-reading-token-1": 403} {
		for _, at := range [][2]string{{"PUT", "/status"}, {"PUT", "/log"}, {"POST", "/artifact?step=1&name=a"},
			{"POST", "/test-result?step=1&name=a"}} {
			if status, text, _ := s.ask(t, at[0], path+at[1], `{"status":"Running"}`, "Authorization", credentials,
				"Content-Type", "application/json"); status != want {
				t.Errorf("%s with %q: %d %s", at[1], credentials, status, text)
			}
		}
	}
	report("PUT", "/status", `{"status":"Running"}`, 200, `"applied":true`)
	report("PUT", "/status", `{"status":"Running","stepId":1,"stage":"test","step":"unit"}`, 200, "")
	report("PUT", "/status", `{"status":"Initializing"}`, 409, "allowed: Running, Completed")
	report("PUT", "/status", `{"status":"Running","stepId":-1}`, 400, "stepId")
	report("PUT", "/log", `{"workerStepId":1,"workerLogId":1,"timestamp":"2026-03-01T08:00:00Z","message":"one"}`, 200, `"added":1`)
	report("PUT", "/log",
		`[{"workerStepId":1,"workerLogId":1,"message":"one"},{"workerStepId":1,"workerLogId":2,"message":"two","lineEnding":"\r\n","stream":"stderr"}]`, 200, `"added":1`)
	report("PUT", "/log", `{"workerStepId":1,"workerLogId":2,"message":"other"}`, 409, "another text")
	report("PUT", "/log", `{"workerStepId":1,"workerLogId":9,"message":"x"}`, 409, "entry 3 is expected")
	report("PUT", "/log", `{"workerStepId":1,"workerLogId":3,"message":"x","lineEnding":"\t"}`, 400, "lineEnding")
	report("PUT", "/log", `nothing`, 400, "not an entry")
	report("PUT", "/log", `[{"workerStepId":1,"workerLogId":3}] x`, 400, "not an entry")
	report("PUT", "/log", `[{}`, 400, "not an entry")
	report("PUT", "/log", "["+strings.Repeat("{},", 100_000)+"{}]", 413, "at most 100000 entries")
	report("PUT", "/status", `{"status":"Running","stepId":100001}`, 400, "not the id of a step")
	report("PUT", "/status", `{"status":"Running","stepId":2,"attempt":2147483648}`, 400, "attempt")
	report("PUT", "/status", `{"status":"Running","stepId":2,"exitCode":-2147483649}`, 400, "exitCode")
	report("PUT", "/status", `{"status":"Lost"}`, 409, "not a status that another build engine reports")
	// the last is before all years
	for at, want := range map[string]int{"9999-12-31T23:59:59-12:00": 400, "9998-01-01T00:00:00Z": 400, "0000-01-01T00:00:00+12:00": 200} {
		part := map[int]string{200: "", 400: "is in the future"}[want]
		report("PUT", "/log", fmt.Sprintf(`{"workerStepId":2,"workerLogId":1,"timestamp":%q,"message":"x"}`, at), want, part)
		report("PUT", "/status", fmt.Sprintf(`{"status":"Running","stepId":2,"timestamp":%q,"eventId":%q}`, at, at), want, part)
	}
	report("POST", "/artifact?step=1&name=shop.tar", "the shop", 200, `"artifactId":1`)
	report("POST", "/artifact?step=1&name=shop.tar", "the shop", 200,
		fmt.Sprintf(`"sha256":"%x","kind":"file"}`, sha256.Sum256([]byte("the shop"))))
	report("POST", "/artifact?step=1&name=shop.tar", "another", 409, "another content")
	report("POST", "/artifact?step=100001&name=shop.tar", "of no step", 400, "not the id of a step")
	if kept, err := s.Blobs.Folders(t.Context(), builds.Folder(b.ID)); err != nil || len(kept) != 1 {
		t.Errorf("the blob store has %q of one artifact that was sent three times, and one that was refused, %v", kept, err)
	}
	report("POST", "/artifact?step=3&name=%1B%5B31ma%0D%0Ab%E2%80%AE", "x", 200, `"name":"a b"`)
	report("PUT", "/status", `{"status":"Running","stepId":3,"stage":"a\u001b[31m\u202eb","step":"c\u0007\n"}`, 200, "")
	report("POST", "/test-result?step=1&name=unit.xml",
		`<testsuite><testcase name="Sum"><failure message="got 12"/></testcase><testcase name="Add"/></testsuite>`, 200, `"artifactId":3`)
	report("POST", "/test-result?step=1&name=broken.xml&format=trx", `<testsuite`, 200, `"artifactId":4`)
	report("PUT", "/status", `{"status":"Failed","reason":"tests"}`, 200, "")
	report("PUT", "/log", `{"workerStepId":1,"workerLogId":3,"message":"late"}`, 409, "takes no more reports")
	report("POST", "/artifact?step=1&name=late", "late", 409, "takes no more reports")

	service := service.New(s.Ledger, s.Blobs, service.Options{Builds: &buildview.Tables{Rows: s.Ledger.Builds, Blobs: s.Blobs,
		Folders: buildview.NewFolders(t.TempDir(), nil)}})
	reading := httptest.NewServer(server.New(service, server.Options{Token: homeToken}).Handler())
	defer reading.Close()
	client := client.New(reading.URL, homeToken, "ana")
	made := operation.BuildPath{ID: fmt.Sprint(b.ID)}
	stepLog := func(step string) operation.BuildLogInput { return operation.BuildLogInput{BuildPath: made, Step: step} }
	var printed []byte
	if err := client.BuildEntries(t.Context(), stepLog("test/unit"), true, func(e build.Entry) error {
		printed = e.AppendPrinted(printed)
		return nil
	}); err != nil || string(printed) != "one\ntwo\r\n" {
		t.Errorf("the log is %q, %v", printed, err)
	}
	if err := client.BuildEntries(t.Context(), stepLog("jenkins/step-2"), true, func(e build.Entry) error {
		if string(e.Text) != "x" || e.At.Year() < 2026 || e.At.Year() > 9999 {
			t.Errorf("an entry has lost its time: %s %q", e.At, e.Text)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	artifacts, err := operation.ListBuildArtifacts.Call(t.Context(), client, operation.BuildStepInput{BuildPath: made})
	if err != nil || len(artifacts) != 4 || artifacts[0].Size != 8 {
		t.Errorf("%+v, %v", artifacts, err)
	}
	if err == nil && (len(artifacts) != 4 || strings.ContainsAny(artifacts[1].Name, "\x1b\r\n\u202e")) {
		t.Errorf("a name has control characters: %+v", artifacts)
	}
	view, err := operation.GetBuild.Call(t.Context(), client, made)
	if err != nil || view.Status != build.Failed || view.Engine != "jenkins" || view.Tests.Failed != 1 ||
		view.Tests.Tests != 2 || view.Steps[0].Status != build.Failed {
		t.Errorf("%+v, %v", view, err)
	}
	if status, text, _ := s.ask(t, "PUT", "/api/build/x/status", `{"status":"Running"}`, "Authorization", bearer,
		"Content-Type", "application/json"); status != 404 {
		t.Errorf("%d %s", status, text)
	}
	if err == nil && strings.ContainsAny(view.Steps[2].Path(), "\x1b\x07\n\u202e") {
		t.Errorf("a name has control characters: %q", view.Steps[2].Path())
	}
	own, err := s.Ledger.Builds.Create(t.Context(), builds.Build{Project: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if status, text, _ := s.ask(t, "PUT", fmt.Sprintf("/api/build/%d/status", own.ID), `{"status":"Running"}`,
		"Authorization", bearer, "Content-Type", "application/json"); status != 409 {
		t.Errorf("a build of a worker: %d %s", status, text)
	}
}

// TestBuildsAreReportedAlike: a caller in this process reports about a build as one over HTTP does.
func TestBuildsAreReportedAlike(t *testing.T) {
	t.Parallel()
	s := serveProjects(t, servertest.Start(t), service.Projects{})
	for _, to := range []operation.Caller{server.NewLocal(s.Service, "ana"), s.client()} {
		b, err := s.Ledger.Builds.Create(t.Context(), builds.Build{Project: "shop", Engine: "jenkins"})
		if err != nil {
			t.Fatal(err)
		}
		path := operation.BuildPath{ID: fmt.Sprint(b.ID)}
		content := func(text string) operation.Content { return operation.Content{Reader: strings.NewReader(text)} }
		event, err := operation.ReportBuildStatus.Call(t.Context(), to, operation.StatusReport{BuildPath: path,
			Body: operation.StatusReportBody{Status: build.Running, StepID: 1, Stage: "test", Step: "unit"}})
		if err != nil || event.Status != build.Running {
			t.Errorf("status: %+v, %v", event, err)
		}
		for want := 1; want >= 0; want-- { // the second time the entry is known
			added, err := operation.ReportBuildLog.Call(t.Context(), to, operation.LogReportInput{BuildPath: path,
				Content: content(`[{"workerStepId":1,"workerLogId":1,"message":"one"}]`)})
			if err != nil || added.Added != want {
				t.Errorf("log: %+v, %v", added, err)
			}
		}
		file, err := operation.ReportBuildArtifact.Call(t.Context(), to,
			operation.FileReport{BuildPath: path, StepID: 1, Name: "shop.tar", Content: content("the shop")})
		if err != nil || file.ID != 1 || file.StepID != 1 || file.Size != 8 || file.Kind != build.KindFile {
			t.Errorf("artifact: %+v, %v", file, err)
		}
		file, err = operation.ReportBuildTests.Call(t.Context(), to, operation.TestReport{BuildPath: path, StepID: 1,
			Name: "unit.xml", Format: "junit", Content: content(`<testsuite><testcase name="Sum"/></testsuite>`)})
		if err != nil || file.ID != 2 || file.Kind != "junit" {
			t.Errorf("tests: %+v, %v", file, err)
		}
		if counts, err := operation.SumBuildTests.Call(t.Context(), to, path); err != nil || counts.Tests != 1 {
			t.Errorf("counts: %+v, %v", counts, err)
		}
	}
}

// TestATokenReportsOnlyForItsEngine that names the token, or has its name.
func TestATokenReportsOnlyForItsEngine(t *testing.T) {
	t.Parallel()
	c := config.Builds{Reporters: map[string][]string{"gitlab": {"gitlab-2"}}}
	s := serveProjects(t, servertest.Start(t), service.Projects{MayReport: c.MayReport})
	for _, token := range [][2]string{{"jenkins", "report"}, {"gitlab", "report"}, {"gitlab-2", "worker"},
		{"reader", "read,execute,operate,define,approve"}} {
		storeToken(t, s.Ledger, token[0], "the-secret-of-"+token[0], strings.Split(token[1], ",")...)
	}
	for id, engine := range []string{"jenkins", "gitlab", ""} {
		if _, err := s.Ledger.Builds.Create(t.Context(), builds.Build{Project: "shop", Engine: engine}); err != nil {
			t.Fatal(err)
		}
		for sender, want := range map[string][]int{"jenkins": {200, 403, 409}, "gitlab": {403, 403, 409},
			"gitlab-2": {403, 200, 409}, "reader": {403, 403, 403}, "": {200, 200, 409}} {
			credentials := "Bearer the-secret-of-" + sender
			if sender == "" {
				credentials = bearer
			}
			for _, r := range [][3]string{{"PUT", "/status", `{"status":"Running"}`},
				{"PUT", "/log", `{"workerStepId":1,"workerLogId":1,"message":"one"}`},
				{"POST", "/artifact?step=1&name=a", "a"}, {"POST", "/test-result?step=1&name=t.xml", "<testsuite/>"}} {
				kind := map[string]string{"PUT": "application/json", "POST": "application/octet-stream"}[r[0]]
				status, text, _ := s.ask(t, r[0], fmt.Sprintf("/api/build/%d%s", id+1, r[1]), r[2], "Authorization", credentials,
					"Content-Type", kind, "Waybill-User", "gitlab-2")
				if status != want[id] || status == 403 && sender == "jenkins" && !strings.Contains(text, "tokens: [jenkins]") {
					t.Errorf("%s about a build of %q with the token of %q: %d %s", r[1], engine, sender, status, text)
				}
			}
		}
	}
}
