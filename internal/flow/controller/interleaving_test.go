package controller_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// adversary breaks requests of the controllers and kills their processes, by chance.
type adversary struct {
	*world
	random *rand.Rand

	mu        sync.Mutex
	refuse    int // percentage of requests that are refused
	lose      int // percentage of writes whose answer is lost
	instances []*instance
}

var errAway = errors.New("the API server is away")

func newAdversary(t *testing.T, seed uint64) *adversary {
	t.Helper()
	a := &adversary{world: newWorld(t), random: rand.New(rand.NewPCG(seed, 0))}
	a.open()
	chance := func(percent *int) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if *percent > 0 && a.random.IntN(100) < *percent {
			return errAway
		}
		return nil
	}
	a.api.Before(func(kubetest.Request) error { return chance(&a.refuse) })
	a.api.After(func(r kubetest.Request) error {
		if r.Verb == "list" || r.Verb == "watch" || r.Verb == "get" {
			return nil
		}
		return chance(&a.lose)
	})
	return a
}

func (a *adversary) roll(n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.random.IntN(n)
}

func (a *adversary) trouble(refuse, lose int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse, a.lose = refuse, lose
}

// step does one thing that may happen to a cluster at any time.
func (a *adversary) step() {
	flowNames := []string{"a", "b", "c"}
	name := "shop/" + flowNames[a.roll(len(flowNames))]
	switch a.roll(12) {
	case 0, 1, 2:
		a.quietly(func() {
			if a.get(flows, name) == nil {
				a.apply(flows, a.text(name))
			}
		})
	case 3, 4:
		a.quietly(func() {
			if a.get(flows, name) != nil {
				a.delete(flows, name)
			}
		})
	case 5:
		a.kill()
	case 6:
		a.instances = append(a.instances, a.start())
	case 7:
		a.meddle()
	case 8:
		a.api.Hold()
	case 9:
		a.api.Release()
	case 10:
		a.trouble(a.roll(30), a.roll(30))
	case 11:
		<-time.After(time.Duration(a.roll(3000)) * time.Millisecond)
	}
	if a.roll(2) == 0 {
		synctest.Wait()
	}
}

// quietly does something as a user whose requests succeed.
func (a *adversary) quietly(do func()) {
	a.mu.Lock()
	refuse, lose := a.refuse, a.lose
	a.refuse, a.lose = 0, 0
	a.mu.Unlock()
	do()
	a.trouble(refuse, lose)
}

// text returns the flow of a name. All share a Broker, and two a Subscription.
func (a *adversary) text(name string) string {
	application := "commerce"
	if name == "shop/c" {
		application = "refunds"
	}
	policy := "WhenUnused"
	if a.roll(8) == 0 {
		policy = "Retain"
	}
	return fmt.Sprintf(`{metadata: {name: %s, namespace: shop}, spec: {source: {application: %s},
		sink: {broker: {name: default, provisioning: Managed, deletionPolicy: %s}}}}`, strings.TrimPrefix(name, "shop/"), application, policy)
}

func (a *adversary) kill() {
	if len(a.instances) == 0 {
		return
	}
	at := a.roll(len(a.instances))
	a.instances[at].stop()
	a.instances = slices.Delete(a.instances, at, at+1)
}

// meddle changes a shared object by hand.
func (a *adversary) meddle() {
	a.quietly(func() {
		in := []schema.GroupVersionResource{brokers, subscriptions}[a.roll(2)]
		for _, o := range a.list(in) {
			name := o.GetNamespace() + "/" + o.GetName()
			if a.roll(2) == 0 {
				a.delete(in, name)
				continue
			}
			for key := range o.GetAnnotations() {
				if strings.HasPrefix(key, v1alpha1.ClaimPrefix) && a.roll(2) == 0 {
					a.patch(in, name, fmt.Sprintf("{metadata: {annotations: {%q: null}}}", key))
				}
			}
		}
	})
}

// settle ends all trouble, and waits until nothing moves.
func (a *adversary) settle() {
	a.trouble(0, 0)
	a.api.Release()
	if len(a.instances) == 0 {
		a.instances = append(a.instances, a.start())
	}
	a.knative.set(brokers, false, false) // its requests were broken too
	a.knative.set(subscriptions, false, false)
	<-time.After(time.Hour)
	synctest.Wait()
}

// check returns the faults of a cluster at rest.
func (a *adversary) check() (wrong []string) {
	live := map[string]bool{}
	for _, f := range a.list(flows) {
		live[string(f.GetUID())] = true
		name := f.GetNamespace() + "/" + f.GetName()
		switch got := a.conditions(name); {
		case f.GetDeletionTimestamp() != nil:
			wrong = append(wrong, fmt.Sprintf("flow %s is still being deleted: %q", name, got))
		case !slices.Contains(got, "Ready True Ready"):
			wrong = append(wrong, fmt.Sprintf("flow %s: %q", name, got))
		}
	}
	links := map[string]bool{}
	for _, o := range slices.Concat(a.list(brokers), a.list(subscriptions)) {
		claims := 0
		for key := range o.GetAnnotations() {
			if uid, is := strings.CutPrefix(key, v1alpha1.ClaimPrefix); is {
				claims++
				if !live[uid] {
					wrong = append(wrong, fmt.Sprintf("%s %s has the claim of %s, which is gone", o.GetKind(), o.GetName(), uid))
				}
			}
		}
		if isManaged(o) && claims == 0 {
			wrong = append(wrong, fmt.Sprintf("%s %s has no claim: %v", o.GetKind(), o.GetName(), o.Object))
		}
		if link := o.GetLabels()[v1alpha1.LinkLabel]; link != "" {
			if links[o.GetNamespace()+link] {
				wrong = append(wrong, "two Subscriptions have the link "+link)
			}
			links[o.GetNamespace()+link] = true
		}
	}
	return wrong
}

func isManaged(o unstructured.Unstructured) bool {
	return o.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.ManagedBy && o.GetAnnotations()[v1alpha1.MadeForAnnotation] != ""
}

// TestEveryInterleavingEndsWell: flows come and go, processes are killed, requests fail or lose their answers, events come late, and
// people change shared objects; at the end every live flow is ready, and nothing managed is left without a live claim.
func TestEveryInterleavingEndsWell(t *testing.T) {
	t.Parallel()
	for seed := *first; seed < *first+*seeds; seed++ {
		bubbletest.Test(t, func(t *testing.T) {
			a := newAdversary(t, seed)
			for range 40 {
				a.step()
			}
			a.settle()
			for _, wrong := range a.check() {
				t.Errorf("seed %d: %s", seed, wrong)
			}
		})
		if t.Failed() {
			return
		}
	}
}

var (
	first = flag.Uint64("first", 0, "the first seed of the random runs")
	seeds = flag.Uint64("seeds", 40, "number of random runs")
)
