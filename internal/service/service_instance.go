package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service/flowview"
	"github.com/waybill-dev/waybill/internal/services"
)

// ServiceInstanceView is a service instance of the broker with its newest operation.
type ServiceInstanceView struct {
	ID        string    `json:"id"`
	State     string    `json:"state"`   // words of osb.State, such as ready or being provisioned
	Service   string    `json:"service"` // id in the catalog
	Plan      string    `json:"plan"`    // id in the catalog
	User      string    `json:"user"`    // user of the broker
	ChangedAt time.Time `json:"changedAt"`
	DeletedAt time.Time `json:"deletedAt,omitzero"` // its row is kept for 30 days

	Operation ServiceOperation   `json:"operation"`
	Audit     []ServiceOperation `json:"audit,omitempty"`   // those that the broker began itself since, newest first; left out in lists
	Asked     *ServiceAttributes `json:"asked,omitempty"`   // attributes in the last provision or update; left out in lists
	Applied   *ServiceAttributes `json:"applied,omitempty"` // those in the last one that succeeded; left out in lists, and if none has

	// Flow is the EventFlow of a service instance that is one, with their combined status; without a name if it does not exist. It is
	// left out in lists, and in a process that reads no flows.
	Flow       *flowview.Flow `json:"flow,omitempty"`
	FlowUnread string         `json:"flowUnread,omitempty"` // reason why it could not be read
}

// ServiceOperation is the newest operation of a service instance.
type ServiceOperation struct {
	Action   action.ID     `json:"action"`
	Verb     string        `json:"verb"` // provision, update or deprovision
	Status   action.Status `json:"status,omitzero"`
	Handler  string        `json:"handler,omitempty"`  // left out if the action is not kept any more, like the rest
	Spent    int           `json:"spent,omitempty"`    // attempts that failed
	Attempts int           `json:"attempts,omitempty"` // most attempts; left out without a bound
	NextAt   time.Time     `json:"nextAt,omitzero"`    // time of the next attempt
	Error    string        `json:"error,omitempty"`
	Text     string        `json:"text,omitempty"` // text that the handler left
}

// ServiceAttributes holds the properties of a service instance as its platform wants it.
type ServiceAttributes struct {
	Service      string `json:"service"`
	Plan         string `json:"plan"`
	Organization string `json:"organization,omitempty"`
	Space        string `json:"space,omitempty"`
	Platform     string `json:"platform,omitempty"`
	Namespace    string `json:"namespace,omitempty"`
	Maintenance  string `json:"maintenance,omitempty"` // version

	// Parameters and Context may hold secrets: only readers with a token get them.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	Context    json.RawMessage `json:"context,omitempty"`
	Flow       string          `json:"-"` // namespace of the EventFlow that the service instance is; "": it is none
}

// HasBroker reports whether the configuration has a service broker.
func (s *Service) HasBroker() bool { return s.offers.Broker != nil && s.offers.Broker() }

// MostServiceInstances is the most service instances of a page: each may have parameters of a mebibyte.
const MostServiceInstances = 100

// ServiceInstances returns at most limit service instances after an id, in the order of their ids byte by byte. A limit of 0 is
// MostServiceInstances; one above it or below 0 is fault.Invalid.
func (s *Service) ServiceInstances(ctx context.Context, after string, limit int) ([]ServiceInstanceView, error) {
	if limit < 0 || limit > MostServiceInstances {
		return nil, fault.New(fault.Invalid, "limit %d: want 1 to %d", limit, MostServiceInstances)
	}
	page, err := s.ledger.ServicePage(ctx, after, cmp.Or(limit, MostServiceInstances))
	var views []ServiceInstanceView
	for _, state := range page {
		view, err := serviceInstanceView(state)
		if err != nil {
			return nil, err
		}
		view.Asked, view.Applied = nil, nil
		views = append(views, view)
	}
	return views, err
}

