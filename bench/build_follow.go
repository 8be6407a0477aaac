package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// printName is the word by which this program becomes a step that prints: bench print-lines A-SECOND SECONDS.
const printName = "print-lines"

// stampMark begins the time in a line, in nanoseconds.
const stampMark = "printed="

// followFlags declares the flags of build-follow.
func followFlags(f *flag.FlagSet, o *Options) {
	o.Rate = 10_000
	f.Func("rate", "lines a second (default 10000/s)", perSecond(&o.Rate))
	f.DurationVar(&o.For, "for", 20*time.Second, "how long the step prints")
}

// followBuild measures the delay from the write of a step's process until a follower of the server's event stream has the line: over
// the worker, the aggregator, the database and the server, which are the real program.
func followBuild(ctx context.Context, o Options) ([]Result, error) {
	folder, binary, err := makeProgram(ctx)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	p99 := Result{Bench: "build-follow", Unit: "ms", Driver: o.Driver, Subject: fmt.Sprintf("p99 at %.0f lines/s", o.Rate)}
	for n := range o.Rounds {
		round, err := followRound(ctx, o, binary, filepath.Join(folder, fmt.Sprint(n)))
		if err != nil {
			return nil, err
		}
		p99.Rounds = append(p99.Rounds, round)
	}
	p50 := p99
	p50.Subject = strings.Replace(p99.Subject, "p99", "p50", 1)
	p50.summarizeBy(func(r Round) float64 { return r.P50 })
	p99.summarizeBy(func(r Round) float64 { return r.P99 })
	p99.judge("at most 300 ms", p99.Median <= 300)
	return []Result{p99, p50}, nil
}

// followRound ships one build and follows it from its first line.
func followRound(ctx context.Context, o Options, binary, folder string) (round Round, err error) {
	home, project := filepath.Join(folder, "home"), filepath.Join(folder, "project")
	self, err := os.Executable()
	if err = errors.Join(err, os.MkdirAll(home, 0o700), os.MkdirAll(project, 0o700)); err != nil {
		return round, err
	}
	port, err := freePort()
	if err != nil {
		return round, err
	}
	for path, text := range map[string]string{
		filepath.Join(home, "server.yaml"): fmt.Sprintf(
			"builder: {provisioner: {url: \"http://127.0.0.1:%[1]d\", listen: \"127.0.0.1:%[1]d\"}}\n", port),
		filepath.Join(project, "waybill.yaml"): "pipeline: bench\nstages:\n- {name: build, build: .wharf-ci.yml}\n",
		filepath.Join(project, ".wharf-ci.yml"): fmt.Sprintf(
			"test: {unit: {container: {image: none, cmds: [exec %s %s %.0f %.0f]}}}\n", self, printName, o.Rate, o.For.Seconds()),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return round, err
		}
	}
	database := []string{"--home", home}
	if o.Driver == "postgres" {
		url, drop, err := emptyDatabase(ctx, o)
		if err != nil {
			return round, err
		}
		defer drop()
		database = append(database, "--store", url)
	}
	serve := exec.CommandContext(ctx, binary,
		append([]string{"serve", "api", "conductor", "deployer", "provisioner", "aggregator", "--listen", "127.0.0.1:0"}, database...)...)
	serve.SysProcAttr, serve.Env = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, append(os.Environ(), "TMPDIR="+folder)
	if err := serve.Start(); err != nil {
		return round, err
	}
	defer func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		_ = serve.Wait()
	}()
	setUp := `set -e; git init -q; git add -A; git -c user.name=b -c user.email=b@example.com commit -qm bench; exec "$0" ship --detach --yes "$@"`
	ship := exec.CommandContext(ctx, "sh", append([]string{"-c", setUp, binary}, database...)...)
	ship.Dir = project
	if out, err := ship.CombinedOutput(); err != nil {
		return round, fmt.Errorf("ship: %w\n%s", err, out)
	}
	return follow(ctx, home, int(o.Rate*o.For.Seconds()))
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// follow reads the stream of the first build until its end.
func follow(ctx context.Context, home string, lines int) (round Round, err error) {
	start := time.Now()
	stream, err := openStream(ctx, home)
	if err != nil {
		return round, err
	}
	defer stream.Close()
	var delays []time.Duration
	scanner := bufio.NewScanner(stream)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line, now := scanner.Text(), time.Now()
		if line == "event: end" {
			break
		}
		if _, rest, ok := strings.Cut(line, stampMark); ok {
			digits, _, _ := strings.Cut(rest, " ")
			at, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				return round, fmt.Errorf("a line has no time: %s", line)
			}
			delays = append(delays, now.Sub(time.Unix(0, at)))
		}
	}
	if len(delays) != lines {
		return round, errors.Join(scanner.Err(), fmt.Errorf("%d lines were received, of %d", len(delays), lines))
	}
	slices.Sort(delays)
	round = measured(lines, start)
	round.P50, round.P99 = milliseconds(delays[lines/2]), milliseconds(delays[lines*99/100])
	return round, nil
}

// openStream opens the stream of build 1 once it exists.
func openStream(ctx context.Context, home string) (io.ReadCloser, error) {
	for ctx.Err() == nil {
		address, err := os.ReadFile(filepath.Join(home, "address"))
		token, unread := os.ReadFile(filepath.Join(home, "token"))
		if errors.Join(err, unread) == nil {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(string(address))+"/api/build/1/stream", nil)
			if err != nil {
				return nil, err
			}
			request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
			request.Header.Set("Accept", "text/event-stream")
			answer, err := http.DefaultClient.Do(request)
			if err == nil && answer.StatusCode == http.StatusOK {
				return answer.Body, nil
			}
			if err == nil {
				_ = answer.Body.Close()
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, ctx.Err()
}

// printLines prints lines of 100 bytes at a steady rate, each with the time at which it was written, without a buffer.
func printLines(arguments []string) error {
	if len(arguments) != 2 {
		return fmt.Errorf("usage: %s A-SECOND SECONDS", printName)
	}
	rate, err := strconv.Atoi(arguments[0])
	seconds, wrong := strconv.Atoi(arguments[1])
	if err = errors.Join(err, wrong); err != nil {
		return err
	}
	start := time.Now()
	for i := range rate * seconds {
		if due := start.Add(time.Duration(i) * time.Second / time.Duration(rate)); time.Until(due) > time.Millisecond {
			time.Sleep(time.Until(due))
		}
		if _, err := fmt.Fprintf(os.Stdout, "%-99s\n", fmt.Sprintf("%s%d line %d", stampMark, time.Now().UnixNano(), i)); err != nil {
			return err
		}
	}
	return nil
}
