package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/api/worker/v1/workerv1connect"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker/api"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
)

const token = "a-token-of-this-worker"

// served is a build whose results a real server serves.
type served struct {
	t      *testing.T
	store  *results.Store
	reader *results.Reader
	server *api.Server
	addr   string
	stop   func()
}

// serve begins a build of two steps and serves it.
func serve(t *testing.T, change ...func(*api.Config)) *served {
	t.Helper()
	store, err := results.Create(filepath.Join(t.TempDir(), "results"), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	plan := &build.Plan{Stages: []build.PlanStage{{Name: "test", Steps: []int{1}}, {Name: "pack", Steps: []int{2}}}, Steps: []build.PlanStep{
		{ID: 1, Stage: "test", Name: "unit"}, {ID: 2, Stage: "pack", Name: "zip", After: []int{1}}}}
	if err := store.Describe(results.Build{ID: "1", Plan: plan}); err != nil {
		t.Fatal(err)
	}
	c := api.Config{Plan: plan, Store: store, Token: token, Log: slog.New(slog.DiscardHandler), Metrics: obs.NewRegistry()}
	for _, f := range change {
		f(&c)
	}
	server, err := api.New(c)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := results.Open(store.Dir())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	s := &served{t: t, store: store, reader: reader, server: server, addr: listener.Addr().String()}
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		ended <- nil
	}
	t.Cleanup(func() {
		s.stop()
		_ = store.Close()
	})
	return s
}

func (s *served) update(step int, status build.Status) {
	s.t.Helper()
	if _, err := s.store.Update(step, build.Update{Status: status, Timestamp: time.Now()}); err != nil {
		s.t.Fatal(err)
	}
}

