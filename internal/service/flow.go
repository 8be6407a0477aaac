package service

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/service/flowview"
)

// MostFlows is the most flows of a page.
const MostFlows = 500

// FlowQuery selects EventFlows.
type FlowQuery struct {
	Namespace string // "": all
	Status    string // combined status, such as Failed; "": all
	After     string // only those after this namespace/name; "": from the first one
	Limit     int    // 1 to MostFlows
}

// Flows returns a page of EventFlows, in the order of namespaces and names.
func (s *Service) Flows(ctx context.Context, q FlowQuery) ([]flowview.Flow, error) {
	cache, err := s.openFlows()
	if err != nil {
		return nil, err
	}
	all, err := cache.List(ctx)
	if err != nil {
		return nil, err
	}
	return q.Select(all)
}

// Check returns the fault of a query.
func (q FlowQuery) Check() error {
	switch statuses := flowview.Statuses(); {
	case q.After != "" && !strings.Contains(q.After, "/"):
		return fault.New(fault.Invalid, "after %q: want a namespace and a name, such as shop/orders", q.After)
	case q.Status != "" && !slices.Contains(statuses, q.Status):
		return fault.New(fault.Invalid, "status %q: want one of %s", q.Status, strings.Join(statuses, " "))
	case q.Limit < 1 || q.Limit > MostFlows:
		return fault.New(fault.Invalid, "limit %d: want 1 to %d", q.Limit, MostFlows)
	}
	return nil
}

// Select returns the flows of a query, out of all flows in their order.
func (q FlowQuery) Select(all []flowview.Flow) (page []flowview.Flow, err error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	namespace, name, _ := strings.Cut(q.After, "/")
	for _, f := range all {
		isAfter := q.After == "" || f.Namespace > namespace || f.Namespace == namespace && f.Name > name
		if isAfter && (q.Namespace == "" || f.Namespace == q.Namespace) &&
			(q.Status == "" || f.Combined.Status == q.Status) && len(page) < q.Limit {
			page = append(page, f)
		}
	}
	return slices.Clip(page), nil
}

// FlowView is an EventFlow with the newest operation of its service instance.
type FlowView struct {
	flowview.Flow
	Operation *ServiceOperation `json:"operation,omitempty"` // left out if the log does not have the service instance

	OperationUnread string `json:"operationUnread,omitempty"` // reason why the operation could not be read
}

// Flow returns an EventFlow. An unknown one is fault.NotFound. An error of the log is a text of the view, since the cluster has the rest.
func (s *Service) Flow(ctx context.Context, namespace, name string) (view FlowView, err error) {
	cache, err := s.openFlows()
	if err != nil {
		return view, err
	}
	if view.Flow, err = cache.Get(ctx, namespace, name); err != nil || view.ServiceInstance == nil {
		return view, err
	}
	view.Operation, err = s.flowOperation(ctx, namespace, view.ServiceInstance.ID)
	if err != nil {
		view.OperationUnread = err.Error()
	}
	return view, nil
}

// flowOperation returns the operation of the service instance that a flow of a namespace was made for; nil if the log has none.
func (s *Service) flowOperation(ctx context.Context, namespace, id string) (*ServiceOperation, error) {
	state, err := s.ledger.Service(ctx, ledger.ServiceKey{Instance: id})
	switch {
	case fault.Is(err, fault.Invalid): // the annotation has a text that is not an id
		return nil, nil
	case err != nil || state.Row == nil:
		return nil, err
	}
	instance, err := serviceInstanceView(state)
	if err != nil || instance.flow() != namespace { // the annotation is that of another flow
		return nil, err
	}
	return &instance.Operation, nil
}

// HasFlows reports whether the configuration names a cluster with EventFlows.
func (s *Service) HasFlows() bool {
	_, err := s.openFlows()
	return !fault.Is(err, fault.NotFound)
}

// flow returns the namespace of the flow that a service instance is; "": it is none.
func (v *ServiceInstanceView) flow() string { return cmp.Or(v.Applied, v.Asked).Flow }

// readFlow adds the flow to a service instance that is one. An error of the cluster is a text of the view, since the log
// has the rest.
func (s *Service) readFlow(ctx context.Context, view *ServiceInstanceView) {
	namespace := view.flow()
	if namespace == "" {
		return
	}
	cache, err := s.openFlows()
	if fault.Is(err, fault.NotFound) {
		return
	}
	var found flowview.Flow
	if err == nil {
		found, err = cache.Of(ctx, namespace, view.ID, view.DeletedAt.IsZero())
	}
	if err != nil {
		view.FlowUnread = err.Error()
		return
	}
	view.Flow = &found
}

// openFlows returns the flows of the cluster in the configuration.
func (s *Service) openFlows() (*flowview.Cache, error) {
	if s.flows == nil {
		return nil, errNoFlows()
	}
	cache, err := s.flows()
	if err == nil && cache == nil {
		err = errNoFlows()
	}
	return cache, err
}

func errNoFlows() error {
	return fault.New(fault.NotFound, "this process reads no EventFlows: server.yaml does not have the section flow").
		WithHint("flow: {kubeconfig: FILE, context: NAME} in server.yaml, which --config names; or have the command ask the cluster: waybill flow list --context NAME")
}
