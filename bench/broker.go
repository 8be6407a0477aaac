package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/conductor/handler/noop"
	"github.com/waybill-dev/waybill/internal/loop"
)

func brokerFlags(f *flag.FlagSet, o *Options) {
	counted(2_000)(f, o)
	f.IntVar(&o.Writers, "clients", 64, "platforms at the same time")
	f.BoolVar(&o.Polls, "polls", false, "poll service instances, instead of making and deleting them")
}

const (
	brokerUser, brokerPassword = "platform", "the-password-of-the-bench"

	brokerCatalog = `services: [{id: nothing, name: nothing, description: Nothing, plans: [
  {id: one, name: one, description: One, handlers: {provision: noop, deprovision: noop}}]}]
`
	brokerBody = `{"service_id":"nothing","plan_id":"one","organization_guid":"o","space_guid":"s","context":{"platform":"bench"}}`
)

// broke measures service instances/s that so many platforms make, poll and delete over HTTP, or polls/s, in turn with a broker in
// memory that does nothing.
func broke(ctx context.Context, o Options) ([]Result, error) {
	unit, wanted, slowest := "service instances/s", map[string]float64{"sqlite": 100, "postgres": 400}[o.Driver], 50.0
	if o.Polls {
		unit, wanted, slowest = "polls/s", 2_000, 20
	}
	ours := Result{Bench: "broker", Subject: fmt.Sprintf("waybill, %d clients", o.Writers), Driver: o.Driver, Unit: unit}
	theirs := Result{Bench: "broker", Subject: "brokerapi in memory", Version: moduleVersion(brokerModule), Driver: "none", Unit: unit}
	for range o.Rounds {
		if err := inTurn(1, &ours, func() (Round, error) { return brokerRound(ctx, o) }); err != nil {
			return nil, err
		}
		if err := inTurn(1, &theirs, func() (Round, error) { return brokerMemoryRound(ctx, o) }); err != nil {
			return nil, fmt.Errorf("brokerapi: %w", err)
		}
	}
	_, p99 := percentiles(ours)
	_, their99 := percentiles(theirs)
	ours.against(theirs, 0)
	ours.judge(fmt.Sprintf("%g/s", wanted), ours.Median >= wanted)
	p99.judge(fmt.Sprintf("p99 under %g ms", slowest), p99.Median < slowest)
	return []Result{ours, p99, theirs, their99}, nil
}

// brokerRound measures a broker on an empty ledger, with a conductor beside it.
func brokerRound(ctx context.Context, o Options) (Round, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer s.remove()
	served, err := serveBroker(s)
	if err != nil {
		return Round{}, err
	}
	face := httptest.NewServer(served)
	defer face.Close()
	defer s.runHandler(ctx, noop.Handler{})()
	return s.measure(ctx, func() (Round, error) { return usePlatforms(ctx, o, face.URL) })
}

// serveBroker returns the broker of a ledger.
func serveBroker(s *scratch) (http.Handler, error) {
	folder, err := os.MkdirTemp("", "waybill-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "catalog.yaml")
	if err := os.WriteFile(file, []byte(brokerCatalog), 0o600); err != nil {
		return nil, err
	}
	handlers := map[string]broker.Handler{"noop": {Parameters: []string{}, Prepare: func(parameters json.RawMessage) (action.Action, error) {
		a := job()
		a.Parameters = parameters
		return a, nil
	}}}
	catalog, err := broker.OpenCatalog(file, func() broker.Offer { return broker.Offer{Handlers: handlers} })
	if err != nil {
		return nil, err
	}
	users := map[string]broker.User{brokerUser: {Passwords: [][sha256.Size]byte{sha256.Sum256([]byte(brokerPassword))}}}
	return broker.New(broker.Config{Ledger: s.Ledger.ForReaders(), Catalog: catalog, Log: slog.New(slog.DiscardHandler),
		Users: func() map[string]broker.User { return users }, Handlers: func() map[string]broker.Handler { return handlers },
		Tombstone: func() time.Duration { return time.Hour }}), nil
}

// platforms are clients of a broker.
type platforms struct {
	client *http.Client
	url    string
}

// usePlatforms has clients take service instances through their lives, or poll them. The times are those of the PUTs, or of the polls.
func usePlatforms(ctx context.Context, o Options, url string) (Round, error) {
	p := platforms{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.Writers}}, url + "/v2/service_instances/"}
	defer p.client.CloseIdleConnections()
	if !o.Polls {
		return shared(o, func(n int64) (time.Duration, error) { return p.live(ctx, fmt.Sprint("demo-", n)) })
	}
	const polled = 100 // service instances
	for n := range polled {
		if _, err := p.change(ctx, http.MethodPut, fmt.Sprint("demo-", n)); err != nil {
			return Round{}, err
		}
	}
	return shared(o, func(n int64) (time.Duration, error) {
		begun := time.Now()
		_, err := p.send(ctx, http.MethodGet, fmt.Sprintf("demo-%d/last_operation", n%polled), "")
		return time.Since(begun), err
	})
}

// shared has clients do one thing after the other, o.N in all, and measures the times that it returns.
func shared(o Options, do func(n int64) (time.Duration, error)) (Round, error) {
	took, failed := make([]float64, o.N), make(chan error, o.Writers)
	var next atomic.Int64
	var clients sync.WaitGroup
	start := time.Now()
	for range o.Writers {
		clients.Go(func() {
			for n := next.Add(1) - 1; n < int64(o.N); n = next.Add(1) - 1 {
				one, err := do(n)
				if err != nil {
					failed <- err
					return
				}
				took[n] = milliseconds(one)
			}
		})
	}
	clients.Wait()
	round := measured(o.N, start)
	select {
	case err := <-failed:
		return Round{}, err
	default:
	}
	slices.Sort(took)
	round.P50, round.P99 = took[len(took)/2], took[len(took)*99/100]
	return round, nil
}

// live makes a service instance and deletes it, and returns the time until the answer to its PUT.
func (p platforms) live(ctx context.Context, id string) (put time.Duration, err error) {
	if put, err = p.change(ctx, http.MethodPut, id); err != nil {
		return 0, err
	}
	_, err = p.change(ctx, http.MethodDelete, id)
	return put, err
}

// pollEvery is the time between two polls of an operation.
const pollEvery = 5 * time.Millisecond

// change starts an operation and polls until it has succeeded. It returns the time until the answer to the request.
func (p platforms) change(ctx context.Context, method, id string) (time.Duration, error) {
	begun := time.Now()
	_, err := p.send(ctx, method, id+"?accepts_incomplete=true&service_id=nothing&plan_id=one", brokerBody)
	took := time.Since(begun)
	for err == nil {
		var state string
		state, err = p.send(ctx, http.MethodGet, id+"/last_operation", "")
		switch {
		case err != nil:
		case state == "succeeded":
			return took, nil
		case state != "in progress":
			err = fmt.Errorf("%s %s: the operation is %q", method, id, state)
		case !loop.Pause(ctx, pollEvery):
			err = context.Cause(ctx)
		}
	}
	return took, err
}

// send sends a request, and returns the state that the answer has.
func (p platforms) send(ctx context.Context, method, path, body string) (state string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.SetBasicAuth(brokerUser, brokerPassword)
	r.Header.Set("X-Broker-API-Version", "2.17")
	response, err := p.client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return "", fmt.Errorf("%s %s: %s %s", method, path, response.Status, text)
	}
	var answer struct{ State string }
	err = json.Unmarshal(text, &answer)
	return answer.State, err
}
