package broker

import (
	"context"
	"net/http"
	"strings"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
)

// catalog answers with the services that there are.
func (b *Broker) catalog(a asker) answer {
	if _, err := a.osb().Origin(); err != nil {
		return failed(err)
	}
	if !a.scope().MountAllowed() {
		return a.refuseMount()
	}
	now := a.offered
	header := map[string]string{"ETag": now.ETag(), "Cache-Control": "no-cache"} // a platform may keep it, and compares the tag
	if matches(strings.Join(a.Header.Values("If-None-Match"), ","), now.ETag()) {
		return answer{Decision: osb.Decision{Status: http.StatusNotModified}, header: header}
	}
	return answer{Decision: osb.Decision{Status: http.StatusOK}, raw: now.JSON(), header: header}
}

// refuseMount refuses the namespace of the address.
func (a asker) refuseMount() answer {
	return refuse(http.StatusBadRequest, osb.CodeInvalid, "the namespace %q is not allowed to this user, or is not the name of a namespace",
		a.scope().Mount)
}

// matches reports whether an If-None-Match names an entity tag (RFC 9110).
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}

func (b *Broker) provision(a asker) answer {
	p, refused := a.osb().Provision()
	if refused != nil {
		return failed(refused)
	}
	if !p.Scope.MountAllowed() {
		return a.refuseMount()
	}
	plan, refused := a.offered.CheckProvision(p)
	if refused != nil && p.AcceptsIncomplete {
		return decided(b.look(a, key(p.Instance, ""), func(s osb.Subject, _ *osb.Binding) (osb.Decision, error) { return s.Repeated(p, refused), nil }))
	}
	if refused != nil {
		return failed(refused)
	}
	return b.decide(a, key(p.Instance, ""), p.Origin, func(s osb.Subject, _ *osb.Binding) osb.Decision { return s.Put(p, plan) })
}

func (b *Broker) update(a asker) answer {
	u, refused := a.osb().Update()
	if refused != nil {
		return failed(refused)
	}
	catalog, planNow := a.offered, ""
	if u.PlanID == "" {
		state, err := b.Ledger.Service(a.Context(), key(u.Instance, ""))
		if err != nil {
			return answer{err: err}
		}
		subject, err := subjectOf(a.user, state)
		if err != nil {
			return answer{err: err}
		}
		planNow = subject.PlanID()
	}
	change, refused := catalog.CheckUpdate(u, planNow)
	if refused != nil {
		return failed(refused)
	}
	return b.decide(a, key(u.Instance, ""), u.Origin, func(s osb.Subject, _ *osb.Binding) osb.Decision {
		if u.PlanID == "" && s.PlanID() != planNow { // another request has just changed it
			return osb.Decision{Err: osb.Concurrency()}
		}
		return s.Patch(u, change)
	})
}

func (b *Broker) deprovision(a asker) answer {
	d, refused := a.osb().Deprovision()
	if refused != nil {
		return failed(refused)
	}
	remove := func(leftover *osb.Flow) answer {
		return b.decide(a, key(d.Instance, ""), d.Origin, func(s osb.Subject, _ *osb.Binding) osb.Decision { return s.Delete(d, a.offered, leftover) })
	}
	removed := remove(nil)
	if removed.err != nil || removed.Err == nil || removed.Err.Status != http.StatusGone || b.Flows == nil {
		return removed
	}
	leftover, err := b.Flows.leftover(a.Context(), d.Instance, a.scope())
	if err != nil {
		return answer{err: err}
	}
	if leftover == nil {
		return removed
	}
	return remove(leftover)
}

func (b *Broker) fetch(a asker) answer {
	f, refused := a.osb().Fetch()
	if refused != nil {
		return failed(refused)
	}
	return decided(b.look(a, key(f.Instance, ""), func(s osb.Subject, _ *osb.Binding) (osb.Decision, error) { return s.Get(), nil }))
}

