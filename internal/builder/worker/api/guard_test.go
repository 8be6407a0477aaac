package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker/api"
)

// get requests a path, or posts a body to it.
func (s *served) get(path, body string, header ...string) (status int, text string, h http.Header) {
	s.t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(data), answer.Header
}

const acknowledgePath = "/waybill.worker.v1.Worker/Acknowledge"

func TestOnlyTheTokenOpens(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.finish()
	for _, path := range []string{"/api/build/step", "/api/artifact", "/api/artifact/1/download", "/nothing", acknowledgePath} {
		for name, given := range map[string]string{
			"none": "", "another": "Bearer another-worker's-token", "longer": "Bearer " + token + "x", "shorter": "Bearer " + token[1:],
			"without a scheme": token, "another scheme": "Basic " + token, "empty": "Bearer ",
		} {
			body := ""
			if path == acknowledgePath {
				body = "{}"
			}
			status, text, _ := s.get(path, body, "Authorization", given, "Content-Type", "application/json")
			if status != http.StatusUnauthorized || strings.Contains(text, "unit") {
				t.Errorf("%s, token %s: %d %s", path, name, status, text)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if status, text, _ := s.get(path, ""); status != http.StatusOK || strings.Contains(text, "unit") {
			t.Errorf("%s without a token: %d %s", path, status, text)
		}
	}
	client, hangUp := dial(s.addr, "another-worker's-token", connect.WithGRPC())
	defer hangUp()
	if err := newCopy().takeLogs(t.Context(), client); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("Logs over gRPC: %v", err)
	}
}

func TestAWrongPositionIsAnsweredWithTheRightOne(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.finish()
	whole := newCopy()
	if err := whole.takeAll(t.Context(), s.client()); err != nil {
		t.Fatal(err)
	}
	end, first := whole.at[1], int64(bytes.IndexByte(whole.logs[1].Bytes(), '\n')+1)
	for name, c := range map[string]struct {
		given *workerv1.Position
		want  connect.Code
		right *workerv1.Position
	}{
		"an offset inside an entry": {&workerv1.Position{StepId: 1, LogId: 1, Offset: first - 1}, connect.CodeOutOfRange,
			&workerv1.Position{StepId: 1, LogId: 1, Offset: first}},
		"no offset":      {&workerv1.Position{StepId: 1, LogId: end.LogId}, connect.CodeOutOfRange, end},
		"no entry":       {&workerv1.Position{StepId: 1, Offset: first}, connect.CodeOutOfRange, &workerv1.Position{StepId: 1}},
		"beyond the end": {&workerv1.Position{StepId: 1, LogId: 1 << 40, Offset: 1 << 50}, connect.CodeOutOfRange, end},
		"below the start": {&workerv1.Position{StepId: 1, LogId: -1, Offset: -1}, connect.CodeOutOfRange,
			&workerv1.Position{StepId: 1}},
		"a step that is not there": {&workerv1.Position{StepId: 9}, connect.CodeInvalidArgument, nil},
		"a step below 0":           {&workerv1.Position{StepId: -1}, connect.CodeInvalidArgument, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := newCopy()
			got.at[c.given.StepId] = c.given
			err := got.takeLogs(t.Context(), s.client())
			if connect.CodeOf(err) != c.want || c.right != nil && !rightPosition(t, err, c.right) {
				t.Errorf("stream: %v", err)
			}
			_, err = s.client(connect.WithGRPC()).Acknowledge(t.Context(),
				connect.NewRequest(&workerv1.AcknowledgeRequest{Logs: []*workerv1.Position{c.given}}))
			if connect.CodeOf(err) != c.want || c.right != nil && !rightPosition(t, err, c.right) {
				t.Errorf("acknowledgement: %v", err)
			}
		})
	}
	for _, m := range []*workerv1.AcknowledgeRequest{{EventId: 99}, {EventId: -1}, {ArtifactIds: []int32{3}}, {ArtifactIds: []int32{0}}} {
		if _, err := s.client().Acknowledge(t.Context(), connect.NewRequest(m)); connect.CodeOf(err) != connect.CodeOutOfRange {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// rightPosition reports whether the error has this position as its detail.
func rightPosition(t *testing.T, err error, want *workerv1.Position) bool {
	t.Helper()
	failed, ok := errors.AsType[*connect.Error](err)
	if !ok || len(failed.Details()) != 1 {
		return false
	}
	value, err := failed.Details()[0].Value()
	if err != nil {
		t.Fatal(err)
	}
	got, ok := value.(*workerv1.Position)
	return ok && got.GetStepId() == want.GetStepId() && got.GetLogId() == want.GetLogId() && got.GetOffset() == want.GetOffset()
}

func TestAnAcknowledgementIsFinalOnlyWithEverything(t *testing.T) {
	t.Parallel()
	s := serve(t)
	client := s.client()
	refused := func(name string, m *workerv1.AcknowledgeRequest) {
		t.Helper()
		if _, err := client.Acknowledge(t.Context(), connect.NewRequest(m)); connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("%s: %v", name, err)
		}
		select {
		case <-s.server.Acknowledged():
			t.Fatalf("%s was final", name)
		default:
		}
	}
	s.update(0, build.Scheduling)
	refused("before the end", &workerv1.AcknowledgeRequest{EventId: 1, Final: true})
	s.update(0, build.Running)
	s.print(0, "a note")
	s.print(1, "one", "two")
	s.update(1, build.Running)
	if _, err := s.store.AddArtifact(build.Artifact{Step: 1, Name: "a.txt", Kind: "file"}, strings.NewReader("a")); err != nil {
		t.Fatal(err)
	}
	s.update(1, build.Failed)
	s.update(2, build.Skipped)
	s.update(0, build.Failed)
	got := newCopy()
	if err := got.takeAll(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	m := got.final()
	m.EventId--
	refused("without the last event", m)
	m = got.final()
	m.Logs = m.Logs[1:]
	refused("without a log", m)
	m = got.final()
	m.ArtifactIds = nil
	refused("without the artifact", m)
	if _, err := client.Acknowledge(t.Context(), connect.NewRequest(&workerv1.AcknowledgeRequest{EventId: 2})); err != nil {
		t.Fatal(err)
	}
	if left, err := s.server.Left(); err != nil || left != "4 of 6 events, 3 of 3 log entries, 1 of 1 artifacts" {
		t.Errorf("left: %s, %v", left, err)
	}
	for range 2 { // a reader may repeat it
		if _, err := client.Acknowledge(t.Context(), connect.NewRequest(got.final())); err != nil {
			t.Fatal(err)
		}
	}
	<-s.server.Acknowledged()
	if left, err := s.server.Left(); err != nil || left != "0 of 6 events, 0 of 3 log entries, 0 of 1 artifacts" {
		t.Errorf("left: %s, %v", left, err)
	}
}

// TestLogsAreFiltered: by steps, and by a span of time that begins with an entry and ends before one.
func TestLogsAreFiltered(t *testing.T) {
	t.Parallel()
	s := serve(t)
	began := time.Now().UTC()
	s.update(0, build.Running)
	for _, step := range []int{1, 2} {
		s.update(step, build.Running)
		log, err := s.store.Log(step)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3000 {
			if err := log.Append(build.Entry{At: began.Add(time.Duration(i) * time.Second), Text: bytes.Repeat([]byte("x"), i%200)}); err != nil {
				t.Fatal(err)
			}
		}
		s.update(step, build.Completed)
	}
	s.update(0, build.Completed)
	for name, c := range map[string]struct {
		request     *workerv1.LogsRequest
		first, last int64
	}{
		"one step": {&workerv1.LogsRequest{StepIds: []int32{2}}, 1, 3000},
		"since":    {&workerv1.LogsRequest{StepIds: []int32{2}, Since: timestamppb.New(began.Add(1000 * time.Second))}, 1001, 3000},
		"before":   {&workerv1.LogsRequest{StepIds: []int32{2}, Before: timestamppb.New(began.Add(1000 * time.Second))}, 1, 1000},
		"a span": {&workerv1.LogsRequest{StepIds: []int32{2}, Since: timestamppb.New(began.Add(2999 * time.Second)),
			Before: timestamppb.New(began.Add(3000 * time.Second))}, 3000, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := s.client().Logs(t.Context(), connect.NewRequest(c.request))
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			next := c.first
			for stream.Receive() {
				m := stream.Msg()
				if m.GetStepId() != 2 || m.GetFirstLogId() != next {
					t.Fatalf("step %d, entry %d; want 2, %d", m.GetStepId(), m.GetFirstLogId(), next)
				}
				next += int64(m.GetEntries())
			}
			if err := stream.Err(); err != nil || next != c.last+1 {
				t.Errorf("ended after entry %d, want %d: %v", next-1, c.last, err)
			}
		})
	}
}

func TestSilentStreamsAreKeptAlive(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *api.Config) { c.KeepAlive = time.Millisecond })
	s.update(0, build.Running)
	client := s.client(connect.WithGRPC())
	logs, err := client.Logs(t.Context(), connect.NewRequest(&workerv1.LogsRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	events, err := client.StatusEvents(t.Context(), connect.NewRequest(&workerv1.StatusEventsRequest{AfterEventId: 1}))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	artifacts, err := client.ArtifactEvents(t.Context(), connect.NewRequest(&workerv1.ArtifactEventsRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	defer artifacts.Close()
	for range 3 {
		if !logs.Receive() || logs.Msg().GetEntries() != 0 {
			t.Fatalf("logs: %v, %v", logs.Msg(), logs.Err())
		}
		if !events.Receive() || len(events.Msg().GetEvents()) != 0 || events.Msg().GetNow() == nil {
			t.Fatalf("events: %v, %v", events.Msg(), events.Err())
		}
		if !artifacts.Receive() || len(artifacts.Msg().GetArtifacts()) != 0 {
			t.Fatalf("artifacts: %v, %v", artifacts.Msg(), artifacts.Err())
		}
	}
}

// TestAReaderLearnsAtOnceThatItIsServed: without waiting for the first event or entry of the build.
func TestAReaderLearnsAtOnceThatItIsServed(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *api.Config) { c.KeepAlive = time.Hour })
	logs, err := s.client().Logs(t.Context(), connect.NewRequest(&workerv1.LogsRequest{}))
	if err != nil || !logs.Receive() || logs.Msg().GetEntries() != 0 {
		t.Fatalf("logs: %v", err)
	}
	defer logs.Close()
	events, err := s.client().StatusEvents(t.Context(), connect.NewRequest(&workerv1.StatusEventsRequest{}))
	if err != nil || !events.Receive() || len(events.Msg().GetEvents()) != 0 {
		t.Fatalf("events: %v", err)
	}
	defer events.Close()
}

// TestAReaderOfNothingLearnsThatTheWorkerLives: of a log whose entries are all out of its bounds of time.
func TestAReaderOfNothingLearnsThatTheWorkerLives(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *api.Config) { c.KeepAlive = time.Hour })
	s.update(0, build.Running)
	s.update(1, build.Running)
	for range 3 { // more than half a batch, which is not waited for
		s.print(1, strings.Repeat("x", 15_000))
	}
	for name, request := range map[string]*workerv1.LogsRequest{"before": {Before: timestamppb.New(time.Unix(1, 0))},
		"since": {Since: timestamppb.New(time.Now().Add(time.Hour))}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		stream, err := s.client().Logs(ctx, connect.NewRequest(request))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !stream.Receive() || stream.Msg().GetEntries() != 0 {
			t.Errorf("%s: %v, %v", name, stream.Msg(), stream.Err())
		}
		cancel()
		_ = stream.Close()
	}
}

