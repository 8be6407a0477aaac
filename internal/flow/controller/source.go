package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/flow"
)

// source looks at where the events come from.
func (p *pass) source() (flow.SourcePart, error) {
	seen := flow.SourceSeen{Spec: p.flow.Spec.Source}
	look := p.lookAtApplication
	if seen.Spec.Ref != nil {
		look = p.lookAtRef
	}
	if err := look(&seen); err != nil {
		return flow.SourcePart{}, err
	}
	return flow.JudgeSource(seen), nil
}

// lookAtApplication finds the mapping, the HTTPSource and the Channel of an application.
func (p *pass) lookAtApplication(seen *flow.SourceSeen) (err error) {
	name := seen.Spec.Application
	if seen.Mapping, err = p.look(applicationMappings, p.flow.Namespace, name); err != nil {
		return err
	}
	p.need(key{GroupKind: channels, aspect: byApplication, name: name})
	seen.Channel.Absence, seen.Object.Absence = flow.NotFound, flow.NotInstalled // without integration namespaces
	for _, namespace := range p.cfg.Applications {
		source, err := p.look(httpSources, namespace, name)
		if err != nil {
			return err
		}
		if seen.Object.Object == nil {
			seen.Object = source
		}
		found, absence, err := p.cache.list(channels, namespace, func(o *flow.Object) bool { return o.Labels[applicationLabel] == name })
		if err != nil {
			return err
		}
		if absence != flow.Present {
			seen.Channel.Absence = absence
		}
		seen.Channels = append(seen.Channels, found...)
	}
	slices.SortFunc(seen.Channels, func(a, b *flow.Object) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, one := range seen.Channels {
		p.need(keyOf(one))
	}
	return nil
}

// lookAtRef finds the object of a reference and its Channel.
func (p *pass) lookAtRef(seen *flow.SourceSeen) (err error) {
	ref := flow.RefOf(*seen.Spec.Ref, p.flow.Namespace)
	if seen.Object, err = p.lookAt(ref); err != nil {
		return err
	}
	if k, installed := p.cache.find(ref.GroupKind()); installed && k.subscribable {
		seen.Subscribable, seen.Channel = true, seen.Object
		return nil
	}
	if at := seen.Spec.ChannelRef; at != nil {
		seen.Channel, err = p.lookAt(flow.ChannelOf(*at, ref.Namespace))
	}
	return err
}

// lookAt finds the object of a reference, if the flow may use it.
func (p *pass) lookAt(ref flow.Ref) (flow.Seen, error) {
	why, err := p.refuses(ref)
	if err != nil {
		return flow.Seen{}, err
	}
	if why != "" {
		return flow.Seen{Ref: ref, Absence: flow.NotAllowed, Why: why}, nil
	}
	return p.look(ref.GroupKind(), ref.Namespace, ref.Name)
}

// refuses returns why the flow may not use an object; "": it may.
func (p *pass) refuses(ref flow.Ref) (why string, err error) {
	if ref.Namespace == p.flow.Namespace {
		return "", nil
	}
	p.need(key{GroupKind: referenceGrants, aspect: byNamespace, namespace: ref.Namespace})
	grants, absence, err := p.cache.list(referenceGrants, ref.Namespace, func(*flow.Object) bool { return true })
	switch {
	case err != nil:
		return "", err
	case absence == flow.NotInstalled:
		return fmt.Sprintf("%s is in another namespace, and the cluster has no ReferenceGrants", ref), nil
	case absence != flow.Present:
		return fmt.Sprintf("%s is in another namespace, and the ReferenceGrants there may not be read", ref), nil
	case !flow.Granted(grants, p.flow.Namespace, ref):
		return fmt.Sprintf("%s is in another namespace, and no ReferenceGrant there admits EventFlows of %s", ref, p.flow.Namespace), nil
	}
	return "", nil
}
