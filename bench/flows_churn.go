package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/loop"
)

// Sizes of the churn.
const (
	churnWriters  = 64
	churnLinks    = 8 // Channels of their flows
	churnKill     = 20 * time.Second
	churnPatience = time.Minute // bounds the waits for a flow that is to be ready, or gone
)

// churn has writers that make and delete flows of one Broker.
type churn struct {
	*flowWorld
	made, late, stuck atomic.Int64 // flows; those that were not ready in time, and not gone in time
}

// flowChurn kills the controller again and again while writers make and delete flows of one Broker, and counts the flows without a Broker
// and the objects that are left.
func flowChurn(ctx context.Context, o Options) (results []Result, err error) {
	o.Flow.Namespaces = 1
	w, err := openFlowWorld(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	c := &churn{flowWorld: w}
	kills, err := c.run(ctx, o.Flow.Churn)
	if err != nil {
		return nil, err
	}
	end, err := c.remain(ctx)
	if err != nil {
		return nil, err
	}
	left, err := c.empty(ctx)
	if err != nil {
		return nil, err
	}
	return []Result{
		flowResult(fmt.Sprintf("flows made and deleted by %d writers in %s", churnWriters, o.Flow.Churn), "", float64(c.made.Load())),
		flowResult("the controller was killed", "times", float64(kills)),
		flowResult("live flows not ready within "+churnPatience.String(), "", float64(c.late.Load())).atMost(0, "0"),
		flowResult("deleted flows not gone within "+churnPatience.String(), "", float64(c.stuck.Load())).atMost(0, "0"),
		flowResult("live flows without a Broker at the end", "", float64(end.unready)).atMost(0, "0"),
		flowResult("live flows without a claim at the end", "", float64(end.unclaimed)).atMost(0, "0"),
		flowResult("claims of flows that are gone", "", float64(end.stale)).atMost(0, "0"),
		flowResult("managed objects left", "", float64(left)).atMost(0, "0"),
	}, nil
}

// run has the writers work while the controller is killed every 20 seconds.
func (c *churn) run(ctx context.Context, d time.Duration) (kills int, err error) {
	working, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	failed := make(chan error, churnWriters)
	var writers sync.WaitGroup
	for i := range churnWriters {
		writers.Go(func() {
			if err := c.write(ctx, working, i); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	defer writers.Wait()
	if err := c.startChurned(ctx); err != nil {
		cancel()
		return 0, err
	}
	for loop.Pause(working, churnKill) {
		c.controller.kill()
		kills++
		if err := c.startChurned(ctx); err != nil {
			cancel()
			return kills, err
		}
	}
	writers.Wait()
	close(failed)
	return kills, <-failed
}

// startChurned starts a controller that works at once: an elected one would wait for the Lease of its killed predecessor.
func (c *churn) startChurned(ctx context.Context) (err error) {
	c.controller, err = startFlowController(ctx, flowControllerOptions{c.program, c.folder, c.flowCluster.account, false})
	return err
}

// write makes and deletes flows, about half before they are ready.
func (c *churn) write(ctx, working context.Context, i int) error {
	application := flowApplication(i % churnLinks)
	for n := 0; working.Err() == nil; n++ {
		name := fmt.Sprintf("writer-%d-%d", i, n)
		if err := c.makeFlow(ctx, flowNamespace(0), name, application); err != nil {
			return fmt.Errorf("make a flow: %w", err)
		}
		c.made.Add(1)
		key := flowNamespace(0) + "/" + name
		if rand.IntN(2) == 0 && !c.comes(ctx, func(w *flowWatch) bool { return w.flows[key] }) {
			c.late.Add(1)
			fmt.Fprintf(os.Stderr, "flow %s is not ready\n", key)
		}
		if err := c.deleteFlow(ctx, flowNamespace(0), name); err != nil {
			return fmt.Errorf("delete a flow: %w", err)
		}
		if rand.IntN(2) == 0 && !c.comes(ctx, func(w *flowWatch) bool { _, there := w.flows[key]; return !there }) {
			c.stuck.Add(1)
			fmt.Fprintf(os.Stderr, "flow %s is not gone\n", key)
		}
	}
	return nil
}

// comes reports whether a state comes in time.
func (c *churn) comes(ctx context.Context, done func(*flowWatch) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, churnPatience)
	defer cancel()
	_, err := c.watch.await(ctx, done)
	return err == nil
}

// churned is the state of the flows that stay, and of their Broker.
type churned struct{ unready, unclaimed, stale int }

// remain has half as many flows as writers stay. It returns how many are not ready, how many have no claim on the Broker, and how many claims
// are not theirs.
func (c *churn) remain(ctx context.Context) (end churned, err error) {
	c.comes(ctx, func(w *flowWatch) bool { return len(w.flows) == 0 }) // else they are counted as stale
	const stay = churnWriters / 2
	for i := range stay {
		if err := c.makeFlow(ctx, flowNamespace(0), fmt.Sprintf("stays-%d", i), flowApplication(i%churnLinks)); err != nil {
			return end, err
		}
	}
	c.comes(ctx, func(w *flowWatch) bool { return w.ready >= stay })
	claims := map[string]bool{}
	brokers, err := c.client.Resource(flowBrokers).Namespace(flowNamespace(0)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return end, err
	}
	for i := range brokers.Items {
		for key := range brokers.Items[i].GetAnnotations() {
			if uid, is := strings.CutPrefix(key, v1alpha1.ClaimPrefix); is {
				claims[uid] = true
			}
		}
	}
	flows, err := c.client.Resource(v1alpha1.Resource()).Namespace(flowNamespace(0)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return end, err
	}
	for i := range flows.Items {
		f := &flows.Items[i]
		if f.GetDeletionTimestamp() != nil {
			continue
		}
		if readiness(f) != "True" {
			end.unready++
		}
		if !claims[string(f.GetUID())] {
			end.unclaimed++
		}
		delete(claims, string(f.GetUID()))
	}
	end.stale = len(claims)
	return end, nil
}

// empty deletes all flows and returns the number of managed objects, and of flows, that are left.
func (c *churn) empty(ctx context.Context) (left int, err error) {
	flows := c.client.Resource(v1alpha1.Resource()).Namespace(flowNamespace(0))
	if err := flows.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return 0, err
	}
	c.comes(ctx, func(w *flowWatch) bool { return len(w.flows) == 0 })
	if _, err := c.settledWrites(ctx); err != nil {
		return 0, err
	}
	left, err = c.managedObjects(ctx)
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	return left + len(c.watch.flows), err
}