// TestAReaderAtTheEndIsDone: one that lost its connection after the last message sends one more request.
func TestAReaderAtTheEndIsDone(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.finish()
	got := newCopy()
	for range 2 {
		if err := got.takeAll(t.Context(), s.client()); err != nil {
			t.Fatal(err)
		}
	}
	got.check(t, s)
}

func TestStepsAndArtifactsAreListed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.finish()
	asked := []string{"Authorization", "Bearer " + token}
	log, err := os.Stat(s.reader.LogPath(1))
	if err != nil {
		t.Fatal(err)
	}
	_, steps, _ := s.get("/api/build/step", "", asked...)
	// neither step has a definition
	size := `"logEntries":4,"logBytes":` + strconv.FormatInt(log.Size(), 10) + `,"identity":"` + s.server.Plan.Identity(1) + `"}`
	want := `{"steps":[{"stepId":1,"parentId":1,"stage":"test","name":"unit","status":"Completed","attempt":0,"needs":[],` + size +
		`,{"stepId":2,"parentId":2,"stage":"pack","name":"zip","status":"Completed","attempt":0,"needs":[1],` + size + "]}\n"
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	_, artifacts, _ := s.get("/api/artifact", "", asked...)
	if !strings.HasPrefix(artifacts,
		`{"artifacts":[{"stepId":1,"artifactId":1,"name":"out/1.txt","size":20,"sha256":"`) || strings.Contains(artifacts, "path") {
		t.Errorf("artifacts: %s", artifacts)
	}
	status, text, h := s.get("/api/artifact/2/download", "", asked...)
	if status != http.StatusOK || text != "bytes of an artifact" || h.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
		t.Errorf("download: %d %q %v", status, text, h)
	}
	status, text, _ = s.get("/api/artifact/2/download", "", append(asked, "Range", "bytes=9-10")...)
	if status != http.StatusPartialContent || text != "bytes of an artifact"[9:11] {
		t.Errorf("range: %d %q", status, text)
	}
	if status, _, _ := s.get("/api/artifact/2/download", "",
		append(asked, "If-None-Match", h.Get("ETag"))...); status != http.StatusNotModified {
		t.Errorf("by its digest: %d", status)
	}
	for path, want := range map[string]int{"/api/artifact/3/download": 404, "/api/artifact/0/download": 400,
		"/api/artifact/..%2f1/download": 400, "/api/artifact/99999999999999999999/download": 400} {
		if status, _, _ := s.get(path, "", asked...); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}

