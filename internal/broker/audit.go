package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/services"
)

// Times of the audit: between two audits, and between the two looks of one.
const (
	auditEvery   = 10 * time.Minute
	auditConfirm = time.Minute
)

// mostFailures bounds the errors of an audit that are reported.
const mostFailures = 10

// auditReading bounds the time of one look at the flows, which an API server may keep waiting without end.
const auditReading = time.Minute

// auditPage is the number of rows that one request reads.
const auditPage = 500

// finding is a difference between a row and the flows that has to be corrected.
type finding struct {
	instance  string
	namespace string
	verb      services.Verb // Deprovision: the flow is a leftover; Repair: it is missing
	operation action.ID     // the row's, so that a row that has changed since is another finding
}

// seenFlow is the flow of a service instance as the audit sees it.
type seenFlow struct {
	namespace string
	own       bool // the log is this one
	deleting  bool
}

// Audit compares the rows of service instances with the flows of the cluster until ctx ends, and corrects the differences that it has seen twice:
// a restored cluster lacks flows, and a late write leaves one.
func (b *Broker) Audit(ctx context.Context) {
	if b.Flows == nil {
		return
	}
	for first := true; first || loop.Pause(ctx, auditEvery); first = false {
		if err := b.auditOnce(ctx, func() bool { return loop.Pause(ctx, auditConfirm) }); err != nil && ctx.Err() == nil {
			b.Log.Warn("service instances cannot be compared with their flows", obs.Error(err))
		}
	}
}

// auditOnce makes one audit, with a pause between its two looks.
func (b *Broker) auditOnce(ctx context.Context, pause func() bool) error {
	before, err := b.findings(ctx)
	if err != nil || len(before) == 0 || !pause() {
		return err
	}
	now, err := b.findings(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for f := range now {
		if _, twice := before[f]; !twice || ctx.Err() != nil {
			continue
		}
		if err := b.correct(ctx, f); err != nil && len(failures) < mostFailures {
			failures = append(failures, fmt.Errorf("service instance %q: %w", f.instance, err))
		}
	}
	return errors.Join(failures...)
}

// findings returns the present differences, and counts the flows of other logs and of unknown service instances.
func (b *Broker) findings(ctx context.Context) (map[finding]struct{}, error) {
	log, err := b.Rows.ID(ctx)
	if err != nil {
		return nil, err
	}
	flows, err := b.Flows.all(ctx, log.String())
	if err != nil {
		return nil, err
	}
	found, known := map[finding]struct{}{}, 0
	for after, full := "", true; full; {
		page, err := b.Rows.ServicePage(ctx, after, auditPage)
		if err != nil {
			return nil, err
		}
		full = len(page) == auditPage
		for _, state := range page {
			after = state.Row.ID
			s, err := subjectOf(state.Row.User, state)
			if err != nil {
				return nil, err
			}
			own := ownFlow(s, flows[after])
			if own != nil {
				known++
			}
			if f, differ := compare(s, own); differ {
				found[f] = struct{}{}
			}
		}
	}
	b.Metrics.SetOrphans(count(flows) - known)
	return found, nil
}

func count(flows map[string][]seenFlow) (n int) {
	for _, some := range flows {
		n += len(some)
	}
	return n
}

// ownFlow returns the flow of a service instance; nil if none was seen. One of another log, or in another namespace than the last one of the
// service instance, is not its flow: any author of flows can write the annotations.
func ownFlow(s osb.Subject, seen []seenFlow) *seenFlow {
	work := s.Row.Current().Work.Flow
	at := slices.IndexFunc(seen, func(f seenFlow) bool { return work != nil && f.own && f.namespace == work.Namespace })
	if at < 0 {
		return nil
	}
	return &seen[at]
}

// compare returns the difference between a service instance and its flow that has to be corrected, and whether there is one. A flow that is
// being deleted makes none: a later audit sees the end.
func compare(s osb.Subject, own *seenFlow) (f finding, differ bool) {
	work := s.Row.Current().Work.Flow
	if work == nil {
		return f, false
	}
	f = finding{instance: s.Row.ID, operation: s.Row.Operation, namespace: work.Namespace}
	switch s.Row.State(s.Thread) {
	case osb.Gone:
		f.verb = services.Deprovision
		return f, own != nil && !own.deleting
	case osb.Ready, osb.UpdateFailed:
		f.verb = services.Repair
		return f, own == nil
	}
	return f, false
}

// correct starts the operation that ends a difference. No row names it: it is not an operation of the platform.
func (b *Broker) correct(ctx context.Context, f finding) error {
	now, err := b.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	id, begun := action.RandomID(now), false
	err = b.Ledger.Operate(ctx, key(f.instance, ""), func(state ledger.ServiceState) (change ledger.ServiceChange, err error) {
		begun = false
		s, err := subjectOf("", state)
		if err != nil || s.Row == nil || s.Row.Operation != f.operation {
			return change, err
		}
		present := s.Row.State(s.Thread)
		work := cmp.Or(s.Row.Current().Work.Flow, &osb.Flow{})
		if f.verb == services.Repair && (work.Spec == "" || present != osb.Ready && present != osb.UpdateFailed) || f.verb == services.Deprovision && present != osb.Gone {
			return change, nil
		}
		own := *work
		own.Namespace = f.namespace
		a, err := flowAction(f.verb, f.instance, &own)
		if err != nil {
			return change, err
		}
		a.ID, a.Name, a.CreatedBy = id, services.ActionName(f.instance, f.verb), "audit of the service broker"
		a.Policy.Deadline = action.Duration(cmp.Or(s.Row.Current().Work.Polling, osb.DefaultPolling))
		begun = true
		return ledger.ServiceChange{Start: &ledger.ServiceOperation{Verb: f.verb, Action: a}}, nil
	})
	if fault.Is(err, fault.DuplicateKey) {
		return nil // it is being corrected
	}
	if err == nil && begun {
		b.Log.Info("a service instance and its flow differ", obs.KeyInstance, f.instance, obs.KeyDoing, string(f.verb), obs.KeyName, f.namespace, obs.KeyRef, id.String())
	}
	return err
}

// all returns the flows of service instances by their ids. log is the id of this log. A flow whose name is not that of the service instance
// which it names has another author than the handler.
func (f *Flows) all(ctx context.Context, log string) (map[string][]seenFlow, error) {
	found := map[string][]seenFlow{}
	ctx, cancel := context.WithTimeoutCause(ctx, auditReading, fmt.Errorf("the cluster did not answer within %s", auditReading))
	defer cancel()
	for one, err := range kube.List(ctx, f.objects(metav1.NamespaceAll), metav1.ListOptions{LabelSelector: flow.LabelInstance}) {
		if err != nil {
			return nil, fmt.Errorf("list EventFlows: %w", err)
		}
		annotations := one.GetAnnotations()
		id := annotations[flow.AnnotationID]
		if len(id) > services.MostID || one.GetName() != flow.InstanceFlow(id) {
			id = "" // counted only
		}
		found[id] = append(found[id], seenFlow{namespace: one.GetNamespace(), own: annotations[flow.AnnotationLog] == log,
			deleting: one.GetDeletionTimestamp() != nil})
	}
	return found, nil
}
