package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"connectrpc.com/connect"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/api/worker/v1/workerv1connect"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker/api"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
)

// workerStreamFlags declares the flags of worker-stream.
func workerStreamFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.N, "n", 300_000, "lines of 100 bytes")
}

// workerStream measures how fast a reader on loopback receives the log of an ended build over gRPC, as the worker API sends it and with
// one message for each line. The reader is in this process, so the CPU time is that of both sides.
func workerStream(ctx context.Context, o Options) ([]Result, error) {
	dir, err := os.MkdirTemp("", "waybill-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	store, plan, err := loggedBuild(filepath.Join(dir, "results"), o.N)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	reader, err := results.Open(store.Dir())
	if err != nil {
		return nil, err
	}
	server, err := api.New(api.Config{Plan: plan, Store: store, Token: benchToken, Log: slog.New(slog.DiscardHandler),
		Metrics: obs.NewRegistry()})
	if err != nil {
		return nil, err
	}
	lineByLine := http.NewServeMux()
	lineByLine.Handle(workerv1connect.NewWorkerHandler(byLine{path: reader.LogPath(1)}, connect.WithCompression("gzip", nil, nil)))
	batches, lines := Result{Bench: "worker-stream", Unit: "lines/s",
		Subject: "batches of 64 KiB"}, Result{Bench: "worker-stream", Unit: "lines/s", Subject: "a message per line"}
	for range o.Rounds {
		for subject, handler := range map[*Result]http.Handler{&batches: server, &lines: lineByLine} { // in turn, in any order
			round, err := receive(ctx, handler, o.N)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", subject.Subject, err)
			}
			subject.Rounds = append(subject.Rounds, round)
		}
	}
	batches.summarize()
	lines.summarize()
	batches.against(lines, 10)
	return append([]Result{batches, lines}, streamCPU(batches, lines)...), nil
}

// streamCPU returns the CPU times of the same rounds.
func streamCPU(batches, lines Result) []Result {
	all := []Result{batches, lines}
	for i := range all {
		all[i].Subject, all[i].Unit, all[i].Pass, all[i].Rival, all[i].Ratio = all[i].Subject+", CPU", "µs for 1,000 lines", nil, "", 0
		all[i].summarizeBy(func(r Round) float64 { return r.ClientCPU * 1000 })
	}
	all[0].Ratio, all[0].Rival = all[0].Median/all[1].Median, all[1].Subject
	all[0].judge("at most 0.05 × "+all[1].Subject, all[0].Ratio <= 0.05)
	return all
}

const benchToken = "the-token-of-this-bench"

// loggedBuild writes the results of a build of one step.
func loggedBuild(dir string, lines int) (*results.Store, *build.Plan, error) {
	store, err := results.Create(dir, 1<<40)
	if err != nil {
		return nil, nil, err
	}
	plan := &build.Plan{Stages: []build.PlanStage{{Name: "test", Steps: []int{1}}},
		Steps: []build.PlanStep{{ID: 1, Stage: "test", Name: "unit"}}}
	err = store.Describe(results.Build{ID: "1", Plan: plan})
	for step := range 2 {
		_, failed := store.Update(step, build.Update{Status: build.Running, Timestamp: time.Now()})
		err = errors.Join(err, failed)
	}
	log, failed := store.Log(1)
	if err = errors.Join(err, failed); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	text := []byte(strings.Repeat("x", 99)) // and a newline
	for range lines {
		err = errors.Join(err, log.Append(build.Entry{At: time.Now(), Text: text}))
	}
	for step := range 2 {
		_, failed := store.Update(1-step, build.Update{Status: build.Completed, Timestamp: time.Now()})
		err = errors.Join(err, failed)
	}
	return store, plan, err
}

// receive reads the whole log from a handler on a server of its own.
func receive(ctx context.Context, handler http.Handler, lines int) (Round, error) {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Round{}, err
	}
	server := &http.Server{Handler: handler, Protocols: protocols, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() { <-served }()
	defer server.Close()
	transport := &http.Transport{Protocols: protocols, HTTP2: &http.HTTP2Config{MaxReadFrameSize: 1 << 17}} // a batch is one frame
	defer transport.CloseIdleConnections()
	client := workerv1connect.NewWorkerClient(&http.Client{Transport: transport}, "http://"+listener.Addr().String(), connect.WithGRPC())
	request := connect.NewRequest(&workerv1.LogsRequest{StepIds: []int32{1}})
	request.Header().Set("Authorization", "Bearer "+benchToken)
	start, cpu := time.Now(), ownCPU()
	stream, err := client.Logs(ctx, request)
	if err != nil {
		return Round{}, err
	}
	received := 0
	for stream.Receive() {
		received += int(stream.Msg().GetEntries())
	}
	if err := errors.Join(stream.Err(), stream.Close()); err != nil {
		return Round{}, err
	}
	if received != lines {
		return Round{}, fmt.Errorf("received %d of %d lines", received, lines)
	}
	used := ownCPU() - cpu
	round := measured(lines, start)
	round.ClientCPU = float64(used.Microseconds()) / float64(lines)
	return round, nil
}

// byLine answers with one message for each line of a log.
type byLine struct {
	workerv1connect.UnimplementedWorkerHandler
	path string
}

func (b byLine) Logs(_ context.Context, _ *connect.Request[workerv1.LogsRequest],
	stream *connect.ServerStream[workerv1.LogsResponse]) error {
	log, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	id, offset := int64(0), int64(0)
	for line := range bytes.Lines(log) {
		id++
		if err := stream.Send(&workerv1.LogsResponse{StepId: 1, FirstLogId: id, Offset: offset, Entries: 1, Data: line}); err != nil {
			return err
		}
		offset += int64(len(line))
	}
	return nil
}
