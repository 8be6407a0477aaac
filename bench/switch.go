package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	host "github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/ssh"
)

// listenName is the command of this program that is the service of the bench switch.
const listenName = "listen-for-switch"

func switchFlags(f *flag.FlagSet, o *Options) {
	o.Rate = 100
	f.IntVar(&o.N, "n", 20, "switches")
	f.Func("rate", "requests a second, each over a connection of its own (default 100/s)", perSecond(&o.Rate))
}

// listen serves requests at an address until a signal ends it.
func listen(args []string) error {
	if len(args) != 1 {
		return errors.New("want an address")
	}
	server := &http.Server{Addr: args[0], ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })}
	return server.ListenAndServe()
}

// switchHost measures what the clients of a service see of the switch to another release: how many requests fail, and how long no
// request is answered. The host is a folder of this machine; the service is this program, which starts at once and ends at SIGTERM.
func switchHost(ctx context.Context, o Options) (_ []Result, err error) {
	w, err := newSwitching(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.end(ctx)) }()
	if err := w.ship(ctx, 1); err != nil { // the first has nothing to switch from
		return nil, err
	}
	refused := Result{Bench: "switch", Subject: fmt.Sprintf("requests that fail in a switch, at %.0f/s", o.Rate), Unit: "requests"}
	outage := Result{Bench: "switch", Subject: "from the last answer of the old release to the first of the new one", Unit: "ms"}
	for n := range o.N {
		c := newClients(w.url, o.Rate)
		err := w.ship(ctx, int64(n)+2)
		c.stop()
		if err != nil {
			return nil, err
		}
		if c.asked == c.failed {
			return nil, fmt.Errorf("switch %d: no request of %d was answered: %w", n+1, c.asked, c.last)
		}
		refused.Rounds = append(refused.Rounds, Round{Ops: c.asked, PerSecond: float64(c.failed)})
		outage.Rounds = append(outage.Rounds, Round{Ops: c.asked, Longest: float64(c.longest.Microseconds()) / 1000})
	}
	refused.summarize()
	outage.summarizeBy(func(r Round) float64 { return r.Longest })
	return []Result{refused, outage}, nil
}

// clients send requests to a service at a steady rate, without waiting for earlier answers.
type clients struct {
	url  string
	done chan struct{}
	wait sync.WaitGroup

	mu            sync.Mutex
	asked, failed int
	last          error
	answered      time.Time // time at which the latest answered request was sent
	longest       time.Duration
}

func newClients(url string, rate float64) *clients {
	c := &clients{url: url, done: make(chan struct{})}
	c.wait.Add(1)
	go func() {
		defer c.wait.Done()
		tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
		defer tick.Stop()
		for {
			select {
			case <-c.done:
				return
			case <-tick.C:
				c.wait.Add(1)
				go c.ask()
			}
		}
	}()
	return c
}

// ask sends one request over a connection of its own.
func (c *clients) ask() {
	defer c.wait.Done()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	sent := time.Now()
	response, err := client.Get(c.url) //nolint:noctx // it has a limit
	if err == nil {
		err = response.Body.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if err != nil {
		c.failed, c.last = c.failed+1, err
		return
	}
	if !c.answered.IsZero() && sent.After(c.answered) {
		c.longest = max(c.longest, sent.Sub(c.answered))
	}
	if sent.After(c.answered) {
		c.answered = sent
	}
}

// stop waits for the outstanding answers.
func (c *clients) stop() {
	close(c.done)
	c.wait.Wait()
}

// switching holds one local host, and the part of a log that its steps read.
type switching struct {
	replication
	home, url string
	blobs     blob.Store
}

func newSwitching(ctx context.Context) (*switching, error) {
	home, err := os.MkdirTemp("", "waybill-bench-switch-")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	w := &switching{home: home, url: "http://" + address + "/",
		replication: replication{pool: ssh.NewPool(ssh.Config{}), definition: fleet(1, 1)}}
	w.definition.Keep.Releases = 3
	w.definition.Service = pipeline.Service{Name: "fleet", Manager: pipeline.ManagerProcess,
		Exec: []string{self, listenName, address}, Restart: "restart",
		Ready: pipeline.Ready{For: action.Duration(time.Second), Within: action.Duration(time.Minute)}}
	if w.blobs, err = blob.Open(ctx, filepath.Join(home, "blobs")); err != nil {
		return nil, err
	}
	w.handler = host.New(host.Config{Hosts: host.Hosts{Home: home, Dir: home, SSH: w.pool,
		Env: []string{"PATH=" + os.Getenv("PATH")}}, Ledger: w, Blobs: w.blobs, LedgerID: "bench"})
	return w, nil
}

// ship takes a revision of its own through replicate and deploy.
func (w *switching) ship(ctx context.Context, number int64) error {
	var release bytes.Buffer
	t := tar.NewWriter(&release)
	text := fmt.Sprintf("revision %d\n", number)
	err := t.WriteHeader(&tar.Header{Name: "revision", Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = t.Write([]byte(text))
	}
	if err := errors.Join(err, t.Close()); err != nil {
		return err
	}
	key, digest, size, err := w.blobs.Put(ctx, "sha256/", &release)
	if err != nil {
		return err
	}
	w.revision = pipeline.RegisteredRevision{Pipeline: "fleet", Seq: number, Label: fmt.Sprintf("r%d", number),
		Artifacts: []pipeline.RevisionArtifact{{Label: "any", Name: "release.tar", Digest: digest, Size: size, Blob: key}}}
	for i, event := range []string{pipeline.HostReplicated, pipeline.HostDeployed} {
		outcome := w.handler.Do(ctx, conductor.Attempt{Number: 1, Action: action.Action{ID: action.ID{byte(number), byte(i)}, Handler: "step",
			Step: &action.StepRef{Pipeline: "fleet", Deployment: number, Target: "fleet/s00/all/s00h000000", Event: event,
				Revision: number, Version: 1}}})
		if outcome.Kind != action.Done {
			return fmt.Errorf("%s of revision %d: %s", event, number, outcome.Error)
		}
	}
	return nil
}

// end stops the service and removes the host.
func (w *switching) end(ctx context.Context) error {
	defer w.pool.Close()
	stops, err := host.Stops(ctx, w.home, "bench", "fleet", host.InstalledBy(&w.definition), "bench")
	if err != nil {
		return err
	}
	for i, stop := range stops {
		stop.ID = action.ID{255, byte(i)}
		outcome := host.Stopper{Home: w.home, LedgerID: "bench", Log: w}.Do(ctx, conductor.Attempt{Action: stop, Number: 1})
		if outcome.Kind != action.Done {
			return errors.New(outcome.Error)
		}
	}
	return os.RemoveAll(w.home)
}
