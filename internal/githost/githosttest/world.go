package githosttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// World is a repository apps/fleet on a Git host, a model or a real one, with a branch main and users ann and bob.
type World interface {
	// Open returns a client for a configuration, which Config made.
	Open(t testing.TB, host promotion.Host) *githost.Client
	// Config returns the configuration of the repository for a head branch.
	Config(branch string) promotion.Host
	// Person returns the host's word for a user, ann or bob, in lists of reviewers and assignees.
	Person(name string) string
	// Push makes a branch one commit on top of main, by force, and returns the commit.
	Push(t testing.TB, branch, message string) string
	// Append adds a commit to a branch.
	Append(t testing.TB, branch, message string) string
	// SetCheck sets a check of a commit: pending, success or failure.
	SetCheck(t testing.TB, sha, name, state string)
	// Pulls returns all pull requests, the oldest first.
	Pulls(t testing.TB) []Pull
	// MergeByPerson merges a pull request by a person.
	MergeByPerson(t testing.TB, number int64)
	// CloseByPerson closes a pull request by a person.
	CloseByPerson(t testing.TB, number int64)
}

// Branch is the head branch of the suite.
const Branch = "promotion-apps-podinfo-prod"

// Work returns an action of the suite: run of a revision into prod.
func Work(host promotion.Host, run int64, revision promotion.Revision) promotion.Work {
	return promotion.Work{RunID: fmt.Sprintf("run-%d", run), Namespace: "apps", Pipeline: "podinfo", Env: "prod", Op: promotion.OpPropose,
		Run: run, Revision: revision, Was: "6.5.4", Started: time.Now().Add(-time.Hour), Host: &host,
		Proof: []string{"staging: complete since 14:09"}, Link: "https://waybill.example.com/pipelines/apps:podinfo"}
}

// Trust verifies nothing, for tests in which the branch has no content.
func Trust(context.Context) error { return nil }

// Message returns the message of the commit that an action pushes.
func Message(w promotion.Work) string {
	return fmt.Sprintf("Promote %s/%s in %s to %s\n\nWaybill-Pipeline: %s/%s\nWaybill-Environment: %s\nWaybill-Revision: %s\nWaybill-Run: %d\n",
		w.Namespace, w.Pipeline, w.Env, w.Revision, w.Namespace, w.Pipeline, w.Env, w.Revision, w.Run)
}

// Lines returns the changed lines of the suite.
func Lines(w promotion.Work) []githost.Line {
	return []githost.Line{{File: "clusters/prod/podinfo.yaml", Number: 12, Was: string(w.Was), Is: string(w.Revision)}}
}
