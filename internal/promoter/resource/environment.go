package resource

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// envName checks the name of an environment.
func (r *reader) envName(field, name string, taken map[string]int) {
	switch first, repeated := taken[name]; {
	case name == "":
		r.add(field, "must not be empty")
	case strings.Contains(name, ":"):
		r.add(field, "%.100q has a colon, which a marker could not express", name)
	case len(name) > maxName || hasUnseen(name):
		r.add(field, "%.100q: want at most %d visible characters", name, maxName)
	case repeated:
		r.add(field, "%q is the name of spec.environments[%d] too", name, first)
	}
}

// environment reads an environment, but for its place in the list.
func (r *reader) environment(
	at string, e v1alpha1.Environment, standard *v1alpha1.Promotion,
) (Environment, promotion.Environment) {
	more := Environment{Name: promotion.EnvName(e.Name)}
	for i, t := range capped(r, at+".targets", e.Targets, maxTargets) {
		if target, ok := r.target(fmt.Sprintf("%s.targets[%d]", at, i), t); ok {
			more.Targets = append(more.Targets, target)
		}
	}
	judged := promotion.Environment{
		Name: more.Name,
		Need: r.need(at+".minReady", e.MinReady, len(e.Targets)),
		Soak: r.duration(at+".soak", e.Soak, 0, 0),
	}
	for _, t := range more.Targets {
		judged.Targets = append(judged.Targets, t.TargetID)
	}
	manual := false
	if field, chosen, from := r.chosen(at, e, standard); chosen != nil {
		s := from.promotion(field, *chosen, more.Name)
		more.Host, manual = s.host, chosen.Manual
		switch {
		case s.host != nil:
			judged.Strategy = promotion.PullRequest
		case s.notification != nil:
			judged.Strategy, more.Webhook = promotion.Notification, s.notification.webhook
		}
		if chosen.Strategy.SecretRef != nil {
			more.Secret = chosen.Strategy.SecretRef.Name
		}
	}
	judged.Approval = r.approval(at+".approval", e.Approval, manual)
	judged.AutoMerge = r.autoMerge(at+".autoMerge", e.AutoMerge, more.Host)
	more.Gates = r.gates(at+".gates", e.Gates)
	r.celReads(at+".gates", more)
	for _, g := range more.Gates {
		judged.Gates = append(judged.Gates, g.Gate)
	}
	judged.Hold, judged.Rollback = r.hold(at+".hold", e.Hold), r.rollback(at+".rollback", e.Rollback)
	return more, judged
}

// celReads refuses expressions over objects that are read with this program's own rights in other namespaces, where the operator wants
// one: an expression shows every field.
func (r *reader) celReads(at string, e Environment) {
	i := slices.IndexFunc(e.Targets, func(t Target) bool { return t.Cluster == "" && t.Namespace != r.namespace })
	if !r.NoCrossNamespaceRefs || i < 0 {
		return
	}
	for g := range e.Gates {
		if e.Gates[g].CEL != "" {
			r.add(fmt.Sprintf("%s[%d].cel", at, g), "reads objects of namespace %q, which promoter.oneNamespace refuses", e.Targets[i].Namespace)
		}
	}
}

// chosen returns the promotion that is in force in an environment, with its path and the reader of it; nil: none is.
// Faults of the pipeline's default are reported once, not for each environment.
func (r *reader) chosen(
	at string, e v1alpha1.Environment, standard *v1alpha1.Promotion,
) (string, *v1alpha1.Promotion, *reader) {
	if e.Promotion != nil {
		return at + ".promotion", e.Promotion, r
	}
	quiet := *r
	return "spec.promotion", standard, &quiet
}

