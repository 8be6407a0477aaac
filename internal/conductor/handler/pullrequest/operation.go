package pullrequest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/git/mirror"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/marker"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// environmentOf returns the environment as markers name it.
func environmentOf(w promotion.Work) marker.Environment {
	return marker.Environment{Namespace: w.Namespace, Pipeline: w.Pipeline, Name: string(w.Env)}
}

// propose makes the right proposal exist. The branch is pushed before the proposal is made, and only if no proposal for the revision
// was merged or declined.
func (t *try) propose(ctx context.Context) (action.Outcome, error) {
	before, err := t.client.Prepare(ctx, t.work)
	if err != nil {
		return action.Outcome{}, err
	}
	if before.Change == githost.Merged {
		return t.done(&before.Proposal, fmt.Sprintf("pull request %d is merged", before.Proposal.Number), ""), nil
	}
	request, err := t.request(ctx)
	if err != nil {
		return action.Outcome{}, err
	}
	request.Merged = before.MergedHead
	branch, err := t.cfg.Mirrors.Propose(ctx, request)
	if err != nil {
		return action.Outcome{}, err
	}
	if branch.AlreadyAsked {
		detail := fmt.Sprintf("commit %s of %s has %s already", short(branch.Base), t.work.Host.Base, t.work.Revision)
		return t.done(nil, detail, promotion.ErrAlreadyAsked), nil
	}
	lines := make([]githost.Line, len(branch.Lines))
	for i, l := range branch.Lines {
		lines[i] = githost.Line{File: l.File, Number: l.Number, Was: l.Old, Is: l.New}
	}
	made, err := t.client.Ensure(ctx, t.work, t.client.Describe(t.work, lines))
	if err != nil {
		return action.Outcome{}, err
	}
	p := made.Proposal
	p.Run, p.Revision, p.Foreign = t.work.Run, t.work.Revision, branch.Foreign
	if p.State == promotion.Open {
		p.Base, p.Head = branch.Base, branch.Head
	}
	return t.done(&p, strings.Join(append([]string{fmt.Sprintf("pull request %d %s: %s", p.Number, made.Change, p.URL)},
		made.Warnings...), "; "), ""), nil
}

// merge merges the proposal at the decided head, and deletes the branch if it is still there. The branch is made again for each
// revision, so one that cannot be deleted does not matter.
func (t *try) merge(ctx context.Context) (action.Outcome, error) {
	merged, err := t.client.Merge(ctx, t.work, t.verify)
	if err != nil {
		return action.Outcome{}, err
	}
	detail := fmt.Sprintf("pull request %d is merged: %s", merged.Proposal.Number, merged.Proposal.URL)
	if err := t.deleteBranch(ctx); err != nil {
		if failed, ok := errors.AsType[*mirror.Error](err); ok && failed.Class == mirror.Later {
			return action.Outcome{}, err
		}
		detail += fmt.Sprintf("; the branch %s is still there: %v", t.work.Host.Branch, t.redactor.Text(err.Error()))
	}
	return t.done(&merged.Proposal, detail, ""), nil
}

// verify returns an error if the head has more than this action's change. Those who may push the branch may not be
// those who may merge, so its content counts and not its message.
func (t *try) verify(ctx context.Context) error {
	request, err := t.request(ctx)
	if err != nil {
		return err
	}
	same, err := t.cfg.Mirrors.Verify(ctx, request, t.work.Head)
	if err == nil && !same {
		return githost.Foreign(t.work.Number, short(t.work.Head))
	}
	return err
}

func (t *try) deleteBranch(ctx context.Context) error {
	remote, err := t.remote(ctx)
	if err != nil {
		return err
	}
	_, err = t.cfg.Mirrors.Delete(ctx, remote, t.work.Host.Branch, t.work.Head)
	return err
}

// close closes the proposal.
func (t *try) close(ctx context.Context) (action.Outcome, error) {
	closed, err := t.client.Close(ctx, t.work)
	if err != nil {
		return action.Outcome{}, err
	}
	return t.done(&closed.Proposal, fmt.Sprintf("pull request %d is %s", closed.Proposal.Number, closed.Proposal.State), ""), nil
}

// done returns the outcome of success.
func (t *try) done(p *promotion.Proposal, detail string, code promotion.ErrorClass) action.Outcome {
	if p != nil {
		p.Host = t.work.Host.Place()
	}
	output, _ := json.Marshal(promotions.Output{Proposal: p, Detail: detail}) // texts and numbers always marshal
	return action.Outcome{Kind: action.Done, Code: string(code), Output: output}
}

// short returns the beginning of a hash.
func short(hash string) string { return hash[:min(len(hash), 10)] }
