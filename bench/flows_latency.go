package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// flowLatency measures from the request that makes a Broker ready until its flow is seen ready, and until the Broker is seen ready. The
// flow is in a namespace of its own beside all others.
func flowLatency(ctx context.Context, o Options) (results []Result, err error) {
	const namespace, name = "latency", "flow"
	w, err := openFlowWorld(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.makeReady(ctx); err != nil {
		return nil, err
	}
	if err := w.namespace(ctx, namespace); err != nil {
		return nil, err
	}
	if err := w.makeFlow(ctx, namespace, name, flowApplication(0)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, flowPatience, fmt.Errorf("not done after %s", flowPatience))
	defer cancel()
	if _, err := w.watch.await(ctx, func(w *flowWatch) bool { return w.flows[namespace+"/"+name] }); err != nil {
		return nil, err
	}
	broker, err := w.client.Resource(flowBrokers).Namespace(namespace).Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	flowSeen, err := w.follow(ctx, v1alpha1.Resource(), namespace, name)
	if err != nil {
		return nil, err
	}
	brokerSeen, err := w.follow(ctx, flowBrokers, namespace, "default")
	if err != nil {
		return nil, err
	}
	var delays, bare []time.Duration
	for range o.N {
		if _, _, err := w.turn(ctx, broker, "False", flowSeen, brokerSeen); err != nil {
			return nil, err
		}
		flow, itself, err := w.turn(ctx, broker, "True", flowSeen, brokerSeen)
		if err != nil {
			return nil, err
		}
		delays, bare = append(delays, flow), append(bare, itself)
	}
	subject := fmt.Sprintf("Broker turns ready until its flow is, beside %d flows, %d times", o.Flow.Flows, o.N)
	const rival = "bare watch of the Broker"
	at := func(all []time.Duration, share float64) float64 { return percentileOf(all, share).Seconds() * 1000 }
	return []Result{
		flowResult(subject, "ms p50", at(delays, 0.5)).atMost(30, "p50 under 30 ms").beside(rival),
		flowResult(rival, "ms p50", at(bare, 0.5)),
		flowResult(subject, "ms p99", at(delays, 0.99)).atMost(250, "p99 under 250 ms").beside(rival + ", p99"),
		flowResult(rival+", p99", "ms p99", at(bare, 0.99)),
	}, nil
}

// percentileOf returns the duration that a share of all does not exceed.
func percentileOf(all []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// turn makes a Broker ready or not, and returns the times until flow and Broker are seen so.
func (w *flowWorld) turn(ctx context.Context, broker *unstructured.Unstructured, ready string, flow, itself <-chan sight) (toFlow, toBroker time.Duration, err error) {
	began := time.Now()
	if err := setReady(ctx, w.client, flowBrokers, broker, ready); err != nil {
		return 0, 0, err
	}
	if toBroker, err = until(ctx, itself, ready, began); err != nil {
		return 0, 0, fmt.Errorf("await the Broker: %w", err)
	}
	if toFlow, err = until(ctx, flow, ready, began); err != nil {
		return 0, 0, fmt.Errorf("await the flow: %w", err)
	}
	pause(ctx, 150*time.Millisecond) // the controller bounds the passes over a flow in a second
	return toFlow, toBroker, nil
}

// sight is the readiness of an object, and when it was seen.
type sight struct {
	at    time.Time
	ready string
}

func until(ctx context.Context, seen <-chan sight, ready string, began time.Time) (time.Duration, error) {
	for {
		select {
		case s, open := <-seen:
			if !open {
				return 0, errors.New("the watch has ended")
			}
			if s.ready == ready && s.at.After(began) {
				return s.at.Sub(began), nil
			}
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// follow watches one object until ctx ends.
func (w *flowWorld) follow(ctx context.Context, kind schema.GroupVersionResource, namespace, name string) (<-chan sight, error) {
	events, err := w.client.Resource(kind).Namespace(namespace).
		Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return nil, err
	}
	seen := make(chan sight, 10_000)
	go func() {
		defer close(seen)
		for event := range events.ResultChan() {
			if o, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Deleted {
				seen <- sight{time.Now(), readiness(o)}
			}
		}
	}()
	return seen, nil
}
