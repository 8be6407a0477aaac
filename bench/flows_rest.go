package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/loop"
)

// flowRestart starts the controller again beside flows that are all ready. It measures the time until every flow was visited, and counts
// the writes. The anchor is a client that only follows the same objects.
func flowRestart(ctx context.Context, o Options) (results []Result, err error) {
	w, err := openFlowWorld(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.makeReady(ctx); err != nil {
		return nil, err
	}
	w.controller.end()
	before, err := w.settledWrites(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := w.startController(ctx); err != nil {
		return nil, err
	}
	visited, passes, err := w.visited(ctx)
	if err != nil {
		return nil, err
	}
	after, err := w.settledWrites(ctx)
	if err != nil {
		return nil, err
	}
	bare, err := w.bareInformers(ctx)
	if err != nil {
		return nil, err
	}
	writes := minus(after, before)
	subject := fmt.Sprintf("restart until all of %d flows were visited", o.Flow.Flows)
	r := flowResult(subject, "s", visited.Sub(began).Seconds()).within(20, o.Flow.Flows).beside("bare informers of the same objects")
	r.Rounds[0].ClientCPU = float64(w.controllerCPU().Microseconds()) / float64(o.Flow.Flows)
	results = []Result{r, flowResult(r.Rival, "s", bare), flowResult("passes over them", "", float64(passes)),
		flowResult("write requests of the restart", "", float64(total(writes))).atMost(0, "0")}
	return append(results, kindsOfWrites(writes, nil, 1)...), nil
}

// visited waits until the controller has made a pass over each flow and no more follow, and returns the time of the last one.
func (w *flowWorld) visited(ctx context.Context) (at time.Time, passes int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, flowPatience, fmt.Errorf("not all flows were visited within %s", flowPatience))
	defer cancel()
	for {
		n, err := w.controller.passes(ctx)
		if err != nil {
			return at, n, err
		}
		if n != passes {
			at, passes = time.Now(), n
		}
		if passes >= w.options.Flows && time.Since(at) > 2*time.Second {
			return at, passes, nil
		}
		if !loop.Pause(ctx, 20*time.Millisecond) {
			return at, passes, fmt.Errorf("%d passes over %d flows: %w", passes, w.options.Flows, context.Cause(ctx))
		}
	}
}

// bareInformers returns the seconds until informers with the controller's account have all objects that it follows.
func (w *flowWorld) bareInformers(ctx context.Context) (float64, error) {
	client, err := w.accountClient()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	for _, kind := range []schema.GroupVersionResource{definitions, v1alpha1.Resource(), flowChannelKind, flowBrokers, flowSubscriptions} {
		if err := inform(ctx, client, kind, func(string, *unstructured.Unstructured) {}); err != nil {
			return 0, err
		}
	}
	return time.Since(began).Seconds(), nil
}

// flowIdle measures the controller beside flows at rest.
func flowIdle(ctx context.Context, o Options) (results []Result, err error) {
	w, err := openFlowWorld(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.makeReady(ctx); err != nil {
		return nil, err
	}
	before, err := w.settledWrites(ctx)
	if err != nil {
		return nil, err
	}
	_, passes, err := w.visited(ctx) // the last passes follow the last writes
	if err != nil {
		return nil, err
	}
	cpu, began := w.controllerCPU(), time.Now()
	if !loop.Pause(ctx, o.Flow.Idle) {
		return nil, context.Cause(ctx)
	}
	used := (w.controllerCPU() - cpu).Seconds() / time.Since(began).Seconds()
	resident := residentMB(w.controller.process.Process.Pid) * 1e6 / (1 << 20)
	after, err := w.flowWrites(ctx)
	if err != nil {
		return nil, err
	}
	still, err := w.controller.passes(ctx)
	subject := fmt.Sprintf(" beside %d flows at rest, for %s", o.Flow.Flows, o.Flow.Idle)
	return []Result{
		flowResult("CPU"+subject, "cores", used).atMost(0.02, "under 0.02 cores"),
		flowResult("resident memory"+subject, "MiB", resident).atMost(200, "under 200 MiB"),
		flowResult("write requests"+subject, "", float64(total(minus(after, before)))).atMost(0, "0"),
		flowResult("passes"+subject, "", float64(still-passes)),
	}, err
}
