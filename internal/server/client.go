package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Client asks a server over HTTP, with the methods and fault codes of a Service. The error is fault.Unavailable if the
// server cannot be reached.
type Client struct {
	base   string // http://127.0.0.1:7070
	by     string // name of the user, which the server takes if the token is the home's
	open   *line
	proven *line // with the home's token, to a server that proves that it has it; nil: the server is not the home's

	mu     sync.Mutex
	chosen *line // open or proven; nil: not known yet
}

// NewClient returns a client of the server at address (http://host:port). token may be "" for reading on loopback.
func NewClient(address, token, by string) *Client {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return &Client{base: strings.TrimSuffix(address, "/"), by: by, open: newLine(token, nil)}
}

// NewHomeClient returns a client of a home's own server. It sends the home's token only on connections whose server has proved
// that it has the token, or that are encrypted: then the name is proved. Elsewhere it sends none.
func NewHomeClient(address, token, by string) *Client {
	c := NewClient(address, "", by)
	base, err := url.Parse(c.base)
	switch {
	case err != nil || token == "":
	case base.Scheme == "https":
		c.open = newLine(token, nil)
	default:
		c.proven = newLine(token, proving(base, token))
	}
	return c
}

// PlanEdit calls Service.PlanEdit on the server. Of the proposal's definition it sends the Source.
func (c *Client) PlanEdit(ctx context.Context, p Proposal) (EditView, error) {
	view, err := c.plan(ctx, PlanQuery{Pipeline: p.Definition.Pipeline, Proposal: &p}, false)
	if err != nil || view.Edit == nil {
		return EditView{}, err
	}
	return *view.Edit, nil
}

// Apply calls Service.Apply on the server. Of the proposal's definition it sends the Source.
func (c *Client) Apply(ctx context.Context, p Proposal) (view EditView, err error) {
	query := url.Values{"file": {p.File}}
	if p.Yes {
		query.Set("yes", "true")
	}
	q := request{method: http.MethodPut, path: apiPath("pipelines", p.Definition.Pipeline), query: query, body: strings.NewReader(p.Source), kind: yamlType}
	if p.IfVersion != nil {
		q.ifMatch = strconv.Quote(strconv.Itoa(*p.IfVersion))
	}
	err = c.doJSON(ctx, q, &view)
	if fault.Is(err, fault.Refused) { // a refusal has no view: ask what would be lost
		if planned, planErr := c.PlanEdit(ctx, p); planErr == nil {
			view = planned
		}
	}
	return view, err
}

// Plan calls Service.Plan on the server.
func (c *Client) Plan(ctx context.Context, q PlanQuery) (PlanView, error) {
	return c.plan(ctx, q, true)
}

func (c *Client) plan(ctx context.Context, want PlanQuery, simulate bool) (view PlanView, err error) {
	q := request{method: http.MethodPost, path: apiPath("pipelines", want.Pipeline, "plan"), query: url.Values{"fail": want.Fail}}
	q.query.Set("simulate", strconv.FormatBool(simulate))
	addTexts(q.query, "revision", want.Revision, "from", want.From)
	if p := want.Proposal; p != nil {
		q.query.Set("file", p.File)
		q.body, q.kind = strings.NewReader(p.Source), yamlType
	}
	return view, c.doJSON(ctx, q, &view)
}

// PutSnapshot calls Service.PutSnapshot on the server.
func (c *Client) PutSnapshot(ctx context.Context, name, label string, r io.Reader) (key string, err error) {
	var stored Stored
	err = c.doJSON(ctx, request{
		method: http.MethodPut, path: apiPath("pipelines", name, "revisions", label, "snapshot"), body: r, kind: binaryType,
	}, &stored)
	return stored.Key, err
}

// PutArtifact calls Service.PutArtifact on the server. a.Size is the length of r. With a digest the server may answer before r is
// sent.
func (c *Client) PutArtifact(ctx context.Context, name, label string, a pipeline.RevisionArtifact, r io.Reader) (stored pipeline.RevisionArtifact, err error) {
	query := url.Values{}
	addTexts(query, "name", a.Name, "digest", a.Digest)
	return stored, c.doJSON(ctx, request{
		method: http.MethodPut, path: apiPath("pipelines", name, "revisions", label, "artifacts", a.Label), query: query,
		body: r, size: a.Size, kind: binaryType, expect: "100-continue",
	}, &stored)
}

// Register calls Service.Register on the server.
func (c *Client) Register(ctx context.Context, r pipeline.RegisteredRevision, deploy bool, until string) (done journal.Registered, err error) {
	body := map[string]any{
		"label": r.Label, "commit": r.Commit, "subject": r.Subject, "snapshot": r.Snapshot, "deploy": deploy, "until": until,
	}
	if !r.CommittedAt.IsZero() {
		body["committedAt"] = r.CommittedAt
	}
	if r.Branch != "" { // a server of an earlier version refuses what it does not know
		body["branch"] = r.Branch
	}
	return done, c.postJSON(ctx, apiPath("pipelines", r.Pipeline, "revisions"), body, &done)
}