func TestRequestsHaveBounds(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.finish()
	asked := []string{"Authorization", "Bearer " + token, "Content-Type", "application/json"}
	if status, text, _ := s.get(acknowledgePath, strings.Repeat(" ", 1<<20)+"{}",
		asked...); status != http.StatusTooManyRequests || !strings.Contains(text, "resource_exhausted") {
		t.Errorf("a large body: %d %.100s", status, text)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+"/healthz", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	if answer, err := http.DefaultClient.Do(r); err == nil { // else the server closed the connection while the header arrived
		answer.Body.Close()
		if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a large header: %d", answer.StatusCode)
		}
	}
	many := &workerv1.LogsRequest{StepIds: make([]int32, 4)}
	if stream, err := s.client().Logs(t.Context(), connect.NewRequest(many)); err != nil || stream.Receive() ||
		connect.CodeOf(stream.Err()) != connect.CodeInvalidArgument {
		t.Errorf("more steps than there are: %v", stream.Err())
	}
	deep := strings.Repeat(`{"logs":[`, 20_000) + strings.Repeat(`]}`, 20_000)
	if status, _, _ := s.get(acknowledgePath, deep, asked...); status != http.StatusBadRequest {
		t.Errorf("a deep body: %d", status)
	}
}

// TestManyStreamsAreRefused: so that readers cannot take all memory of the worker.
func TestManyStreamsAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.update(0, build.Running)
	for range 64 {
		client, hangUp := dial(s.addr, token)
		t.Cleanup(hangUp)
		stream, err := client.StatusEvents(t.Context(), connect.NewRequest(&workerv1.StatusEventsRequest{}))
		if err != nil || !stream.Receive() {
			t.Fatal(err, stream.Err())
		}
		t.Cleanup(func() { stream.Close() })
	}
	if err := newCopy().takeLogs(t.Context(), s.client()); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}

