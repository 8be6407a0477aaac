package flow

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// JudgeSource decides SourceReady. Access to the source is checked first: a refused author must not learn which objects exist.
func JudgeSource(seen SourceSeen) SourcePart {
	part := SourcePart{Part: Part{Type: v1alpha1.ConditionSource}, Ref: seen.Object.Ref}
	if seen.Spec.Ref == nil {
		part.Ref = Ref{Name: seen.Spec.Application}
		return part.application(seen)
	}
	return part.ref(seen)
}

// application judges the source of an application: its mapping, its HTTPSource if that kind is installed, and its Channel.
func (p SourcePart) application(seen SourceSeen) SourcePart {
	switch seen.Mapping.absence() {
	case NotFound:
		p.Part, p.Withdrawn = p.no(v1alpha1.ReasonApplicationNotMapped, seen.Mapping.absent()), true
		return p
	case NotAllowed:
		p.Part, p.Withdrawn = p.no(v1alpha1.ReasonReferenceNotAllowed, seen.Mapping.absent()), true
		return p
	}
	p.Object = seen.Object.object()
	lack := p.channelOf(seen) // the Channel is known and used, whatever the state of the HTTPSource
	switch seen.Object.absence() {
	case NotAllowed:
		p.Part = p.no(v1alpha1.ReasonReferenceNotAllowed, seen.Object.absent())
		return p
	case NotFound:
		p.Part = p.no(v1alpha1.ReasonSourceNotFound, seen.Object.absent())
		return p
	}
	if lack.Reason != "" {
		p.Part = lack
		return p
	}
	p.Part = p.readiness(p.Object, p.Channel)
	if p.Object == nil {
		p.Object = p.Channel
	}
	return p
}

// channelOf sets the one Channel of an application, or returns why there is none. A Channel that is being deleted counts only
// without another.
func (p *SourcePart) channelOf(seen SourceSeen) Part {
	switch seen.Channel.Absence {
	case NotAllowed:
		return p.no(v1alpha1.ReasonReferenceNotAllowed, "Channels of messaging.knative.dev may not be read")
	case NotInstalled:
		return p.no(v1alpha1.ReasonSourceKindNotInstalled, "the kind Channel of messaging.knative.dev is not installed")
	}
	channels := slices.DeleteFunc(slices.Clone(seen.Channels), func(o *Object) bool { return o == nil })
	slices.SortFunc(channels, func(a, b *Object) int { return strings.Compare(a.Ref().String(), b.Ref().String()) })
	if live := slices.DeleteFunc(slices.Clone(channels), (*Object).deleting); len(live) > 0 {
		channels = live
	} else {
		channels = channels[:min(len(channels), 1)]
	}
	label := "the label application-name=" + seen.Spec.Application
	switch len(channels) {
	case 0:
		return p.no(v1alpha1.ReasonChannelNotFound, "Channel with "+label+" not found in an integration namespace")
	case 1:
		p.Channel = channels[0]
		return Part{}
	}
	var names []string
	for _, channel := range channels[:min(len(channels), mostNames)] {
		names = append(names, channel.Namespace+"/"+channel.Name)
	}
	if len(channels) > mostNames {
		names = append(names, "…")
	}
	return p.no(v1alpha1.ReasonChannelAmbiguous, "several Channels have "+label+": "+strings.Join(names, ", "))
}

// mostNames is the number of objects that a message lists.
const mostNames = 10

func (o *Object) deleting() bool { return o.DeletionTimestamp != nil }

// ref judges the source that a reference names.
func (p SourcePart) ref(seen SourceSeen) SourcePart {
	own := seen.Spec.ChannelRef == nil || seen.Subscribable
	for _, one := range []Seen{seen.Object, seen.Channel} {
		if one.Absence == NotAllowed {
			p.Part, p.Withdrawn = p.no(v1alpha1.ReasonReferenceNotAllowed, one.absent()), true
			return p
		}
	}
	switch seen.Object.absence() {
	case NotInstalled:
		p.Part = p.no(v1alpha1.ReasonSourceKindNotInstalled, seen.Object.absent())
		return p.keep(seen, own)
	case NotFound:
		p.Part = p.no(v1alpha1.ReasonSourceNotFound, seen.Object.absent())
		return p.keep(seen, own)
	}
	p.Object = seen.Object.Object
	switch {
	case seen.Subscribable:
		p.Channel = p.Object
	case own:
		if _, p.Direct = p.Object.Spec["sink"]; !p.Direct {
			p.Part = p.no(v1alpha1.ReasonChannelRequired, p.Object.Ref().String()+
				" is neither a Channel nor a source with a sink of its own: set source.channelRef in a new flow")
			return p
		}
	default:
		p = p.keep(seen, own)
		if p.Channel == nil {
			p.Part = p.no(lackOf(seen.Channel), seen.Channel.absent())
			return p
		}
	}
	p.Part = p.readiness(p.Object, p.Channel)
	return p
}

// keep sets the Channel that channelRef names: it is used also while the source is absent.
func (p SourcePart) keep(seen SourceSeen, own bool) SourcePart {
	if !own {
		p.Channel = seen.Channel.object()
	}
	return p
}

// lackOf returns the reason of a Channel that is absent.
func lackOf(channel Seen) string {
	if channel.absence() == NotInstalled {
		return v1alpha1.ReasonSourceKindNotInstalled
	}
	return v1alpha1.ReasonChannelNotFound
}

// readiness returns the state of the worst of some objects, of equal ones the first.
func (p SourcePart) readiness(objects ...*Object) Part {
	worst := p.yes(v1alpha1.ReasonSourceReady)
	for _, o := range objects {
		if o != nil && rank(o.Ready.Status) < rank(worst.Status) {
			worst = p.state(o)
		}
	}
	return worst
}

func (p SourcePart) state(o *Object) Part {
	switch {
	case o.deleting():
		return p.no(v1alpha1.ReasonSourceDeleting, o.report())
	case o.Ready.Status == metav1.ConditionFalse:
		return p.no(v1alpha1.ReasonSourceNotReady, o.report())
	case o.Ready.Stale:
		return p.unknown(v1alpha1.ReasonSourceStale, o.report())
	}
	return p.unknown(v1alpha1.ReasonSourceReadinessUnknown, o.report())
}
