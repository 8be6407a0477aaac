package service

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/osb"
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
	Asked     *ServiceAttributes `json:"asked,omitempty"`   // attributes in the last provision or update; left out in lists
	Applied   *ServiceAttributes `json:"applied,omitempty"` // those in the last one that succeeded; left out in lists, and if none has
}

// ServiceOperation is the newest operation of a service instance.
type ServiceOperation struct {
	Action   action.ID     `json:"action"`
	Verb     string        `json:"verb"` // provision, update or deprovision
	Status   action.Status `json:"status,omitzero"`
	Handler  string        `json:"handler,omitempty"`  // left out if the action is not kept any more, like the rest
	Spent    int           `json:"spent,omitempty"`    // attempts that failed
	Attempts int           `json:"attempts,omitempty"` // most attempts
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
}

// MostServiceInstances is the most service instances of a page: each may have parameters of a mebibyte.
const MostServiceInstances = 100

// ServiceInstances returns at most limit service instances after an id, in the order of their ids byte by byte. limit is at most
// MostServiceInstances; 0 means that.
func (s *Service) ServiceInstances(ctx context.Context, after string, limit int) ([]ServiceInstanceView, error) {
	page, err := s.ledger.ServicePage(ctx, after, min(cmp.Or(limit, MostServiceInstances), MostServiceInstances))
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
	for _, a := range []*ServiceAttributes{view.Asked, view.Applied} {
		if a != nil && !IdentityOf(ctx).Has(ScopeRead) {
			a.Parameters, a.Context = nil, nil
		}
	}
	return view, err
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
		view.Operation = ServiceOperation{Action: x.ID, Verb: string(row.Verb), Status: cmp.Or(row.End, x.Thread.Status), Handler: x.Handler,
			Spent: x.Thread.Spent, Attempts: x.Policy.Retries + 1, Error: x.Error, Text: TextOf(x.Output)}
		if x.Thread.Status == action.Backoff {
			view.Operation.NextAt = x.Thread.RunAt
		}
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
	return &ServiceAttributes{Service: a.ServiceID, Plan: a.PlanID, Organization: a.Organization, Space: a.Space, Platform: a.Platform,
		Namespace: a.Namespace, Maintenance: a.Maintenance, Parameters: json.RawMessage(a.Parameters), Context: json.RawMessage(a.Context)}, nil
}
