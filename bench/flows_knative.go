package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// knativeTimes is the number of measurements of each side, and knativePatience bounds their time.
const (
	knativeTimes    = 10
	knativePatience = 3 * time.Minute
)

var flowTriggers = schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1", Resource: "triggers"}

// flowKnative measures from the creation of a flow until it is ready, with Knative's own controllers, in turn with a Broker and a Trigger
// of Knative's, each in a new namespace.
func flowKnative(ctx context.Context, o Options) (results []Result, err error) {
	o.Flow.Namespaces = 1
	w, err := openFlowWorld(ctx, o, "knative")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.startController(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, knativePatience, fmt.Errorf("not done after %s", knativePatience))
	defer cancel()
	var ours, theirs []time.Duration
	for i := range knativeTimes {
		flow, err := w.knativeFlow(ctx, fmt.Sprintf("ours-%d", i))
		if err != nil {
			return nil, fmt.Errorf("make a flow: %w", err)
		}
		trigger, err := w.knativeTrigger(ctx, fmt.Sprintf("theirs-%d", i))
		if err != nil {
			return nil, fmt.Errorf("make a Broker and a Trigger: %w", err)
		}
		ours, theirs = append(ours, flow), append(theirs, trigger)
	}
	flow := flowResult(fmt.Sprintf("a flow is ready with Knative's controllers, median of %d", knativeTimes), "s", percentileOf(ours, 0.5).Seconds()).
		beside("Knative's own Broker and Trigger")
	own := flowResult(flow.Rival, "s", percentileOf(theirs, 0.5).Seconds())
	flow = flow.atMost(2*own.Rounds[0].PerSecond, "under 2 × Knative's own")
	return []Result{flow, own}, nil
}

// knativeBroker returns the reference to the configuration of a Broker, which Knative's webhook would set.
func knativeBroker() map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "knative-eventing", "name": "config-br-default-channel"}
}

// knativeFlow makes a Channel, and once it is ready a flow, and returns the time until that is ready.
func (w *flowWorld) knativeFlow(ctx context.Context, namespace string) (time.Duration, error) {
	if err := w.namespace(ctx, namespace); err != nil {
		return 0, err
	}
	const channel, name = "in", "flow"
	template := map[string]any{"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel"}
	err := w.make(ctx, flowChannelKind, namespace, flowObject("messaging.knative.dev/v1", "Channel", channel, map[string]any{"channelTemplate": template}))
	if err != nil {
		return 0, err
	}
	seen, end, err := w.follower(ctx, flowChannelKind, namespace, channel)
	if err != nil {
		return 0, err
	}
	defer end()
	if _, err := until(ctx, seen, "True", time.Time{}); err != nil {
		return 0, fmt.Errorf("await the Channel: %w", err)
	}
	seen, end, err = w.follower(ctx, v1alpha1.Resource(), namespace, name)
	if err != nil {
		return 0, err
	}
	defer end()
	spec := map[string]any{
		"source": map[string]any{"ref": map[string]any{"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": channel}},
		"sink":   map[string]any{"broker": map[string]any{"class": "MTChannelBasedBroker", "config": knativeBroker()}},
	}
	began := time.Now()
	if err := w.make(ctx, v1alpha1.Resource(), namespace, flowObject(v1alpha1.APIVersion, v1alpha1.Kind, name, spec)); err != nil {
		return 0, err
	}
	return until(ctx, seen, "True", began)
}

// knativeTrigger makes a Broker and a Trigger at once, and returns the time until both are ready.
func (w *flowWorld) knativeTrigger(ctx context.Context, namespace string) (time.Duration, error) {
	if err := w.namespace(ctx, namespace); err != nil {
		return 0, err
	}
	broker := flowObject("eventing.knative.dev/v1", "Broker", "default", map[string]any{"config": knativeBroker()})
	broker.SetAnnotations(map[string]string{"eventing.knative.dev/broker.class": "MTChannelBasedBroker"})
	trigger := flowObject("eventing.knative.dev/v1", "Trigger", "out", map[string]any{"broker": "default",
		"subscriber": map[string]any{"uri": "http://sink.example.svc.cluster.local/"}}, "eventing.knative.dev/broker", "default")
	var later time.Duration
	var seen []<-chan sight
	for _, one := range []struct {
		kind schema.GroupVersionResource
		name string
	}{{flowBrokers, "default"}, {flowTriggers, "out"}} {
		sights, end, err := w.follower(ctx, one.kind, namespace, one.name)
		if err != nil {
			return 0, err
		}
		defer end()
		seen = append(seen, sights)
	}
	began := time.Now()
	for _, one := range []*unstructured.Unstructured{broker, trigger} {
		kind := map[string]schema.GroupVersionResource{"Broker": flowBrokers, "Trigger": flowTriggers}[one.GetKind()]
		if err := w.make(ctx, kind, namespace, one); err != nil {
			return 0, err
		}
	}
	for _, sights := range seen {
		ready, err := until(ctx, sights, "True", began)
		if err != nil {
			return 0, err
		}
		later = max(later, ready)
	}
	return later, nil
}

// follower follows an object, which may not exist yet, until end is called.
func (w *flowWorld) follower(ctx context.Context, kind schema.GroupVersionResource, namespace, name string) (<-chan sight, func(), error) {
	ctx, end := context.WithCancel(ctx)
	seen, err := w.follow(ctx, kind, namespace, name)
	return seen, end, err
}
