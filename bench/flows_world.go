package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// The world of flows.
const (
	flowIntegration = "integration" // namespace of the Channels
	flowChannels    = 50
	flowPatience    = 20 * time.Minute // bounds each wait
)

// flowWorld is a cluster with Channels, a stub that makes objects ready, and a controller.
type flowWorld struct {
	*flowCluster
	options    flowOptions
	folder     string
	program    string
	watch      *flowWatch
	controller *flowController
	status     map[string]any // status of a flow that was ready
	cancel     context.CancelFunc
}

// openFlowWorld starts the cluster and the stub, and makes the namespaces and the Channels.
func openFlowWorld(ctx context.Context, o Options, args ...string) (w *flowWorld, err error) {
	w = &flowWorld{options: o.Flow}
	ctx, w.cancel = context.WithCancel(ctx)
	if w.folder, w.program, err = makeProgram(ctx); err != nil {
		return nil, err
	}
	if w.flowCluster, err = startFlowCluster(ctx, w.folder, args...); err != nil {
		return nil, errors.Join(err, w.close())
	}
	if err := w.prepare(ctx, len(args) == 0); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// prepare starts to watch the flows, and without Knative's programs the stub.
func (w *flowWorld) prepare(ctx context.Context, stub bool) (err error) {
	if w.watch, err = watchFlows(ctx, w.client); err != nil || !stub {
		return err
	}
	if err := runFlowStub(ctx, w.client); err != nil {
		return err
	}
	return w.makePlaces(ctx)
}

// close ends the controller and the cluster.
func (w *flowWorld) close() (err error) {
	if w.controller != nil {
		w.controller.kill()
	}
	w.cancel()
	if w.flowCluster != nil {
		err = w.stop()
	}
	return errors.Join(err, os.RemoveAll(w.folder))
}

// makePlaces makes the namespaces and the Channels.
func (w *flowWorld) makePlaces(ctx context.Context) error {
	if err := w.namespace(ctx, flowIntegration); err != nil {
		return err
	}
	err := atOnce(flowChannels, func(i int) error {
		return w.make(ctx, flowChannelKind, flowIntegration, flowObject("messaging.knative.dev/v1", "Channel", flowApplication(i), nil,
			"application-name", flowApplication(i)))
	})
	return errors.Join(err, atOnce(w.options.Namespaces, func(i int) error { return w.namespace(ctx, flowNamespace(i)) }))
}

func flowNamespace(i int) string   { return fmt.Sprintf("team-%d", i) }
func flowApplication(i int) string { return fmt.Sprintf("app-%d", i%flowChannels) }

// flowObject returns an object, with a label if one is given.
func flowObject(version, kind, name string, spec map[string]any, label ...string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
	if spec != nil {
		o.Object["spec"] = spec
	}
	o.SetName(name)
	if len(label) == 2 {
		o.SetLabels(map[string]string{label[0]: label[1]})
	}
	return o
}

func (w *flowWorld) namespace(ctx context.Context, name string) error {
	return w.make(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", flowObject("v1", "Namespace", name, nil))
}

// make creates an object.
func (w *flowWorld) make(ctx context.Context, kind schema.GroupVersionResource, namespace string, o *unstructured.Unstructured) error {
	_, err := w.client.Resource(kind).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{})
	return err
}

// makeFlow makes a flow from the Channel of an application to the Broker default of its namespace.
func (w *flowWorld) makeFlow(ctx context.Context, namespace, name, application string) error {
	spec := map[string]any{"source": map[string]any{"application": application}}
	return w.make(ctx, v1alpha1.Resource(), namespace, flowObject(v1alpha1.APIVersion, v1alpha1.Kind, name, spec))
}

// deleteFlow deletes a flow.
func (w *flowWorld) deleteFlow(ctx context.Context, namespace, name string) error {
	err := w.client.Resource(v1alpha1.Resource()).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// placeOf returns the namespace and the name of a flow.
func (w *flowWorld) placeOf(i int) (namespace, name string) {
	return flowNamespace(i / w.options.perBroker()), fmt.Sprintf("flow-%d", i%w.options.perBroker())
}

// makeFlows makes all flows.
func (w *flowWorld) makeFlows(ctx context.Context) error {
	return atOnce(w.options.Flows, func(i int) error {
		namespace, name := w.placeOf(i)
		return w.makeFlow(ctx, namespace, name, flowApplication(i))
	})
}

// deleteFlows deletes all flows.
func (w *flowWorld) deleteFlows(ctx context.Context) error {
	return atOnce(w.options.Flows, func(i int) error {
		namespace, name := w.placeOf(i)
		return w.deleteFlow(ctx, namespace, name)
	})
}

// startController starts the controller, with the election of a leader.
func (w *flowWorld) startController(ctx context.Context) (err error) {
	w.controller, err = startFlowController(ctx, flowControllerOptions{w.program, w.folder, w.flowCluster.account, true})
	return err
}

// makeReady makes all flows and waits until they are ready and the controller rests.
func (w *flowWorld) makeReady(ctx context.Context) error {
	if err := w.makeFlows(ctx); err != nil {
		return err
	}
	if _, err := w.measure(ctx, w.startController, func(all, ready int) bool { return all == w.options.Flows && ready == all }); err != nil {
		return fmt.Errorf("make all flows ready: %w", err)
	}
	return nil
}

// flowPhase has the figures of a phase: its length, the CPU time of the controller in microseconds, and the writes.
type flowPhase struct {
	seconds, cpu float64
	writes       map[string]int
}

// measure does something and waits until the flows are as wanted; the writes that follow count too.
func (w *flowWorld) measure(ctx context.Context, do func(context.Context) error, done func(all, ready int) bool) (p flowPhase, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, flowPatience, fmt.Errorf("not done after %s", flowPatience))
	defer cancel()
	before, err := w.flowWrites(ctx)
	if err != nil {
		return p, err
	}
	cpu := w.controllerCPU()
	began := time.Now()
	if err := do(ctx); err != nil {
		return p, err
	}
	at, err := w.watch.await(ctx, func(w *flowWatch) bool { return done(len(w.flows), w.ready) })
	if err != nil {
		return p, err
	}
	after, err := w.settledWrites(ctx)
	return flowPhase{at.Sub(began).Seconds(), float64((w.controllerCPU() - cpu).Microseconds()), minus(after, before)}, err
}

// controllerCPU returns the CPU time of the controller.
func (w *flowWorld) controllerCPU() time.Duration {
	if w.controller == nil {
		return 0
	}
	p, _ := processOf(w.controller.process.Process.Pid)
	return p.own
}

// managedObjects counts the Brokers and Subscriptions in the cluster. The bench has made none.
func (w *flowWorld) managedObjects(ctx context.Context) (n int, err error) {
	for _, kind := range []schema.GroupVersionResource{flowBrokers, flowSubscriptions} {
		list, err := w.client.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		n += len(list.Items)
	}
	return n, nil
}

// atOnce calls do for 0 to n-1, 16 at a time, and returns the first error.
func atOnce(n int, do func(int) error) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	failed := make(chan error, 16)
	for range 16 {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	workers.Wait()
	close(failed)
	return <-failed
}
