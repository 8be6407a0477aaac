package claim_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

var (
	errKilled  = errors.New("the process was killed")
	errRefused = errors.New("the request was refused")
	errLost    = errors.New("the answer was lost")
)

// process runs passes that stop before each request and each look-up.
type process struct {
	flow *flow // nil: the sweeper
	next func() (struct{}, bool)
	stop func()

	yield func(struct{}) bool
	fault error // fault of the next request: errRefused, errLost or nil
}

// flow uses the object while it wishes to.
type flow struct {
	claim  claim.Claim
	wishes bool
	gone   bool
}

// sharing is a world in which processes run request by request, in an order that is drawn.
type sharing struct {
	api       *kubetest.API
	objects   claim.Objects
	born      int // flows that were made
	flows     []*flow
	processes []*process
	running   *process                   // nil: a person or the object's controller acts
	cache     *unstructured.Unstructured // the object as processes see it
	foreign   *unstructured.Unstructured // the object, if it was created without marks
	before    *unstructured.Unstructured // the object before the running request
	violation string
}

func newSharing(t *rapid.T) *sharing {
	s := &sharing{api: kubetest.Open(brokers)}
	s.objects = claim.Objects{ResourceInterface: s.raw(), Live: s.live}
	for range 3 {
		s.flows = append(s.flows, s.flow(t))
	}
	for _, f := range append(s.flows, s.flows[0], nil) { // a second instance of the first flow's controller, and the sweeper
		s.processes = append(s.processes, &process{flow: f})
	}
	s.api.Before(func(kubetest.Request) error { return s.pause() })
	s.api.After(s.judge)
	return s
}

// flow makes a flow that does not use the object yet.
func (s *sharing) flow(t *rapid.T) *flow {
	policy := v1alpha1.WhenUnused
	if rapid.IntRange(0, 3).Draw(t, "retain") == 0 {
		policy = v1alpha1.Retain
	}
	s.born++
	return &flow{claim: user(fmt.Sprintf("flow-%d", s.born), policy)}
}

// renew has a new flow take the place of one that is gone.
func (s *sharing) renew(t *rapid.T, old *flow) *flow {
	f := s.flow(t)
	for i := range s.flows {
		if s.flows[i] == old {
			s.flows[i] = f
		}
	}
	for _, p := range s.processes {
		if p.flow == old {
			s.kill(p)
			p.flow = f
		}
	}
	return f
}

func (s *sharing) raw() dynamic.ResourceInterface {
	return s.api.Resource(brokers.GroupVersionResource).Namespace("shop")
}

// live looks a claim's flow up, which is a request too.
func (s *sharing) live(_ context.Context, c claim.Claim) (bool, error) {
	if err := s.pause(); err != nil {
		return false, err
	}
	f := s.flowOf(c.UID)
	return f != nil && !f.gone, nil
}

func (s *sharing) flowOf(uid types.UID) *flow {
	for _, f := range s.flows {
		if f.claim.UID == uid {
			return f
		}
	}
	return nil
}

// pause stops the running process until its next turn.
func (s *sharing) pause() error {
	p := s.running
	if p == nil {
		return nil
	}
	if !p.yield(struct{}{}) {
		return errKilled
	}
	s.before = s.found()
	if errors.Is(p.fault, errRefused) {
		return p.fault
	}
	return nil
}

// judge checks the effect of a request: no process ends an object that another live flow claims, or changes a foreign one.
func (s *sharing) judge(r kubetest.Request) error {
	p := s.running
	if p == nil {
		return nil
	}
	was, is := s.before, s.found()
	ended := was != nil && was.GetDeletionTimestamp() == nil &&
		(is == nil || is.GetUID() != was.GetUID() || is.GetDeletionTimestamp() != nil || claim.Managed(was) && !claim.Managed(is))
	if ended && !claim.Managed(was) {
		s.violation = r.Verb + " ended a foreign object"
	}
	for _, c := range claimsOf(was) {
		if f := s.flowOf(c.UID); ended && f != nil && !f.gone && f != p.flow {
			s.violation = fmt.Sprintf("%s of another process ended the object that %s claims", r.Verb, c.UID)
		}
	}
	if errors.Is(p.fault, errLost) {
		return p.fault
	}
	return nil
}

