package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/obs"
)

// sink looks at where the events go, and claims it if flows share it.
func (p *pass) sink(ctx context.Context) (flow.SinkPart, error) {
	seen := flow.SinkSeen{Spec: p.flow.Spec.Sink}
	var err error
	switch {
	case seen.Spec.Broker != nil:
		seen.Object, err = p.look(brokers, p.flow.Namespace, flow.TargetOf(seen.Spec, p.flow.Namespace).Ref.Name)
	case seen.Spec.Ref != nil:
		seen.Object, err = p.lookAt(flow.RefOf(seen.Spec.Ref.Reference, p.flow.Namespace))
	}
	if err != nil {
		return flow.SinkPart{}, err
	}
	return p.judgeSink(ctx, seen)
}

// judgeSink claims a sink that flows share, so that it stays, and decides its state.
func (p *pass) judgeSink(ctx context.Context, seen flow.SinkSeen) (flow.SinkPart, error) {
	if seen.Object.Ref.GroupKind() != brokers {
		return flow.JudgeSink(seen), nil
	}
	held, err := p.hold(ctx, p.wish(brokers, seen.Spec.Broker), seen.Object)
	if err != nil {
		return flow.SinkPart{}, err
	}
	seen.Claim, seen.Error = held.state, held.why
	if held.object != nil {
		seen.Object.Object, seen.Object.Absence = held.object, flow.Present
	}
	return flow.JudgeSink(seen), nil
}

// wish is a shared object that a flow wants.
type wish struct {
	kind   schema.GroupKind
	policy v1alpha1.DeletionPolicy
	create *unstructured.Unstructured // without marks and claim; nil: it is not created
	event  string                     // reason of the Event about its creation; "": none
}

// wish returns how the flow wants its Broker.
func (p *pass) wish(of schema.GroupKind, broker *v1alpha1.BrokerSink) wish {
	w := wish{kind: of, policy: v1alpha1.WhenUnused}
	if broker == nil {
		return w
	}
	if broker.DeletionPolicy == v1alpha1.Retain {
		w.policy = v1alpha1.Retain
	}
	if k, installed := p.cache.find(of); installed && broker.Provisioning != v1alpha1.Existing {
		w.create, w.event = flow.DesiredBroker(p.flow, k.GroupVersionKind), "BrokerCreated"
	}
	return w
}

// held is a shared object after the attempt to hold it.
type held struct {
	object *flow.Object // nil: there is none
	state  flow.ClaimState
	why    string // the refusal of the API server
}

// mostRounds bounds how often a pass reads again because another client was faster.
const mostRounds = 5

// errMoved ends a pass whose objects others change all the time; it backs off.
var errMoved = errors.New("another client changes the object all the time")

// hold claims a shared object, or creates it with the claim. A foreign object is used as it is.
func (p *pass) hold(ctx context.Context, w wish, seen flow.Seen) (held, error) {
	if seen.Absence == flow.NotInstalled || seen.Absence == flow.NotAllowed {
		return held{}, nil
	}
	objects, err := p.objects(w.kind, seen.Ref.Namespace)
	if err != nil {
		return held{}, err
	}
	object := seen.Object
	for range mostRounds {
		var h held
		var again bool
		if object == nil {
			h, again, err = p.create(ctx, w, objects)
		} else {
			h, again, err = p.claim(ctx, w, objects, object)
		}
		if err != nil || !again {
			return h, err
		}
		if object, err = p.read(ctx, objects, seen.Ref.Name); err != nil {
			return held{}, err
		}
	}
	return held{}, fmt.Errorf("claim %s: %w", seen.Ref, errMoved)
}

// claim stores the flow's claim on an object, unless it is there. again reports that the object must be read again.
func (p *pass) claim(ctx context.Context, w wish, objects dynamic.ResourceInterface, object *flow.Object) (h held, again bool, err error) {
	mine := claim.Claim{UID: p.flow.UID, Policy: w.policy, Namespace: p.flow.Namespace, Name: p.flow.Name}
	_, claimed := claimsOf(object)[mine.UID]
	_, kept := p.kept[keyOf(object)] // the claim has the policy of an earlier wish in this pass
	switch {
	case object.DeletionTimestamp != nil:
		return held{object: object, state: flow.Terminating}, false, nil
	case !claim.Managed(object) && !claimed:
		return held{object: object}, false, nil
	case claim.Managed(object) && (kept && claimed || mine.On(object)):
		p.kept[keyOf(object)] = struct{}{}
		return held{object: object, state: flow.Claimed}, false, nil
	}
	added, err := p.shares(objects).Add(ctx, object.Name, object.UID, mine)
	if err != nil {
		return held{}, false, fmt.Errorf("claim %s: %w", object.Ref(), err)
	}
	if added.Object != nil {
		object = flow.Decode(added.Object)
		p.cache.answered(object)
		p.claims.add(p.flow.UID, keyOf(object))
	}
	switch added.Outcome {
	case claim.Stored:
		p.log.Info("shared object claimed", obs.KeyRef, object.Ref().String())
		p.kept[keyOf(object)] = struct{}{}
		return held{object: object, state: flow.Claimed}, false, nil
	case claim.Terminating:
		return held{object: object, state: flow.Terminating}, false, nil
	case claim.Foreign:
		return held{object: object}, false, nil
	case claim.Rejected:
		return held{object: object, state: flow.Rejected, why: added.Text}, false, nil
	case claim.Gone, claim.Replaced:
		p.cfg.Metrics.Conflicted()
	}
	return held{}, true, nil
}

// create makes a shared object with the flow's claim, if the flow wants it to be made.
func (p *pass) create(ctx context.Context, w wish, objects dynamic.ResourceInterface) (h held, again bool, err error) {
	if w.create == nil {
		return held{}, false, nil
	}
	object := w.create.DeepCopy()
	claim.Mark(object, claim.Claim{UID: p.flow.UID, Policy: w.policy, Namespace: p.flow.Namespace, Name: p.flow.Name})
	made, err := objects.Create(ctx, object, metav1.CreateOptions{})
	switch {
	case err == nil:
		p.memory.Of(p.flow.UID).created = time.Now()
		decoded := flow.Decode(made)
		p.cache.answered(decoded)
		p.claims.add(p.flow.UID, keyOf(decoded))
		p.kept[keyOf(decoded)] = struct{}{}
		p.log.Info("shared object created", obs.KeyRef, decoded.Ref().String())
		p.event(ctx, w.event, decoded.Ref().String()+" was created")
		return held{object: decoded, state: flow.Claimed}, false, nil
	case apierrors.IsAlreadyExists(err):
		return held{}, true, nil
	case apierrors.HasStatusCause(err, namespaceTerminating):
		return held{state: flow.NamespaceTerminating, why: err.Error()}, false, nil
	case kube.Refuses(err):
		return held{state: flow.Rejected, why: err.Error()}, false, nil
	}
	return held{}, false, fmt.Errorf("create %s %s/%s: %w", w.kind.Kind, object.GetNamespace(), object.GetName(), err)
}

// read returns the object as the API server has it; nil: there is none.
func (p *pass) read(ctx context.Context, objects dynamic.ResourceInterface, name string) (*flow.Object, error) {
	found, err := objects.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // an object that does not exist is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	object := flow.Decode(found)
	p.cache.answered(object)
	return object, nil
}

// namespaceTerminating is the cause in the API server's refusal to create an object in a namespace that is being deleted.
const namespaceTerminating metav1.CauseType = "NamespaceTerminating"