// poll reports the state of an operation.
func (b *Broker) poll(a asker) answer {
	f, refused := a.osb().Fetch()
	if refused != nil {
		return failed(refused)
	}
	return decided(b.look(a, key(f.Instance, ""), func(s osb.Subject, _ *osb.Binding) (osb.Decision, error) {
		found, err := b.operation(a.Context(), s.Row, f.Named)
		return s.LastOperation(found, b.Tombstone()), err
	}))
}

func (b *Broker) bind(a asker) answer {
	bind, refused := a.osb().Bind()
	if refused != nil {
		return failed(refused)
	}
	plan, refused := a.offered.CheckBind(bind)
	if refused != nil {
		return failed(refused)
	}
	return b.decide(a, key(bind.Instance, bind.BindingID), bind.Origin, func(s osb.Subject, existing *osb.Binding) osb.Decision {
		return s.Bind(bind, plan, existing)
	})
}

func (b *Broker) unbind(a asker) answer {
	u, refused := a.osb().Unbind()
	if refused != nil {
		return failed(refused)
	}
	return b.decide(a, key(u.Instance, u.BindingID), u.Origin, func(s osb.Subject, existing *osb.Binding) osb.Decision {
		return s.Unbind(u, existing)
	})
}

func (b *Broker) fetchBinding(a asker) answer {
	f, refused := a.osb().FetchBinding()
	if refused != nil {
		return failed(refused)
	}
	return decided(b.look(a, key(f.Instance, f.BindingID), func(s osb.Subject, existing *osb.Binding) (osb.Decision, error) {
		var plan *osb.Plan
		if s.Row != nil {
			current := s.Row.Current()
			plan = a.offered.Plan(current.ServiceID, current.PlanID)
		}
		return s.GetBinding(plan, existing), nil
	}))
}

func (b *Broker) pollBinding(a asker) answer {
	f, refused := a.osb().FetchBinding()
	if refused != nil {
		return failed(refused)
	}
	return decided(b.look(a, key(f.Instance, ""), func(s osb.Subject, _ *osb.Binding) (osb.Decision, error) {
		return s.LastBindingOperation(), nil
	}))
}

func key(instance, binding string) ledger.ServiceKey {
	return ledger.ServiceKey{Instance: instance, Binding: binding}
}

// look answers from what the log has, without changing it.
func (b *Broker) look(a asker, key ledger.ServiceKey, decide func(osb.Subject, *osb.Binding) (osb.Decision, error)) (osb.Decision, error) {
	state, err := b.Ledger.Service(a.Context(), key)
	if err != nil {
		return osb.Decision{}, err
	}
	subject, err := b.subject(a.user, key, state)
	if err != nil {
		return osb.Decision{}, err
	}
	d, err := decide(subject, bindingOf(state.Binding))
	if err == nil && d.Flow != nil {
		if subject.Credentials, err = b.credentials(a.Context(), key.Instance, d.Flow); err == nil {
			subject.Read = d.Flow
			d, err = decide(subject, bindingOf(state.Binding))
		}
	}
	return d, err
}

// operation returns the operation that a poll names, by its id or as the newest with a verb; nil if it is not kept, or names none.
func (b *Broker) operation(ctx context.Context, row *osb.Instance, named osb.Named) (*osb.Operation, error) {
	if row == nil || named.Verb == row.Verb || named == (osb.Named{}) {
		return nil, nil
	}
	if named.Verb != "" {
		some, err := b.Ledger.Actions(ctx, queue.ActionQuery{Kind: services.Kind, Name: services.ActionName(row.ID, services.Verb(named.Verb)), Limit: 1})
		if err != nil || len(some) == 0 || row.Precedes(some[0].ID) {
			return nil, err
		}
		return operationOf(some[0]), nil
	}
	state, err := b.Ledger.Action(ctx, named.ID)
	if isUnknown(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return operationOf(state), nil
}
