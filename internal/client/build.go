package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// buildPage is the number of builds that the client reads at a time.
const buildPage = 500

// AllBuilds lists the builds that the server knows and the query selects, newest first: as many as its limit; 0: all.
func (c *Client) AllBuilds(ctx context.Context, q buildview.Query) (all []buildview.Summary, err error) {
	most := q.Limit
	for {
		if q.Limit = buildPage; most > 0 {
			q.Limit = min(buildPage, most-len(all))
		}
		var page buildview.List
		if err := c.getBuild(ctx, "", buildValues(q), &page); err != nil {
			return nil, err
		}
		if all = append(all, page.Builds...); page.Next == "" || len(all) == most {
			return all, nil
		}
		q.After = page.Next
	}
}

// buildValues returns a query as parameters of a request.
func buildValues(q buildview.Query) url.Values {
	query := numberQuery("deployment", q.Deployment, "limit", int64(q.Limit))
	addTexts(query, "status", string(q.Status), "project", q.Pipeline, "action", q.Action, "branch", q.Branch, "commit", q.Commit,
		"environment", q.Environment, "stage", q.Stage, "input", q.Input, "artifact", q.Artifact, "test", q.Test, "q", q.Text, "after", q.After)
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			query.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	return query
}

// SearchLogs requests entries that contain a text, newest first, and gives them to each: of one build, or with id ""
// of those that the query selects by Pipeline, Since and Until. A search that takes longer than a request may is
// continued, until limit matches were given; 0: all.
func (c *Client) SearchLogs(ctx context.Context, id, text string, q buildview.Query, limit int, each func(buildview.LogEntry) error) error {
	query := buildValues(q)
	query.Set("q", text)
	path := "/api/log/search"
	if id != "" {
		query, path = url.Values{"q": {text}}, "/api/build"+apiPath(id, "log", "search")
	}
	for given := 0; ; {
		page := buildview.DefaultMatches
		if limit > 0 {
			page = min(page, limit-given)
		}
		query.Set("limit", strconv.Itoa(page))
		var found buildview.Matches
		if err := c.doJSON(ctx, request{method: http.MethodGet, root: true, path: path, query: query}, &found); err != nil {
			return err
		}
		for _, m := range found.Matches {
			if err := each(m); err != nil {
				return err
			}
		}
		if given += len(found.Matches); found.Next == "" || given == limit {
			return nil
		}
		query.Set("after", found.Next)
	}
}

// Build returns a build with its steps.
func (c *Client) Build(ctx context.Context, id string) (view operation.BuildView, err error) {
	return view, c.getBuild(ctx, apiPath(id), nil, &view)
}

// BuildArtifacts lists the artifacts of a build, step by step.
func (c *Client) BuildArtifacts(ctx context.Context, id string) (all []build.Artifact, err error) {
	var list []buildview.Artifact
	err = c.getBuild(ctx, apiPath(id, "artifact"), nil, &list)
	for _, a := range list {
		a.Step = a.StepID
		all = append(all, a.Artifact)
	}
	return all, err
}

// OpenBuildArtifact returns the bytes of an artifact of a build. The caller closes them.
func (c *Client) OpenBuildArtifact(ctx context.Context, id string, artifact int) (io.ReadCloser, error) {
	response, err := c.sendRequest(ctx, request{method: http.MethodGet, root: true,
		path: "/api/build" + apiPath(id, "artifact", strconv.Itoa(artifact)), accept: "*/*"})
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// BuildTests lists the files of test results of a build.
func (c *Client) BuildTests(ctx context.Context, id string) (all []build.TestFile, err error) {
	var list []buildview.TestFileView
	err = c.getBuild(ctx, apiPath(id, "test-result"), nil, &list)
	for _, f := range list {
		f.Step = f.StepID
		all = append(all, f.TestFile)
	}
	return all, err
}

func (c *Client) getBuild(ctx context.Context, path string, query url.Values, into any) error {
	return c.doJSON(ctx, request{method: http.MethodGet, root: true, path: "/api/build" + path, query: query}, into)
}

// FollowBuild calls each for every entry of a build's steps, of one (STAGE/STEP or its number) or of all (""), as they are printed, until
// the build has ended. Entries of different steps come mixed, those of one step in order. A broken connection is resumed without loss
// or repetition.
func (c *Client) FollowBuild(ctx context.Context, id, step string, each func(buildview.Line) error) error {
	view, err := c.Build(ctx, id)
	if err != nil {
		return err
	}
	query := url.Values{}
	addTexts(query, "step", step)
	ask := request{method: http.MethodGet, root: true, path: "/api/build" + apiPath(id, "stream"), query: query, accept: "text/event-stream"}
	return c.followStream(ctx, ask, func(kind, data string) (bool, error) {
		switch kind {
		case "end":
			return false, nil
		case "status":
			var status buildview.StatusEvent
			if err := json.Unmarshal([]byte(data), &status); err != nil {
				return false, fmt.Errorf("read a status of build %s: %w", id, err)
			}
			return step == "" || !status.Status.Ended(), nil // with a step its log ends before the build does
		case "log":
			var entry buildview.LogEntry
			if err := json.Unmarshal([]byte(data), &entry); err != nil {
				return false, fmt.Errorf("read the log of build %s: %w", id, err)
			}
			if entry.StepID == 0 && step == "" {
				return true, nil // Waybill's own notes are not a step's
			}
			if entry.StepID > 0 && view.Plan.Step(entry.StepID) == nil { // it was not planned yet
				if view, err = c.Build(ctx, id); err != nil {
					return false, err
				}
			}
			return true, each(lineOf(entry, view))
		}
		return true, nil
	})
}

// lineOf returns an entry in the form that is printed.
func lineOf(e buildview.LogEntry, view operation.BuildView) buildview.Line {
	line := buildview.Line{Step: "/", ID: e.ID, At: e.Timestamp, Stream: e.Stream, Partial: e.Partial, Text: e.Message}
	if step := view.Plan.Step(e.StepID); step != nil {
		line.Step = step.Path()
	}
	return line
}
