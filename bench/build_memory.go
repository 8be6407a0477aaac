package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/api/worker/v1/workerv1connect"
	"github.com/waybill-dev/waybill/internal/results"
)

// workerMemoryFlags declares the flags of build-memory.
func workerMemoryFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.Size, "size", 1024, "megabytes of the log")
}

// workerMemory measures the most memory that a worker, the real program, takes while a step prints a log and two
// readers receive it a message a tenth of a second; and the same with a log of 1 MiB.
func workerMemory(ctx context.Context, o Options) ([]Result, error) {
	dir, binary, err := makeProgram(ctx)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	long := Result{Bench: "build-memory", Unit: "MiB", Subject: fmt.Sprintf("a log of %d MiB", o.Size)}
	short := Result{Bench: "build-memory", Unit: "MiB", Subject: "a log of 1 MiB"}
	if err := measureInTurn(o.Rounds, dir, map[*Result]func(string) (Round, error){
		&long:  func(dir string) (Round, error) { return memoryRound(ctx, binary, dir, o.Size) },
		&short: func(dir string) (Round, error) { return memoryRound(ctx, binary, dir, 1) },
	}); err != nil {
		return nil, err
	}
	for _, r := range []*Result{&long, &short} {
		r.summarizeBy(func(r Round) float64 { return r.HeapMB })
	}
	long.Ratio, long.Rival = long.Median/short.Median, short.Subject
	long.judge("at most 96 MiB and 1.3 × "+short.Subject, long.Ratio <= 1.3 && long.Median <= 96)
	return []Result{long, short}, nil
}

// memoryRound runs one worker until its build has ended. Its operations are MiB, its memory is the peak of what was resident.
func memoryRound(ctx context.Context, binary, dir string, size int) (round Round, err error) {
	source, out := filepath.Join(dir, "source"), filepath.Join(dir, "results")
	file := fmt.Sprintf("test: {unit: {container: {image: none, cmds: [\"yes '%s' | head -c %d\"]}}}\n", strings.Repeat("x", 99), size<<20)
	if err := errors.Join(os.MkdirAll(source, 0o700), os.WriteFile(filepath.Join(source, ".wharf-ci.yml"), []byte(file), 0o600)); err != nil {
		return round, err
	}
	c := exec.CommandContext(ctx, binary, "run", "--serve", "--runner", "process", "--build-id", "1", "--results-dir", out, source)
	c.Env, c.SysProcAttr = append(os.Environ(), "TMPDIR="+dir), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	start := time.Now()
	if err := c.Start(); err != nil {
		return round, err
	}
	defer func() {
		_ = c.Process.Kill() // it would wait for an acknowledgement
		_ = c.Wait()
	}()
	reader, place, err := served(ctx, out)
	if err != nil {
		return round, err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	for range 2 {
		go readSlowly(reading, place)
	}
	for {
		final, err := reader.Final()
		if err != nil {
			return round, err
		}
		if final != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	round = measured(size, start)
	round.HeapMB, err = peak(c.Process.Pid)
	return round, err
}

// served waits until a worker serves its results, and returns these and its place.
func served(ctx context.Context, dir string) (*results.Reader, results.Worker, error) {
	for ctx.Err() == nil {
		var place results.Worker
		text, err := os.ReadFile(filepath.Join(dir, results.WorkerFile))
		if err == nil {
			err = json.Unmarshal(text, &place)
		}
		if err == nil {
			reader, err := results.Open(dir)
			return reader, place, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, results.Worker{}, ctx.Err()
}

// readSlowly receives the log, with a pause after each message.
func readSlowly(ctx context.Context, place results.Worker) {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	client := workerv1connect.NewWorkerClient(&http.Client{Transport: &http.Transport{Protocols: protocols}},
		place.Address, connect.WithGRPC())
	request := connect.NewRequest(&workerv1.LogsRequest{})
	request.Header().Set("Authorization", "Bearer "+place.Token)
	stream, err := client.Logs(ctx, request)
	if err != nil {
		return
	}
	defer stream.Close()
	for stream.Receive() {
		time.Sleep(100 * time.Millisecond)
	}
}

// peak returns the most memory that a process had resident, in MiB.
func peak(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib float64
	_, err = fmt.Sscan(rest, &kib)
	return kib / 1024, err
}
