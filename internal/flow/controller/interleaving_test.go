package controller_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// adversary breaks requests of the controllers and kills their processes, by chance.
type adversary struct {
	*world
	foreign []*unstructured.Unstructured // objects of others, as they were before the controllers ran

	mu        sync.Mutex
	random    *rand.Rand
	refuse    int // percentage of requests that are refused
	lose      int // percentage of writes whose answer is lost
	instances []*instance
}

var errAway = errors.New("the API server is away")

func newAdversary(t *testing.T, seed uint64) *adversary {
	t.Helper()
	a := &adversary{world: newWorld(t), random: rand.New(rand.NewPCG(seed, 0))}
	a.log = io.Discard
	a.open()
	a.apply(mappings, `{metadata: {name: refunds, namespace: market}}`)
	a.apply(brokers, `{metadata: {name: own, namespace: shop, annotations: {team: shop}}, spec: {config: {kind: ConfigMap, name: own}}}`)
	a.apply(subscriptions, `{metadata: {name: linked, namespace: kyma-integration, labels: {flow.waybill.dev/link: afb701a090dd45d2}},
		spec: {subscriber: {uri: "http://foreign.example"}}}`)
	a.apply(peers, `{metadata: {name: own-broker, namespace: shop}, spec: {mtls: {mode: PERMISSIVE}}}`)
	rest()
	a.foreign = a.others()
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

// others returns the objects that were not made for flows.
func (a *adversary) others() []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		a.get(brokers, "shop/own"), a.get(subscriptions, "kyma-integration/linked"), a.get(peers, "shop/own-broker"),
		a.get(channels, "kyma-integration/commerce-1"), a.get(sources, "kyma-integration/commerce"), a.get(mappings, "shop/commerce"),
	}
}

func (a *adversary) trouble(refuse, lose int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse, a.lose = refuse, lose
}

// texts are the flows by their names. All of shop share a Broker, as their sink or for dead letters, and two flows share a
// Subscription. One uses a Broker of another namespace that a ReferenceGrant opens, and one a Broker that was not made for flows.
var texts = map[string]string{
	"shop/a": `{metadata: {name: a, namespace: shop}, spec: {source: {application: commerce}, sink: {broker: ` + broker + `}}}`,
	"shop/b": `{metadata: {name: b, namespace: shop}, spec: {source: {application: commerce}, sink: {broker: ` + broker + `},
		meshPolicy: PermissiveMetrics}}`,
	"shop/c": `{metadata: {name: c, namespace: shop}, spec: {source: {application: refunds}, sink: {broker: ` + broker + `}}}`,
	"shop/d": `{metadata: {name: d, namespace: shop}, spec: {source: {application: refunds}, meshPolicy: PermissiveMetrics,
		delivery: {retry: 3, deadLetterSink: {ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: default}}},
		sink: {broker: {name: own, provisioning: Managed, deletionPolicy: WhenUnused}}}}`,
	"shop/e": `{metadata: {name: e, namespace: shop}, spec: {source: {application: commerce},
		sink: {ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: default, namespace: market}}}}`,
	"market/f": `{metadata: {name: f, namespace: market}, spec: {source: {application: refunds}, sink: {broker: ` + broker + `}}}`,
}

const marketGrant = `{metadata: {name: open, namespace: market}, spec: {from: [{group: flow.waybill.dev, kind: EventFlow, namespace: shop}],
	to: [{group: eventing.knative.dev, kind: Broker}]}}`

// step is one event that may occur in a cluster at any time.
type step struct {
	do    string
	flow  string
	n     int  // chooses among the possibilities of the event
	waits bool // nothing moves before the next step
}

// steps returns a generator of steps. They shrink to none.
func steps() *rapid.Generator[[]step] {
	kinds := []string{"nothing", "apply", "apply", "apply", "delete", "delete", "kill", "start", "meddle", "meddle", "hold", "release", "trouble",
		"wait", "suspend", "resume", "mesh", "retain", "grant", "revoke"}
	names := slices.Sorted(maps.Keys(texts))
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{rapid.SampledFrom(kinds).Draw(t, "do"), rapid.SampledFrom(names).Draw(t, "flow"), rapid.IntRange(0, 3000).Draw(t, "n"),
			rapid.Bool().Draw(t, "waits")}
	}), 40, 40)
}