// Deploy calls Service.Deploy on the server. The server takes By from the token.
func (c *Client) Deploy(ctx context.Context, want NewDeployment) (made journal.Deployment, err error) {
	content, err := json.Marshal(want.body())
	if err != nil {
		return made, fmt.Errorf("encode the request to deploy %s: %w", want.Pipeline, err)
	}
	return made, c.doJSON(ctx, request{method: http.MethodPost, path: apiPath("pipelines", want.Pipeline, "deployments"), body: bytes.NewReader(content),
		kind: "application/json", once: want.Key}, &made)
}

// Deployments calls Service.Deployments on the server.
func (c *Client) Deployments(ctx context.Context, q journal.DeploymentQuery) (found []journal.Deployment, err error) {
	query := numberQuery("revision", q.Revision, "before", q.Before, "limit", int64(q.Limit))
	addTexts(query, "pipeline", q.Pipeline, "status", string(q.Status))
	return found, c.getJSON(ctx, "/deployments", query, &found)
}

// Resolve calls Service.Resolve on the server.
func (c *Client) Resolve(ctx context.Context, text string) (Ref, error) {
	if _, err := action.ParseID(text); err != nil {
		return ParseRef(text)
	}
	var view DeploymentView
	err := c.getJSON(ctx, apiPath("deployments", text), nil, &view)
	return Ref{view.Pipeline, view.Number}, err
}

// Deployment calls Service.Deployment on the server.
func (c *Client) Deployment(ctx context.Context, ref Ref) (view DeploymentView, err error) {
	return view, c.getJSON(ctx, apiPath("deployments", ref.String()), nil, &view)
}

// Steps calls Service.Steps on the server.
func (c *Client) Steps(ctx context.Context, ref Ref) (steps []pipeline.StepState, err error) {
	return steps, c.getJSON(ctx, apiPath("deployments", ref.String(), "steps"), nil, &steps)
}

// Why calls Service.Why on the server.
func (c *Client) Why(ctx context.Context, ref Ref, target string) (open []pipeline.StepState, err error) {
	query := url.Values{}
	addTexts(query, "target", target)
	return open, c.getJSON(ctx, apiPath("deployments", ref.String(), "why"), query, &open)
}

// Command calls Service.Command on the server. The server takes By from the token.
func (c *Client) Command(ctx context.Context, ref Ref, k Command) error {
	return c.postJSON(ctx, apiPath("deployments", ref.String(), commandPath(k.Kind)), k.body(), nil)
}

// CatchUp calls Service.CatchUp on the server. The server takes By from the token.
func (c *Client) CatchUp(ctx context.Context, want TargetRequest) (d journal.Deployment, err error) {
	return d, c.postJSON(ctx, apiPath("pipelines", want.Pipeline, "catch-up"), map[string]any{"target": want.Target, "reason": want.Reason}, &d)
}

// Rollback calls Service.Rollback on the server. The server takes By from the token.
func (c *Client) Rollback(ctx context.Context, want TargetRequest) (d journal.Deployment, err error) {
	return d, c.postJSON(ctx, apiPath("pipelines", want.Pipeline, "rollback"), want.rollbackBody(), &d)
}

// Entries calls Service.Entries on the server.
func (c *Client) Entries(ctx context.Context, q journal.EntryQuery) (rows []pipeline.Entry, err error) {
	return rows, c.getJSON(ctx, apiPath("pipelines", q.Pipeline, "log"), entryQuery(q), &rows)
}

func entryQuery(q journal.EntryQuery) url.Values {
	query := numberQuery("after", q.After, "deployment", q.Deployment, "limit", int64(q.Limit))
	addTexts(query, "target", q.Target)
	if q.Class != 0 {
		query.Set("class", q.Class.String())
	}
	if q.Newest {
		query.Set("newest", "true")
	}
	return query
}

// Follow calls Service.Follow on the server. A broken connection is resumed without loss or repetition.
func (c *Client) Follow(ctx context.Context, q journal.EntryQuery, each func(pipeline.Entry) error) error {
	ask := request{method: http.MethodGet, path: apiPath("pipelines", q.Pipeline, "log"), query: entryQuery(q), accept: "text/event-stream"}
	return c.followStream(ctx, ask, func(_, data string) (bool, error) {
		var entry pipeline.Entry
		if err := json.Unmarshal([]byte(data), &entry); err != nil {
			return false, fmt.Errorf("read an entry of %s: %w", q.Pipeline, err)
		}
		return true, each(entry)
	})
}