func claimsOf(object *unstructured.Unstructured) []claim.Claim {
	if object == nil {
		return nil
	}
	return claim.Of(object)
}

// found returns the object as it is; nil if it does not exist.
func (s *sharing) found() *unstructured.Unstructured {
	running := s.running
	s.running = nil
	defer func() { s.running = running }()
	object, err := s.raw().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return object
}

// turn has a process do its next request, and begins a pass if it is idle. It reports whether the pass continues.
func (s *sharing) turn(p *process, fault error) bool {
	s.running, p.fault = p, fault
	defer func() { s.running = nil }()
	if p.next == nil {
		p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
			p.yield = yield
			s.pass(p.flow)
		})
	}
	if _, more := p.next(); more {
		return true
	}
	p.next = nil
	return false
}

// kill ends the pass of a process at its next request.
func (s *sharing) kill(p *process) {
	if p.next == nil {
		return
	}
	s.running = p
	p.stop()
	s.running, p.next = nil, nil
}

// pass runs the pass of a controller for a flow, or a sweep. An error ends it: a later pass begins again.
func (s *sharing) pass(f *flow) {
	ctx := context.Background()
	uid := types.UID("")
	if s.cache != nil {
		uid = s.cache.GetUID()
	}
	switch {
	case f == nil:
		_, _ = s.objects.Sweep(ctx, name, uid)
	case f.gone:
	case f.wishes:
		s.use(ctx, f.claim)
	default:
		released, err := s.objects.Release(ctx, name, "", f.claim.UID)
		if err == nil && released != claim.Deleting && !f.wishes {
			f.gone = true // its finalizer is removed
		}
	}
}

// use creates or claims the object.
func (s *sharing) use(ctx context.Context, c claim.Claim) {
	switch seen := s.cache; {
	case seen == nil:
		object := broker()
		claim.Mark(object, c)
		_, _ = s.objects.Create(ctx, object, metav1.CreateOptions{})
	case !claim.Managed(seen):
		for _, one := range claim.Of(seen) {
			if one.UID == c.UID {
				_, _ = s.objects.Release(ctx, name, seen.GetUID(), c.UID)
			}
		}
	case seen.GetDeletionTimestamp() != nil, c.On(seen):
	default:
		_, _ = s.objects.Add(ctx, name, seen.GetUID(), c)
	}
}

// change edits the object by hand, if it exists.
func (s *sharing) change(edit func(*unstructured.Unstructured)) {
	object := s.found()
	if object == nil {
		return
	}
	edit(object)
	changed, err := s.raw().Update(context.Background(), object, metav1.UpdateOptions{})
	if err != nil {
		s.violation = err.Error()
	}
	if s.foreign != nil {
		s.foreign = changed
	}
}

// remove deletes the object by hand.
func (s *sharing) remove() {
	if err := s.raw().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.violation = err.Error()
	}
	if s.foreign != nil {
		s.foreign = s.found()
	}
}

// createForeign creates the object without marks, if it does not exist.
func (s *sharing) createForeign() {
	if made, err := s.raw().Create(context.Background(), broker(), metav1.CreateOptions{}); err == nil {
		s.foreign = made
	}
}

// finish ends a deletion that the object's controller has held up.
func (s *sharing) finish() {
	if object := s.found(); object != nil && object.GetDeletionTimestamp() != nil {
		s.change(func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })
		s.foreign = nil
	}
}

// settle runs passes without faults until they change nothing.
func (s *sharing) settle(t *rapid.T) {
	for range 40 {
		before := s.found()
		gone := 0
		for _, p := range s.processes {
			s.cache = s.found()
			for s.turn(p, nil) {
				s.cache = s.found()
			}
		}
		s.finish()
		for _, f := range s.flows {
			if !f.wishes && !f.gone {
				gone++
			}
		}
		if after := s.found(); gone == 0 && cmp.Equal(before, after) {
			return
		}
	}
	t.Fatalf("no rest: %v", s.found())
}

