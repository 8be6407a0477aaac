package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// OpenBuildArtifact returns the bytes of an artifact of a build. The caller closes them.
func (c *Client) OpenBuildArtifact(ctx context.Context, id string, artifact int) (io.ReadCloser, error) {
	in := operation.BuildArtifactPath{BuildPath: operation.BuildPath{ID: id}, Artifact: artifact}
	ask, err := newRequest(operation.Description(operation.GetBuildArtifact), &in)
	if err != nil {
		return nil, err
	}
	ask.accept = "*/*"
	response, err := c.sendRequest(ctx, ask)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// FollowBuild calls each for every entry of a build's steps, of one (STAGE/STEP or its number) or of all (""), as they are printed, until
// the build has ended. Entries of different steps come mixed, those of one step in order. A broken connection is resumed without loss
// or repetition.
func (c *Client) FollowBuild(ctx context.Context, id, step string, each func(buildview.Line) error) error {
	in := operation.FollowBuildInput{BuildPath: operation.BuildPath{ID: id}, Step: step}
	view, err := operation.GetBuild.Call(ctx, c, in.BuildPath)
	if err != nil {
		return err
	}
	ask, err := newRequest(operation.Description(operation.FollowBuild), &in)
	if err != nil {
		return err
	}
	ask.accept = "text/event-stream"
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
				if view, err = operation.GetBuild.Call(ctx, c, in.BuildPath); err != nil {
					return false, err
				}
			}
			return true, each(view.LineOf(entry))
		}
		return true, nil
	})
}