// print writes lines into a step's log.
func (s *served) print(step int, lines ...string) {
	s.t.Helper()
	log, err := s.store.Log(step)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, line := range lines {
		if err := log.Append(build.Entry{At: time.Now(), Text: []byte(line)}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// finish runs the whole build.
func (s *served) finish() {
	s.t.Helper()
	s.update(0, build.Scheduling)
	s.print(0, "workspace taken")
	s.update(0, build.Running)
	for _, step := range []int{1, 2} {
		s.update(step, build.Scheduling)
		s.print(step, "one", "", "nul \x00, \xff and \x1f", strings.Repeat("long ", 200))
		s.update(step, build.Running)
		if _, err := s.store.AddArtifact(build.Artifact{Step: step, Name: fmt.Sprintf("out/%d.txt", step), Kind: build.KindFile},
			strings.NewReader("bytes of an artifact")); err != nil {
			s.t.Fatal(err)
		}
		s.update(step, build.Completed)
	}
	s.update(0, build.Completed)
}

// client returns a client that shows the token.
func (s *served) client(options ...connect.ClientOption) workerv1connect.WorkerClient {
	client, hangUp := dial(s.addr, token, options...)
	s.t.Cleanup(hangUp)
	return client
}

// dial returns a client of an address, with connections of its own, which hangUp closes.
func dial(addr, token string, options ...connect.ClientOption) (client workerv1connect.WorkerClient, hangUp func()) {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	if len(options) == 0 {
		protocols.SetUnencryptedHTTP2(false)
		protocols.SetHTTP1(true)
	}
	transport := &http.Transport{Protocols: protocols}
	return workerv1connect.NewWorkerClient(&http.Client{Transport: bearer{token, transport}}, "http://"+addr, options...),
		transport.CloseIdleConnections
}

// bearer shows a token with every request.
type bearer struct {
	token string
	http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// copyOf holds the results that a reader has received.
type copyOf struct {
	events    []*workerv1.StatusEvent
	logs      map[int32]*bytes.Buffer
	at        map[int32]*workerv1.Position
	artifacts []*workerv1.Artifact
}

func newCopy() *copyOf {
	return &copyOf{logs: map[int32]*bytes.Buffer{}, at: map[int32]*workerv1.Position{}}
}

// positions returns the cursors.
func (c *copyOf) positions() (all []*workerv1.Position) {
	for _, p := range c.at {
		all = append(all, p)
	}
	return all
}

// take adds a batch, and returns an error unless it continues the copy.
func (c *copyOf) take(m *workerv1.LogsResponse) error {
	if m.GetEntries() == 0 {
		return nil
	}
	at := c.at[m.GetStepId()]
	if at == nil {
		at = &workerv1.Position{StepId: m.GetStepId()}
		c.at[m.GetStepId()], c.logs[m.GetStepId()] = at, &bytes.Buffer{}
	}
	if m.GetFirstLogId() != at.LogId+1 || m.GetOffset() != at.Offset {
		return fmt.Errorf("step %d: batch begins at entry %d, byte %d after entry %d, byte %d", m.GetStepId(),
			m.GetFirstLogId(), m.GetOffset(), at.LogId, at.Offset)
	}
	if n := bytes.Count(m.GetData(), []byte("\n")); n != int(m.GetEntries()) || m.GetData()[len(m.GetData())-1] != '\n' ||
		len(m.GetData()) > results.BatchSize {
		return fmt.Errorf("step %d: batch of %d entries and %d bytes has %d lines", m.GetStepId(), m.GetEntries(), len(m.GetData()), n)
	}
	at.LogId += int64(m.GetEntries())
	at.Offset += int64(len(m.GetData()))
	c.logs[m.GetStepId()].Write(m.GetData())
	return nil
}

// takeLogs reads logs from the cursors to the stream's end.
func (c *copyOf) takeLogs(ctx context.Context, client workerv1connect.WorkerClient) error {
	stream, err := client.Logs(ctx, connect.NewRequest(&workerv1.LogsRequest{After: c.positions()}))
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		if err := c.take(stream.Msg()); err != nil {
			return errors.Join(errWrong, err)
		}
	}
	return stream.Err()
}

// errWrong is of a stream that broke its promises.
var errWrong = errors.New("wrong")

func (c *copyOf) takeEvents(ctx context.Context, client workerv1connect.WorkerClient) error {
	stream, err := client.StatusEvents(ctx, connect.NewRequest(&workerv1.StatusEventsRequest{AfterEventId: int64(len(c.events))}))
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		for _, e := range stream.Msg().GetEvents() {
			if e.GetEventId() != int64(len(c.events)+1) {
				return fmt.Errorf("%w: event %d after %d", errWrong, e.GetEventId(), len(c.events))
			}
			c.events = append(c.events, e)
		}
	}
	return stream.Err()
}

func (c *copyOf) takeArtifacts(ctx context.Context, client workerv1connect.WorkerClient) error {
	stream, err := client.ArtifactEvents(ctx, connect.NewRequest(&workerv1.ArtifactEventsRequest{AfterArtifactId: int32(len(c.artifacts))}))
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		for _, a := range stream.Msg().GetArtifacts() {
			if int(a.GetId()) != len(c.artifacts)+1 {
				return fmt.Errorf("%w: artifact %d after %d", errWrong, a.GetId(), len(c.artifacts))
			}
			c.artifacts = append(c.artifacts, a)
		}
	}
	return stream.Err()
}

func (c *copyOf) takeAll(ctx context.Context, client workerv1connect.WorkerClient) error {
	return errors.Join(c.takeEvents(ctx, client), c.takeLogs(ctx, client), c.takeArtifacts(ctx, client))
}

// check compares the copy with the files, and with the trailers and the final marker.
func (c *copyOf) check(t *testing.T, s *served) {
	t.Helper()
	if len(c.events) == 0 {
		t.Fatal("no events")
	}
	final := c.events[len(c.events)-1].GetFinal()
	if final == nil || final.GetEvents() != int64(len(c.events)) || int(final.GetArtifacts()) != len(c.artifacts) {
		t.Errorf("final marker %v, got %d events, %d artifacts", final, len(c.events), len(c.artifacts))
	}
	for _, e := range c.events {
		want := e.GetTrailer()
		if want == nil {
			continue
		}
		file, err := os.ReadFile(s.reader.LogPath(int(e.GetStepId())))
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		if log := c.logs[e.GetStepId()]; log != nil {
			got = log.Bytes()
		}
		if diff := cmp.Diff(string(file), string(got)); diff != "" {
			t.Errorf("log of step %d (-file +received):\n%s", e.GetStepId(), diff)
		}
		if sum := sha256.Sum256(got); !bytes.Equal(sum[:], want.GetSha256()) || want.GetBytes() != int64(len(got)) {
			t.Errorf("log of step %d: %d bytes, %x; trailer %v", e.GetStepId(), len(got), sum, want)
		}
	}
	artifacts, err := s.reader.ArtifactsOf(2, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range c.artifacts {
		want := artifacts[i]
		if a.GetName() != want.Name || a.GetSize() != want.Size || hex.EncodeToString(a.GetSha256()) != want.SHA256 ||
			int(a.GetStepId()) != want.Step {
			t.Errorf("artifact %v, want %v", a, want)
		}
	}
}

// final acknowledges everything that the copy has.
func (c *copyOf) final() *workerv1.AcknowledgeRequest {
	m := &workerv1.AcknowledgeRequest{EventId: int64(len(c.events)), Logs: c.positions(), Final: true}
	for _, a := range c.artifacts {
		m.ArtifactIds = append(m.ArtifactIds, a.GetId())
	}
	return m
}

func TestEveryProtocolReceivesEverything(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.finish()
	for name, options := range map[string][]connect.ClientOption{
		"Connect on HTTP/1.1": nil,
		"JSON":                {connect.WithProtoJSON()},
		"gRPC":                {connect.WithGRPC()},
		"gRPC-Web":            {connect.WithGRPCWeb()},
	} {
		t.Run(name, func(t *testing.T) {
			got := newCopy()
			if err := got.takeAll(t.Context(), s.client(options...)); err != nil {
				t.Fatal(err)
			}
			got.check(t, s)
		})
	}
}

// TestStreamsFollowABuild: readers that come before the first entry receive everything while it is written, by several goroutines.
func TestStreamsFollowABuild(t *testing.T) {
	t.Parallel()
	s := serve(t)
	copies, ended := [3]*copyOf{}, make(chan error)
	for i := range copies {
		copies[i] = newCopy()
		go func() { ended <- copies[i].takeAll(t.Context(), s.client(connect.WithGRPC())) }()
	}
	s.update(0, build.Running)
	written := make(chan struct{})
	for _, step := range []int{1, 2} {
		s.update(step, build.Running)
		go func() {
			for i := range 2000 {
				s.print(step, fmt.Sprintf("line %d %s", i, strings.Repeat("x", i%300)))
			}
			written <- struct{}{}
		}()
	}
	<-written
	<-written
	s.update(2, build.Failed)
	s.update(1, build.Completed)
	s.update(0, build.Failed)
	for range copies {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range copies {
		c.check(t, s)
	}
}
