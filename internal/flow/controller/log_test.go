package controller_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// journal keeps the lines of a log.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

// count returns the number of lines that contain all parts.
func (j *journal) count(parts ...string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			n++
		}
	}
	return n
}

// TestDecisionsAreLogged once, with the flow.
func TestDecisionsAreLogged(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lines := &journal{}
		w.log = lines
		w.open()
		w.start()
		first := w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		second := w.apply(flows, returns)
		w.want("shop/returns", "Ready True Ready")
		w.delete(flows, "shop/orders")
		rest()
		w.knative.set(brokers, false, true)
		w.delete(flows, "shop/returns")
		rest()
		w.api.Repeat() // passes that find nothing to do
		rest()
		w.knative.set(brokers, false, false)
		rest()
		a, b := fmt.Sprint("flow=shop/orders flow_uid=", first.GetUID()), fmt.Sprint("flow=shop/returns flow_uid=", second.GetUID())
		for _, want := range [][]string{
			{"shared object created", a, "Broker shop/default"},
			{"shared object created", a, "Subscription kyma-integration/ef-"},
			{"flow is ready", a},
			{"shared object claimed", b, "Broker shop/default"},
			{"shared object released", a, "Broker shop/default", "outcome=done"},
			{"shared object released", b, "Broker shop/default", "outcome=deleting"},
		} {
			if n := lines.count(want...); n != 1 {
				t.Errorf("%d lines with %q, want one", n, want)
			}
		}
	})
}

// TestARoleThatMayNotReadFlowsSaysSo in its log.
func TestARoleThatMayNotReadFlowsSaysSo(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lines := &journal{}
		w.log = lines
		w.api.Before(func(r kubetest.Request) error {
			if r.Resource == flows.Resource {
				return apierrors.NewForbidden(flows.GroupResource(), "", errAway)
			}
			return nil
		})
		i := w.start()
		<-time.After(time.Minute)
		if i.Synced() || lines.count("objects cannot be followed", "name=EventFlow", "forbidden") == 0 {
			t.Errorf("synced: %t; the log has no line about flows", i.Synced())
		}
	})
}