// ServiceInstance returns a service instance. One that is unknown is fault.NotFound.
func (s *Service) ServiceInstance(ctx context.Context, id string) (ServiceInstanceView, error) {
	state, err := s.ledger.Service(ctx, ledger.ServiceKey{Instance: id})
	if err != nil {
		return ServiceInstanceView{}, err
	}
	if state.Row == nil {
		return ServiceInstanceView{}, fault.New(fault.NotFound, "service instance %q not found", id).WithHint("waybill broker list")
	}
	view, err := serviceInstanceView(state)
	if err != nil {
		return view, err
	}
	view.Audit, err = s.audits(ctx, state.Row)
	s.readFlow(ctx, &view)
	for _, a := range []*ServiceAttributes{view.Asked, view.Applied} {
		if a != nil && !IdentityOf(ctx).Has(ScopeRead) {
			a.Parameters, a.Context = nil, nil
		}
	}
	return view, err
}

// mostAudits bounds the operations of audits in a view, for each verb.
const mostAudits = 5

// audits returns the operations that audits have begun since the newest operation of the platform.
func (s *Service) audits(ctx context.Context, row *services.Instance) (all []ServiceOperation, err error) {
	for _, verb := range []services.Verb{services.Repair, services.Deprovision} {
		found, err := s.ledger.Actions(ctx, queue.ActionQuery{Kind: services.Kind, Name: services.ActionName(row.ID, verb), Limit: mostAudits})
		if err != nil {
			return nil, err
		}
		for _, x := range found {
			if bytes.Compare(x.ID[:], row.Operation[:]) > 0 {
				all = append(all, serviceOperation(verb, x))
			}
		}
	}
	slices.SortFunc(all, func(a, b ServiceOperation) int { return bytes.Compare(b.Action[:], a.Action[:]) })
	return all, nil
}

// serviceOperation returns an operation whose action is there.
func serviceOperation(verb services.Verb, x queue.ActionState) ServiceOperation {
	o := ServiceOperation{Action: x.ID, Verb: string(verb), Status: x.Thread.Status, Handler: x.Handler, Spent: x.Thread.Spent,
		Attempts: x.Policy.Attempts(), Error: x.Error, Text: TextOf(x.Output)}
	if x.Thread.Status == action.Backoff {
		o.NextAt = x.Thread.RunAt
	}
	return o
}

// serviceInstanceView returns the view of a service instance that has a row.
func serviceInstanceView(state ledger.ServiceState) (view ServiceInstanceView, err error) {
	row := state.Row
	view = ServiceInstanceView{ID: row.ID, User: row.User, DeletedAt: row.GoneAt, ChangedAt: cmp.Or(row.GoneAt, row.Operation.Time())}
	if view.Asked, err = attributesOf(row.ID, row.Asked); err == nil {
		view.Applied, err = attributesOf(row.ID, row.Applied)
	}
	if err != nil {
		return view, err
	}
	current := cmp.Or(view.Applied, view.Asked)
	view.Service, view.Plan = current.Service, current.Plan
	instance, thread := osb.Instance{Verb: osb.Verb(row.Verb), End: row.End, GoneAt: row.GoneAt}, (*osb.Thread)(nil)
	view.Operation = ServiceOperation{Action: row.Operation, Verb: string(row.Verb), Status: row.End}
	if x := state.Thread; x != nil {
		thread = &osb.Thread{Status: x.Thread.Status}
		view.ChangedAt = cmp.Or(x.FinishedAt, x.EnqueuedAt)
		view.Operation = serviceOperation(row.Verb, *x)
		view.Operation.Status = cmp.Or(row.End, x.Thread.Status)
	}
	view.State = instance.State(thread).String()
	return view, nil
}

// attributesOf reads the document of a row; nil if it has none.
func attributesOf(id string, document json.RawMessage) (*ServiceAttributes, error) {
	if document == nil {
		return nil, nil
	}
	var a osb.Attributes
	if err := json.Unmarshal(document, &a); err != nil {
		return nil, fmt.Errorf("read the row of service instance %q: %w", id, err)
	}
	view := &ServiceAttributes{Service: a.ServiceID, Plan: a.PlanID, Organization: a.Organization, Space: a.Space, Platform: a.Platform,
		Namespace: a.Namespace, Maintenance: a.Maintenance, Parameters: json.RawMessage(a.Parameters), Context: json.RawMessage(a.Context)}
	if a.Work.Flow != nil {
		view.Flow = a.Work.Flow.Namespace
	}
	return view, nil
}
