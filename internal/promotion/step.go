package promotion

import (
	"strconv"
	"strings"
	"time"
)

// unseenGrace is how long the result of an attempt that succeeded may take to be observed at the host.
const unseenGrace = 2 * time.Minute

// promote adds the step that brings the wanted revision closer, by the state of the proposal; isFree reports that
// nothing blocks it. It gives the reasons of an open proposal in any case.
func (j *judge) promote(isFree bool) {
	p := j.Proposal
	switch {
	case j.Env.Strategy == Notification:
		if isFree {
			a, made := j.attempt(OpNotify)
			j.do(Step{Op: OpNotify, Repeats: made && a.Status != AttemptLive})
		}
	case p != nil && p.State == Open && p.Revision == j.Run.Revision:
		j.promoteOpen(p, isFree)
	case isFree:
		j.propose()
	}
}

// propose proposes the revision. An open proposal for another revision is superseded by that.
func (j *judge) propose() {
	a, made := j.attempt(OpPropose)
	p := j.Proposal
	if made && a.Status == AttemptDone && (p == nil || p.At.Before(a.At.Truncate(time.Second))) { // hosts report seconds
		if seen := a.At.Add(unseenGrace); j.Now.Before(seen) {
			j.because(Reason{Code: WhyWaitingMerge, Message: "the proposal was made and has not been observed yet",
				Until: seen})
			return
		}
	}
	j.do(Step{Op: OpPropose, Repeats: made})
}

// promoteOpen continues with a proposal that is open for the wanted revision.
func (j *judge) promoteOpen(p *Proposal, isFree bool) {
	waits := func(text string) {
		j.because(Reason{Code: WhyWaitingMerge, Message: proposalName(p) + " " + text})
	}
	switch {
	case p.Foreign:
		waits("has commits of others (ForeignCommits): a person must merge it")
	case p.Conflict || p.LinesChanged || p.Behind:
		a, made := j.attempt(OpPropose)
		isSame := made && a.Base == p.Base && a.Head == p.Head
		switch {
		case isSame && a.Status == AttemptDone:
			waits("cannot be merged with its base, and was made again for it")
		case isFree:
			j.do(Step{Op: OpPropose, Redo: true, Base: p.Base, Head: p.Head, Repeats: isSame})
		}
	case !j.Env.merges():
		waits("is open: a person must merge it")
	case !j.Env.AutoMerge.IgnoreChecks && p.Checks == ChecksFailed:
		j.because(Reason{Code: WhyChecksFailed, Message: withDetail("checks of "+proposalName(p)+" have failed",
			strings.Join(p.FailedChecks, ", "))})
	case !j.Env.AutoMerge.IgnoreChecks && p.Checks != ChecksPassed:
		waits(checksAwaited(p.Checks))
	default:
		j.merge(p, isFree)
	}
}

// checksAwaited reports that a proposal waits for its checks. A host without any keeps it waiting forever.
func checksAwaited(state Checks) string {
	if state == ChecksNone {
		return "waits for its checks, and the host reports none; with requireChecks: false it is merged without"
	}
	return "waits for its checks"
}

// merges reports whether Waybill merges the proposals of an environment.
func (e *Environment) merges() bool { return e.AutoMerge != nil && e.Strategy == PullRequest }

// merge merges a proposal whose checks have passed, in an open window.
func (j *judge) merge(p *Proposal, isFree bool) {
	if !j.isReturn() {
		if closed := j.closedWindow(); closed != nil {
			j.because(*closed)
			return
		}
	}
	a, made := j.attempt(OpMerge)
	switch {
	case made && a.Head == p.Head && j.Now.Before(a.At.Add(unseenGrace)) && a.Class == ErrHeadMoved:
		j.because(Reason{Code: WhyWaitingMerge, Message: proposalName(p) + " has a new head, which was not observed yet",
			Until: a.At.Add(unseenGrace)})
	case made && a.Head == p.Head && j.Now.Before(a.At.Add(unseenGrace)) && a.Class == ErrConflict:
		j.because(Reason{Code: WhyWaitingMerge, Message: proposalName(p) + " cannot be merged with its base, which was not observed yet",
			Until: a.At.Add(unseenGrace)})
	case isFree:
		j.do(Step{Op: OpMerge, Head: p.Head, Number: p.Number, Repeats: made})
	}
}

// closeOutdated closes, once, an open proposal for another revision whose run the environment has left, so that no old
// proposal stays open for a person to merge. A proposal for the wanted revision would replace it.
func (j *judge) closeOutdated() {
	p := j.Proposal
	if j.row < isReady || j.Outdated == 0 || p == nil || p.State != Open || p.Revision == j.Run.Revision {
		return
	}
	if j.isReplacing() {
		return
	}
	if a, made := j.attempt(OpPropose); made && a.Status == AttemptLive {
		return // it supersedes the old one
	}
	key := AttemptKey{Run: j.Outdated, Env: j.Env.Name, Op: OpClose}
	if _, made := j.Attempts[key]; made {
		return
	}
	j.verdict.Do = append(j.verdict.Do,
		Step{Op: OpClose, Run: j.Outdated, Env: j.Env.Name, Revision: p.Revision, Number: p.Number})
}

// isReplacing reports whether a proposal for the wanted revision is made, which replaces an open one for another: now,
// by a live attempt, or by one whose result was not observed yet.
func (j *judge) isReplacing() bool {
	for _, s := range j.verdict.Do {
		if s.Op == OpPropose {
			return true
		}
	}
	a, made := j.attempt(OpPropose)
	switch {
	case !made:
		return false
	case a.Status == AttemptLive:
		return true
	}
	end := a.At.Add(unseenGrace)
	isUnseen := a.Status == AttemptDone && j.Proposal.At.Before(a.At) && j.Now.Before(end)
	if isUnseen {
		j.wakeAt(end)
	}
	return isUnseen
}

// proposalName returns the name of a proposal for people, such as "pull request 41".
func proposalName(p *Proposal) string { return "pull request " + strconv.FormatInt(p.Number, 10) }
