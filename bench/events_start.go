package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
)

// mostStarts is the number of events after whose start it is measured in a round.
const mostStarts = 400

// eventHandler notes when the actions of events start, by the number in their data.
type eventHandler struct{ *starts }

// Do notes the time.
func (h eventHandler) Do(_ context.Context, a conductor.Attempt) action.Outcome {
	var parameters struct{ Data struct{ N string } }
	if err := json.Unmarshal(a.Action.Parameters, &parameters); err != nil {
		return action.Outcome{Kind: action.Fatal, Error: err.Error()}
	}
	h.note(parameters.Data.N)
	return action.Outcome{Kind: action.Done}
}

// eventStarts measures from the answer to an event, and from before the event was sent, until its action starts, in turn with latency.
func eventStarts(ctx context.Context, o Options) ([]Result, error) {
	answered := Result{Bench: "events --start", Subject: fmt.Sprintf("from the answer, %g/s", o.Rate), Driver: o.Driver}
	sent := Result{Bench: "events --start", Subject: fmt.Sprintf("from the request, %g/s", o.Rate), Driver: o.Driver}
	plain := Result{Bench: "events --start", Subject: fmt.Sprintf("latency, %g/s", o.Rate), Driver: o.Driver}
	for range o.Rounds {
		whole, after, err := eventStartRound(ctx, o)
		if err != nil {
			return nil, err
		}
		sent.Rounds, answered.Rounds = append(sent.Rounds, whole), append(answered.Rounds, after)
		if err := inTurn(1, &plain, func() (Round, error) { return latencyRound(ctx, o) }); err != nil {
			return nil, err
		}
	}
	after50, after99 := percentiles(answered)
	sent50, sent99 := percentiles(sent)
	plain50, plain99 := percentiles(plain)
	after50.against(plain50, 0)
	after50.judge("p50 under 2 × latency", after50.Median < 2*plain50.Median)
	sent50.against(plain50, 0)
	return []Result{after50, after99, sent50, sent99, plain50, plain99}, nil
}

// eventStartRound sends events at the rate, and returns the times from the request and from the answer.
func eventStartRound(ctx context.Context, o Options) (whole, after Round, err error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return whole, after, err
	}
	defer s.remove()
	producer, done, err := s.producer(ctx)
	if err != nil {
		return whole, after, err
	}
	defer done()
	face, err := eventFace(producer)
	if err != nil {
		return whole, after, err
	}
	defer face.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	handler := newStarts(o)
	defer s.runHandler(ctx, eventHandler{handler})()
	answers := map[string]time.Time{}
	whole, err = steady(o, handler, func(name string) error {
		n, err := strconv.ParseInt(name, 10, 64)
		if err == nil {
			err = sendEvent(ctx, client, face.URL, n, fmt.Appendf(nil, `{"n": %q}`, name))
		}
		answers[name] = time.Now()
		return err
	})
	if err == nil {
		after, err = handler.since(o, func(n int) time.Time { return answers[strconv.Itoa(n)] })
	}
	return whole, after, err
}