// take takes a step.
func (a *adversary) take(s step) {
	exists := func() bool { return a.get(flows, s.flow) != nil }
	change := func(text string) {
		if exists() {
			a.patch(flows, s.flow, text)
		}
	}
	switch s.do {
	case "nothing":
		return
	case "kill":
		a.kill(s.n)
	case "start":
		a.instances = append(a.instances, a.start())
	case "hold":
		a.api.Hold()
	case "release":
		a.api.Release()
	case "trouble":
		a.trouble(s.n%30, s.n/30%30)
	case "wait":
		<-time.After(time.Duration(s.n) * time.Millisecond)
	}
	a.quietly(func() {
		switch s.do {
		case "apply":
			if !exists() {
				a.apply(flows, texts[s.flow])
			}
		case "delete":
			a.delete(flows, s.flow)
		case "suspend":
			change(`{spec: {suspend: true}}`)
		case "resume":
			change(`{spec: {suspend: false}}`)
		case "mesh":
			if !strings.HasSuffix(s.flow, "e") { // its sink is not a Broker of its own
				change(fmt.Sprintf(`{spec: {meshPolicy: %s}}`, []string{"None", "PermissiveMetrics"}[s.n%2]))
			}
		case "retain":
			if !strings.HasSuffix(s.flow, "e") {
				change(fmt.Sprintf(`{spec: {sink: {broker: {deletionPolicy: %s}}}}`, []string{"Retain", "WhenUnused"}[s.n%2]))
			}
		case "grant":
			a.apply(grants, marketGrant)
		case "revoke":
			a.delete(grants, "market/open")
		case "meddle":
			a.meddle(rand.New(rand.NewPCG(uint64(s.n), 0)))
		}
	})
	if s.waits {
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

func (a *adversary) kill(n int) {
	if len(a.instances) == 0 {
		return
	}
	at := n % len(a.instances)
	a.instances[at].stop()
	a.instances = slices.Delete(a.instances, at, at+1)
}

// drift are patches by hand of the specs of shared objects.
var drift = map[schema.GroupVersionResource]string{
	subscriptions: `{spec: {subscriber: {uri: "http://elsewhere.example"}}}`,
	peers:         `{spec: {portLevelMtls: {"9090": {mode: STRICT}}}}`,
}

// meddle changes the shared objects of a kind by hand.
func (a *adversary) meddle(random *rand.Rand) {
	in := []schema.GroupVersionResource{brokers, subscriptions, peers}[random.IntN(3)]
	for _, o := range a.list(in) {
		name := o.GetNamespace() + "/" + o.GetName()
		if !isManaged(o) {
			continue
		}
		switch random.IntN(4) {
		case 0, 1:
			a.delete(in, name)
		case 2:
			if drift[in] != "" {
				a.patch(in, name, drift[in])
			}
		case 3:
			for _, key := range slices.Sorted(maps.Keys(o.GetAnnotations())) {
				if strings.HasPrefix(key, v1alpha1.ClaimPrefix) && random.IntN(2) == 0 {
					a.patch(in, name, fmt.Sprintf("{metadata: {annotations: {%q: null}}}", key))
				}
			}
		}
	}
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
	<-time.After(20 * time.Minute) // back-off ends within five
	synctest.Wait()
}

// check returns the faults of a cluster at rest.
func (a *adversary) check() (wrong []string) {
	live := map[string]*unstructured.Unstructured{}
	for _, f := range a.list(flows) {
		live[string(f.GetUID())] = &f
		name := f.GetNamespace() + "/" + f.GetName()
		got := a.conditions(name)
		if f.GetDeletionTimestamp() != nil {
			wrong = append(wrong, fmt.Sprintf("flow %s is still being deleted: %q", name, got))
			continue
		}
		for _, want := range a.wanted(name, f) {
			if !slices.Contains(got, want) {
				wrong = append(wrong, fmt.Sprintf("flow %s: got %q, want %s", name, got, want))
			}
		}
	}
	links := map[string]bool{}
	for _, o := range slices.Concat(a.list(brokers), a.list(subscriptions), a.list(peers)) {
		if link := o.GetLabels()[v1alpha1.LinkLabel]; link != "" && isManaged(o) {
			if links[o.GetNamespace()+link] {
				wrong = append(wrong, "two Subscriptions have the link "+link)
			}
			links[o.GetNamespace()+link] = true
		}
		wrong = append(wrong, a.judge(o, live)...)
	}
	for uid, f := range live {
		wrong = append(wrong, a.unclaimed(uid, f)...)
	}
	if diff := cmp.Diff(a.foreign, a.others()); diff != "" {
		wrong = append(wrong, "objects of others (-before +after):\n"+diff)
	}
	return wrong
}

// wanted returns conditions that a flow must have.
func (a *adversary) wanted(name string, f unstructured.Unstructured) []string {
	suspended, _, _ := unstructured.NestedBool(f.Object, "spec", "suspend")
	policy, _, _ := unstructured.NestedString(f.Object, "spec", "meshPolicy")
	switch {
	case suspended:
		return []string{"Ready Unknown Suspended"}
	case name == "shop/e" && a.get(grants, "market/open") == nil:
		return []string{"SinkReady False ReferenceNotAllowed", "SubscriptionReady Unknown WaitingForSink"}
	case name == "shop/e" && a.get(brokers, "market/default") == nil:
		return []string{"SinkReady False SinkNotFound"}
	case name == "shop/d" && a.get(brokers, "shop/default") == nil: // it has the dead letters, and d does not create it
		return []string{"SubscriptionReady Unknown WaitingForSink"}
	case policy == string(v1alpha1.PermissiveMetrics):
		return []string{"Ready True Ready", "PolicyReady True PolicyApplied"}
	}
	return []string{"Ready True Ready"}
}

// unclaimed returns the managed objects that a flow uses without a claim.
func (a *adversary) unclaimed(uid string, f *unstructured.Unstructured) (wrong []string) {
	uses := map[string]schema.GroupVersionResource{}
	for part, in := range map[string]schema.GroupVersionResource{"broker": brokers, "subscription": subscriptions} {
		if named, _, _ := unstructured.NestedMap(f.Object, "status", part); named["name"] != nil {
			uses[fmt.Sprint(named["namespace"], "/", named["name"])] = in
		}
	}
	if f.GetName() == "d" {
		uses["shop/default"] = brokers
	}
	if suspended, _, _ := unstructured.NestedBool(f.Object, "spec", "suspend"); suspended {
		return nil
	}
	for name, in := range uses {
		if o := a.get(in, name); o != nil && isManaged(*o) && o.GetAnnotations()[v1alpha1.ClaimPrefix+uid] == "" {
			wrong = append(wrong, fmt.Sprintf("flow %s has no claim on %s %s", f.GetName(), o.GetKind(), name))
		}
	}
	return wrong
}

// judge returns the faults of a shared object. A suspended flow repairs nothing.
func (a *adversary) judge(o unstructured.Unstructured, live map[string]*unstructured.Unstructured) (wrong []string) {
	claims, awake := 0, false
	for key := range o.GetAnnotations() {
		uid, is := strings.CutPrefix(key, v1alpha1.ClaimPrefix)
		if !is {
			continue
		}
		claims++
		f := live[uid]
		if f == nil {
			wrong = append(wrong, fmt.Sprintf("%s %s has the claim of %s, which is gone", o.GetKind(), o.GetName(), uid))
			continue
		}
		if suspended, _, _ := unstructured.NestedBool(f.Object, "spec", "suspend"); suspended {
			continue
		}
		awake = true
		if f.GetName() == "e" && a.get(grants, "market/open") == nil {
			wrong = append(wrong, fmt.Sprintf("%s %s has the claim of flow e without a grant", o.GetKind(), o.GetName()))
		}
	}
	if isManaged(o) && claims == 0 {
		wrong = append(wrong, fmt.Sprintf("%s %s has no claim: %v", o.GetKind(), o.GetName(), o.Object))
	}
	uri, _, _ := unstructured.NestedString(o.Object, "spec", "subscriber", "uri")
	mode, _, _ := unstructured.NestedString(o.Object, "spec", "portLevelMtls", "9090", "mode")
	if awake && (uri == "http://elsewhere.example" || mode == "STRICT") {
		wrong = append(wrong, fmt.Sprintf("%s %s was not repaired: %v", o.GetKind(), o.GetName(), o.Object))
	}
	return wrong
}

func isManaged(o unstructured.Unstructured) bool {
	return o.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.ManagedBy && o.GetAnnotations()[v1alpha1.MadeForAnnotation] != ""
}

// TestEveryInterleavingEndsWell: flows come and go, are suspended and lose their grants, processes are killed, requests fail or lose
// their answers, events come late, and people change shared objects; at the end every live flow has the state that it should have,
// nothing managed is left without a live claim, and objects of others are as they were.
func TestEveryInterleavingEndsWell(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		seed, all := rapid.Uint64().Draw(r, "seed of refused and lost requests"), steps().Draw(r, "steps")
		var wrong []string
		bubbletest.Test(t, func(t *testing.T) {
			a := newAdversary(t, seed)
			for _, one := range all {
				a.take(one)
			}
			a.settle()
			wrong = a.check()
		})
		if len(wrong) > 0 {
			all = slices.DeleteFunc(all, func(one step) bool { return one.do == "nothing" })
			r.Fatalf("after %+v:\n%s", all, strings.Join(wrong, "\n"))
		}
	})
}
