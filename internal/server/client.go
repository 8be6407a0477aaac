package server

import (
	"context"
	"io"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/schedule"
)

// Client asks another process what a Service answers, with the same methods and the same fault codes.
type Client struct {
	url, token string
	by         string // who asks, told to the server when the token is the home's
}

// NewClient makes a client of the server at url. token may be "" for reading on loopback.
func NewClient(url, token, by string) *Client { return &Client{url: url, token: token, by: by} }

// Pipelines is Service.Pipelines.
func (c *Client) Pipelines(ctx context.Context) ([]PipelineView, error) { panic("skeleton") }

// Pipeline is Service.Pipeline.
func (c *Client) Pipeline(ctx context.Context, name string) (PipelineView, error) { panic("skeleton") }

// Versions is Service.Versions.
func (c *Client) Versions(ctx context.Context, pipeline string) ([]ledger.Version, error) {
	panic("skeleton")
}

// Version is Service.Version.
func (c *Client) Version(ctx context.Context, pipeline string, version int) (ledger.Version, error) {
	panic("skeleton")
}

// PlanEdit is Service.PlanEdit; Source is what is sent.
func (c *Client) PlanEdit(ctx context.Context, p Proposal) (EditView, error) { panic("skeleton") }

// Apply is Service.Apply; Source is what is sent.
func (c *Client) Apply(ctx context.Context, p Proposal) (EditView, error) { panic("skeleton") }

// Plan is Service.Plan.
func (c *Client) Plan(ctx context.Context, pipeline string, proposal *Proposal) (PlanView, error) {
	panic("skeleton")
}

// PutSnapshot is Service.PutSnapshot.
func (c *Client) PutSnapshot(ctx context.Context, pipeline, label string, r io.Reader) (key string, err error) {
	panic("skeleton")
}

// Register is Service.Register.
func (c *Client) Register(ctx context.Context, r ledger.Revision, deploy bool) (ledger.Registered, error) {
	panic("skeleton")
}

// Revisions is Service.Revisions.
func (c *Client) Revisions(ctx context.Context, pipeline string, limit int) ([]ledger.Revision, error) {
	panic("skeleton")
}

// Revision is Service.Revision.
func (c *Client) Revision(ctx context.Context, pipeline, label string) (ledger.Revision, error) {
	panic("skeleton")
}

// Deploy is Service.Deploy.
func (c *Client) Deploy(ctx context.Context, pipeline, label, by string) (ledger.Deployment, error) {
	panic("skeleton")
}

// Deployments is Service.Deployments.
func (c *Client) Deployments(ctx context.Context, q ledger.DeploymentQuery) ([]ledger.Deployment, error) {
	panic("skeleton")
}

// Deployment is Service.Deployment.
func (c *Client) Deployment(ctx context.Context, ref Ref) (DeploymentView, error) { panic("skeleton") }

// Why is Service.Why.
func (c *Client) Why(ctx context.Context, ref Ref, target string) ([]schedule.StepState, error) {
	panic("skeleton")
}

// Command is Service.Command.
func (c *Client) Command(ctx context.Context, ref Ref, k Command) error { panic("skeleton") }

// Entries is Service.Entries.
func (c *Client) Entries(ctx context.Context, q ledger.EntryQuery) ([]schedule.Entry, error) {
	panic("skeleton")
}

// Follow is Service.Follow; a cut connection is resumed.
func (c *Client) Follow(ctx context.Context, q ledger.EntryQuery, each func(schedule.Entry) error) error {
	panic("skeleton")
}

// Actions is Service.Actions.
func (c *Client) Actions(ctx context.Context, q ledger.ActionQuery) ([]ledger.ActionState, error) {
	panic("skeleton")
}

// Action is Service.Action.
func (c *Client) Action(ctx context.Context, id action.ID) (ActionView, error) { panic("skeleton") }
