package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/service"
)

func eventFlags(f *flag.FlagSet, o *Options) {
	counted(20_000)(f, o)
	f.IntVar(&o.Writers, "senders", 64, "senders at the same time")
	o.Rate = 20
	f.BoolVar(&o.Start, "start", false, "measure how long it takes until the action of an event starts, beside latency")
	f.Func("rate", "with --start: events a second (default 20/s)", perSecond(&o.Rate))
}

const eventToken = "the-token-of-the-bench"

// eventTriggers is the server.yaml of the bench.
const eventTriggers = `triggers: {orders: {filter: {exact: {type: order}}, handler: noop, parameters: {data: {path: $.data}}, backlog: 1000000}}`

// events measures events/s of 1 KiB that so many senders send over HTTP, beside the enqueue of as many callers.
func events(ctx context.Context, o Options) ([]Result, error) {
	if o.Start {
		o.N = min(o.N, mostStarts)
		return eventStarts(ctx, o)
	}
	ours := Result{Bench: "events", Subject: fmt.Sprintf("%d senders", o.Writers), Driver: o.Driver, Unit: "events/s"}
	beside := Result{Bench: "events", Subject: fmt.Sprintf("enqueue, %d callers", o.Writers), Driver: o.Driver, Unit: "actions/s"}
	for range o.Rounds {
		round, err := eventRound(ctx, o)
		if err != nil {
			return nil, err
		}
		ours.Rounds = append(ours.Rounds, round)
		if round, err = enqueueRound(ctx, o, true); err != nil {
			return nil, err
		}
		beside.Rounds = append(beside.Rounds, round)
	}
	_, p99 := percentiles(ours)
	ours.summarize()
	beside.summarize()
	ours.against(beside, 0.15)
	p99.judge("p99 under 50 ms", p99.Median < 50)
	return []Result{ours, p99, beside}, nil
}

// eventRound sends events, and counts their actions.
func eventRound(ctx context.Context, o Options) (Round, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer s.remove()
	face, err := eventFace(s.Ledger)
	if err != nil {
		return Round{}, err
	}
	defer face.Close()
	round, err := s.measure(ctx, func() (Round, error) { return sendEvents(ctx, o, face.URL) })
	if err != nil {
		return Round{}, err
	}
	made, err := s.Actions(ctx, queue.ActionQuery{Limit: o.N + 1})
	if err == nil && len(made) != o.N {
		err = fmt.Errorf("%d events have %d actions", o.N, len(made))
	}
	return round, err
}

// eventFace serves the API of a ledger with the trigger of the bench.
func eventFace(l *ledger.Ledger) (*httptest.Server, error) {
	c, err := config.Read("server.yaml", []byte(eventTriggers))
	if err != nil {
		return nil, err
	}
	offers := service.Offers{Triggers: func() map[string]config.Trigger { return c.Triggers }}
	return httptest.NewServer(server.New(service.New(l, nil, service.Options{Offers: offers}), server.Options{Token: eventToken}).Handler()), nil
}

// sendEvents sends events of 1 KiB, and measures the time until each answer.
func sendEvents(ctx context.Context, o Options, url string) (Round, error) {
	body := fmt.Appendf(nil, `{"text": %q}`, bytes.Repeat([]byte("x"), 1000))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.Writers}}
	defer client.CloseIdleConnections()
	took, failed := make([]float64, o.N), make(chan error, o.Writers)
	var next atomic.Int64
	var senders sync.WaitGroup
	start := time.Now()
	for range o.Writers {
		senders.Go(func() {
			for n := next.Add(1) - 1; n < int64(o.N); n = next.Add(1) - 1 {
				sent := time.Now()
				if err := sendEvent(ctx, client, url, n, body); err != nil {
					failed <- err
					return
				}
				took[n] = milliseconds(time.Since(sent))
			}
		})
	}
	senders.Wait()
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

// sendEvent sends one event.
func sendEvent(ctx context.Context, client *http.Client, url string, n int64, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/v1/events/orders", bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + eventToken, "Content-Type": "application/json", "ce-specversion": "1.0",
		"ce-type": "order", "ce-source": "/bench", "ce-id": fmt.Sprint(n)} {
		r.Header.Set(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("event %d: %s", n, response.Status)
	}
	return nil
}
