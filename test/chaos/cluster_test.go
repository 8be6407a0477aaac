//go:build linux && services

package chaos_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/test/chaos"
)

// The resources of flows.
var (
	flows         = v1alpha1.Resource()
	brokers       = schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"}
	subscriptions = schema.GroupVersionResource{Group: "messaging.knative.dev", Version: "v1", Resource: "subscriptions"}
	channels      = schema.GroupVersionResource{Group: "messaging.knative.dev", Version: "v1", Resource: "channels"}
)

// channel is the source of all flows.
const channel = `
apiVersion: messaging.knative.dev/v1
kind: Channel
metadata: {name: commerce, namespace: kyma-integration, labels: {application-name: commerce}}
status: {conditions: [{type: Ready, status: "True"}], address: {url: http://channel.example}}
`

// cluster is an API of Kubernetes that refuses requests and loses answers while it is bad, and that makes Brokers and Subscriptions ready.
type cluster struct {
	*kubetest.API

	mu      sync.Mutex
	moments *rand.Rand
	bad     bool
	refused int
	lost    int
	made    map[string]int // creations of each flow
}

// openCluster serves a cluster, with a kubeconfig for it in a folder, until the test ends. It is bad.
func openCluster(t *testing.T, folder string) *cluster {
	t.Helper()
	c := &cluster{API: kubetest.Open(), moments: chaos.Moments(t.Logf, 0), bad: true, made: map[string]int{}}
	for kind, resource := range map[string]schema.GroupVersionResource{
		v1alpha1.Kind: flows, "Broker": brokers, "Subscription": subscriptions, "Channel": channels} {
		c.Install(kubetest.Kind{GroupVersionResource: resource, Kind: kind, Status: true})
	}
	source := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(channel), &source.Object); err != nil {
		t.Fatal(err)
	}
	c.Add(channels, source)
	server := kubetest.ListenServer(c.API)
	t.Cleanup(server.Close)
	if err := os.WriteFile(filepath.Join(folder, "k.yaml"), server.Kubeconfig(server.Address(), "chaos"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Before(func(kubetest.Request) error {
		return c.fail(&c.refused, 10, apierrors.NewServiceUnavailable("no"), apierrors.NewTooManyRequestsError("later"))
	})
	c.After(func(r kubetest.Request) error {
		c.count(r)
		return c.fail(&c.lost, 10, apierrors.NewInternalError(os.ErrDeadlineExceeded))
	})
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { c.knative(t, stop) })
	t.Cleanup(func() {
		close(stop)
		running.Wait()
	})
	return c
}

// fail returns one of the errors at one request of so many while the cluster is bad.
func (c *cluster) fail(counter *int, often int, all ...error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.bad || c.moments.IntN(often) > 0 {
		return nil
	}
	*counter++
	return all[c.moments.IntN(len(all))]
}

// count counts the flows that are created.
func (c *cluster) count(r kubetest.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Verb == "create" && r.Resource == flows.Resource {
		c.made[r.Namespace+"/"+r.Name]++
	}
}

// recover has the cluster answer all requests from now on.
func (c *cluster) recover() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad = false
}

// moment returns a random time.
func (c *cluster) moment(least, most time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return least + time.Duration(c.moments.Int64N(int64(most-least)))
}

// knative makes Brokers and Subscriptions ready until stop is closed.
func (c *cluster) knative(t *testing.T, stop chan struct{}) {
	often := time.NewTicker(20 * time.Millisecond)
	defer often.Stop()
	for {
		select {
		case <-stop:
			return
		case <-often.C:
		}
		for _, resource := range []schema.GroupVersionResource{brokers, subscriptions} {
			all, err := c.Resource(resource).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				continue // it is bad
			}
			for _, one := range all.Items {
				makeReady(t, c.Resource(resource).Namespace(one.GetNamespace()), &one)
			}
		}
	}
}

// makeReady has an object be ready, unless it is. An error is mended by the next call.
func makeReady(t *testing.T, objects dynamic.ResourceInterface, object *unstructured.Unstructured) {
	seen, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if seen == object.GetGeneration() {
		return
	}
	object.Object["status"] = map[string]any{"observedGeneration": object.GetGeneration(),
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		"address":    map[string]any{"url": "http://broker.example/" + object.GetNamespace() + "/default"}}
	_, _ = objects.UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
}

// left returns the names of the objects of a resource.
func (c *cluster) left(t *testing.T, resource schema.GroupVersionResource) (names []string) {
	t.Helper()
	all, err := c.Resource(resource).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all.Items {
		names = append(names, one.GetNamespace()+"/"+one.GetName())
	}
	slices.Sort(names)
	return names
}