// check compares the object at rest with the flows.
func (s *sharing) check(t *rapid.T) {
	object := s.found()
	if s.foreign != nil {
		if diff := cmp.Diff(s.foreign, object); diff != "" {
			t.Errorf("a foreign object was changed: %s", diff)
		}
		return
	}
	users := 0
	for _, f := range s.flows {
		if f.gone {
			continue
		}
		users++
		if object == nil {
			t.Fatalf("%s has no object", f.claim.UID)
		}
		if claim.Managed(object) && !f.claim.On(object) {
			t.Errorf("the claim of %s is not on %v", f.claim.UID, object)
		}
	}
	if object == nil {
		return
	}
	if claim.Managed(object) && (users == 0 || len(claim.Of(object)) != users) {
		t.Errorf("%d users are left of %v", users, object)
	}
	for _, c := range claim.Of(object) { // a foreign object may keep stale claims: it is not swept
		if f := s.flowOf(c.UID); !claim.Managed(object) && f != nil && !f.gone {
			t.Errorf("the claim of %s is left on %v", c.UID, object)
		}
	}
}

// TestUsersComeAndGo draws orders of requests of flows and a sweeper, faults of requests, kills, late caches, and changes by hand.
// At rest no managed object is without a live claim, no live flow is without the object, and a foreign object is as it was made.
func TestUsersComeAndGo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newSharing(t)
		defer s.api.Close()
		defer func() {
			for _, p := range s.processes {
				s.kill(p)
			}
		}()
		for range 10 {
			t.Repeat(s.actions())
			for _, p := range s.processes {
				s.kill(p)
			}
			s.settle(t)
			s.verdict(t)
			s.check(t)
		}
	})
}

// actions returns the acts that are drawn.
func (s *sharing) actions() map[string]func(*rapid.T) {
	process := func(t *rapid.T) *process {
		return s.processes[rapid.IntRange(0, len(s.processes)-1).Draw(t, "process")]
	}
	user := func(t *rapid.T) *flow { return s.flows[rapid.IntRange(0, len(s.flows)-1).Draw(t, "flow")] }
	step := func(t *rapid.T) { s.turn(process(t), nil) }
	pass := func(t *rapid.T) {
		for p := process(t); s.turn(p, nil); {
		}
	}
	deliver := func(*rapid.T) { s.cache = s.found() }
	wish := func(t *rapid.T) {
		f := user(t)
		if f.gone {
			f = s.renew(t, f)
		}
		f.wishes = !f.wishes
	}
	return map[string]func(*rapid.T){
		"step": step, "step 2": step, "step 3": step, "pass": pass, "pass 2": pass, "deliver": deliver, "deliver 2": deliver,
		"wish": wish, "wish 2": wish,
		"refused": func(t *rapid.T) { s.turn(process(t), errRefused) },
		"lost":    func(t *rapid.T) { s.turn(process(t), errLost) },
		"kill":    func(t *rapid.T) { s.kill(process(t)) },
		"force": func(t *rapid.T) { // the finalizer is removed by hand
			if f := user(t); rapid.Bool().Draw(t, "force") {
				f.gone = true
			}
		},
		"person": func(t *rapid.T) {
			acts := s.byHand()
			acts[rapid.IntRange(0, len(acts)-1).Draw(t, "act")]()
		},
		"": s.verdict,
	}
}

func (s *sharing) verdict(t *rapid.T) {
	if s.violation != "" {
		t.Fatal(s.violation)
	}
}

// byHand lists the acts of people and of the object's controller.
func (s *sharing) byHand() []func() {
	value := int64(0)
	return []func(){
		s.remove,
		s.createForeign,
		s.finish,
		func() {
			if object := s.found(); object != nil && object.GetDeletionTimestamp() == nil {
				s.change(func(o *unstructured.Unstructured) { o.SetFinalizers([]string{finalizer}) })
			}
		},
		func() { // the object becomes foreign, with the claims that it has
			s.change(func(o *unstructured.Unstructured) { o.SetLabels(nil) })
		},
		func() { // a claim is removed, or broken
			s.change(func(o *unstructured.Unstructured) {
				annotations := o.GetAnnotations()
				for _, c := range claim.Of(o) {
					delete(annotations, v1alpha1.ClaimPrefix+string(c.UID))
				}
				o.SetAnnotations(annotations)
			})
		},
		func() {
			value++
			s.change(func(o *unstructured.Unstructured) { o.Object["spec"] = map[string]any{"value": value} })
		},
	}
}