// TestAStuckReaderDelaysOnlyItself: one that reads nothing, while a step prints more than any buffer holds.
func TestAStuckReaderDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	s := serve(t)
	stuck, err := s.client().Logs(t.Context(), connect.NewRequest(&workerv1.LogsRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	s.update(0, build.Running)
	s.update(1, build.Running)
	line := strings.Repeat("x", 30_000)
	for range 1000 {
		s.print(1, line)
	}
	s.update(1, build.Completed)
	s.update(0, build.Completed)
	got := newCopy()
	if err := got.takeAll(t.Context(), s.client()); err != nil {
		t.Fatal(err)
	}
	got.check(t, s)
}

// TestADamagedLogIsSaid: a reader must not take a log cut by another program for the whole.
func TestADamagedLogIsSaid(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.finish()
	if err := os.Truncate(s.reader.LogPath(1), 60); err != nil {
		t.Fatal(err)
	}
	if err := newCopy().takeLogs(t.Context(), s.client()); connect.CodeOf(err) != connect.CodeDataLoss {
		t.Errorf("got %v", err)
	}
}

// TestABuildThatCannotBeRecordedHasNoEnd: readers receive the stored part, and learn that nothing follows.
func TestABuildThatCannotBeRecordedHasNoEnd(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.update(0, build.Running)
	s.update(1, build.Running)
	s.print(1, "one")
	got, ended := newCopy(), make(chan error)
	go func() {
		ended <- got.takeLogs(t.Context(), s.client())
		ended <- got.takeEvents(t.Context(), s.client())
	}()
	s.server.Break(io.ErrShortWrite)
	for range 2 {
		if err := <-ended; connect.CodeOf(err) != connect.CodeDataLoss || !strings.Contains(err.Error(), "short write") {
			t.Errorf("got %v", err)
		}
	}
	if len(got.events) != 2 || !strings.HasSuffix(got.logs[1].String(), " one\n") {
		t.Errorf("received %v, %q", got.events, got.logs)
	}
	if status, _, _ := s.get("/readyz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("ready: %d", status)
	}
}

// TestStreamsEndWithTheServer: readers resume elsewhere, or later.
func TestStreamsEndWithTheServer(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.update(0, build.Running)
	ended := make(chan error)
	stream, err := s.client(connect.WithGRPC()).StatusEvents(t.Context(), connect.NewRequest(&workerv1.StatusEventsRequest{}))
	if err != nil || !stream.Receive() {
		t.Fatal(err, stream.Err())
	}
	go func() {
		stream.Receive()
		ended <- stream.Err()
	}()
	s.stop()
	if err := <-ended; connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}