// target reads a target. A denied reference is left out, because nothing may be read by it.
func (r *reader) target(at string, t v1alpha1.Target) (Target, bool) {
	target := Target{TargetID: promotion.TargetID{Namespace: t.Namespace}, Ref: t.ClusterRef, Field: at}
	if t.Namespace == "" {
		target.Namespace = r.namespace
	}
	if len(t.Namespace) > maxName {
		r.add(at+".namespace", "longer than %d bytes", maxName)
		return target, false
	}
	ref := t.ClusterRef
	if ref == nil {
		return target, true
	}
	namespace := ref.Namespace
	if namespace == "" {
		namespace = r.namespace
	}
	switch {
	case ref.Kind != "GitopsCluster":
		r.add(at+".clusterRef.kind", "want GitopsCluster, found %.100q", ref.Kind)
		return target, false
	case !isObjectName(ref.Name):
		r.add(at+".clusterRef.name", "%.100q is not the name of an object", ref.Name)
		return target, false
	case !isObjectName(namespace):
		r.add(at+".clusterRef.namespace", "%.100q is not the name of a namespace", namespace)
		return target, false
	case r.NoCrossNamespaceRefs && namespace != r.namespace:
		r.report(v1alpha1.ReasonClusterRefDenied, at+".clusterRef.namespace",
			fmt.Sprintf("%q is another namespace, which promoter.oneNamespace refuses", namespace))
		return target, false
	}
	target.Cluster = namespace + "/" + ref.Name
	return target, true
}

// need reads how many of n targets must be ready; rounded up.
func (r *reader) need(field string, v *intstr.IntOrString, n int) int {
	if v == nil {
		return n
	}
	if v.Type == intstr.Int {
		count := int(v.IntVal)
		if n > 0 && (2*count <= n || count > n) || count < 1 {
			r.add(field, "want more than half of the %d targets and at most all, found %d", n, count)
			return n
		}
		return min(count, n)
	}
	digits, percent := strings.CutSuffix(v.StrVal, "%")
	ratio, err := strconv.ParseUint(digits, 10, 8)
	if err != nil || !percent || ratio <= 50 || ratio > 100 {
		r.add(field, "want a count, or a percentage above 50%% and at most 100%%, found %.20q", v.StrVal)
		return n
	}
	return (n*int(ratio) + 99) / 100
}

// approval reads who must agree; nil: no approval is needed.
func (r *reader) approval(at string, a *v1alpha1.Approval, manual bool) *admission.Approval {
	if a == nil {
		if manual {
			return &admission.Approval{Count: 1}
		}
		return nil
	}
	out := &admission.Approval{Count: a.Count}
	switch {
	case a.Count == 0:
		out.Count = 1
	case a.Count < 0 || a.Count > admission.MaxApprovers:
		r.add(at+".count", "want 1 to %d, found %d", admission.MaxApprovers, a.Count)
	}
	seen := map[string]bool{}
	for i, name := range capped(r, at+".by", a.By, admission.MaxApprovers) {
		field := fmt.Sprintf("%s.by[%d]", at, i)
		group, isGroup := admission.GroupOf(name)
		key, isKey := strings.CutPrefix(name, "key:")
		switch {
		case strings.TrimSpace(name) == "" || len(name) > maxName || hasUnseen(name):
			r.add(field, "want 1 to %d visible characters, found %.100q", maxName, name)
		case isGroup && strings.TrimSpace(group) == "":
			r.add(field, "names no group")
		case isKey && strings.Count(key, "/") != 1:
			r.add(field, "want key:NAMESPACE/SECRET, found %q", name)
		case seen[name]:
			r.add(field, "%q is named twice", name)
		}
		seen[name] = true
		out.By = append(out.By, name)
	}
	return out
}

// hold reads a hold that is kept in the definition.
func (r *reader) hold(at string, h *v1alpha1.Hold) *promotion.SpecHold {
	if h == nil {
		return nil
	}
	out := &promotion.SpecHold{Reason: h.Reason, Revision: promotion.Revision(h.Revision)}
	if len(h.Reason) > maxReason || hasControl(h.Reason) {
		r.add(at+".reason", "want at most %d bytes without control characters", maxReason)
	}
	if len(h.Revision) > maxRevision || hasControl(h.Revision) {
		r.add(at+".revision", "want at most %d bytes without control characters", maxRevision)
	}
	if h.Until != "" {
		until, err := time.Parse(time.RFC3339, h.Until)
		if err != nil {
			r.add(at+".until", "want a time such as 2026-03-01T09:00:00Z, found %.50q", h.Until)
		}
		out.Until = until
	}
	return out
}

// rollback reads how an environment is rolled back; nil: never automatically.
func (r *reader) rollback(at string, b *v1alpha1.Rollback) *promotion.Rollback {
	if b == nil {
		return nil
	}
	mode := oneOf(r, at+".mode", b.Mode, "Off", "Automatic")
	after := r.duration(at+".after", b.After, 5*time.Minute, 0)
	if mode != "Automatic" {
		return nil
	}
	return &promotion.Rollback{After: after, Manual: b.Manual}
}
