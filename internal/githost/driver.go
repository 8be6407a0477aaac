package githost

import (
	"context"
	"fmt"
	"time"
)

// driver translates single calls for one repository on one kind of host. Every error is an *Error, or that of an ended
// context.
type driver interface {
	// Reading.

	// find returns the proposals from a branch of this repository to another, in every state: all open ones, and at least
	// the newest one that has ended. Bodies may be cut.
	find(ctx context.Context, head, base string) ([]pull, error)
	// get returns a proposal with all of its fields.
	get(ctx context.Context, number int64) (pull, error)
	// commits returns the commits of a proposal, the newest first, at most about 100.
	commits(ctx context.Context, p pull) ([]commit, error)
	// checks returns the checks of a proposal's head.
	checks(ctx context.Context, p pull) ([]check, error)
	// comments returns the newest comments of a proposal, at most about 100.
	comments(ctx context.Context, p pull) ([]string, error)
	// access returns the permissions of the credential.
	access(ctx context.Context) (Access, error)

	// Writing.

	// create opens a proposal. Its error has CodeExists if there is an open one for these branches.
	create(ctx context.Context, n newPull) (pull, error)
	// update changes title and body, and the lists of the change.
	update(ctx context.Context, p pull, c change) error
	// comment adds a comment.
	comment(ctx context.Context, p pull, text string) error
	// close closes a proposal unmerged, and sets its body where the host permits that for closed ones.
	close(ctx context.Context, p pull, body string) error
	// merge merges a proposal, or continues to. Its error has CodeRunning while that lasts.
	merge(ctx context.Context, p pull, m mergeOptions) error

	// traits returns the differences that the algorithm depends on.
	traits() traits
}

// traits are differences between hosts.
type traits struct {
	unguarded   bool // a merge cannot be bound to the head
	queues      bool // the host has merge queues
	plain       bool // bodies are without HTML
	maxBody     int  // characters of a body; 0: 65,000
	noLabels    bool
	noAssignees bool
}

// pull is a proposal as a host reports it.
type pull struct {
	number     int64
	url        string
	title      string // without the words that make it a draft
	body       string
	state      pullState
	head, base string // SHAs; "" if the host does not report it
	headBranch string
	baseBranch string
	draft      bool
	labels     []string
	reviewers  []string // with team: before the name of a team
	assignees  []string
	openedAt   time.Time
	endedAt    time.Time
	endedBy    string
	mergeable  mergeability
	why        string // the host's word for a state in which it cannot be merged
	version    int64  // counts the changes; Bitbucket Server only
	queued     bool   // it is in a merge queue, or is going to be merged by the host
	key        string // the host's inner id, where calls need it
}

type pullState int

const (
	stateOpen pullState = iota
	stateMerged
	stateClosed
)

// mergeability is the host's opinion of an open proposal.
type mergeability int

const (
	mergeUnknown  mergeability = iota // not computed, or not reported
	mergeClean                        // nothing is in the way
	mergeConflict                     // its changes conflict with the base
	mergeBehind                       // the host wants it to contain the base
	mergeBlocked                      // checks, reviews or rules are missing
)

// commit is one commit of a proposal.
type commit struct {
	sha, message string
}

// check is one check of a commit.
type check struct {
	name  string
	state checkState
}

type checkState int

const (
	checkPending checkState = iota
	checkPassed
	checkFailed
	checkSkipped // it does not count
)

// newPull is a proposal to open.
type newPull struct {
	head, base  string // branches
	title, body string
	labels      []string
	reviewers   []string
	assignees   []string
	draft       bool
}

// change lists the changes of a proposal; a nil field stays. Labels, reviewers and assignees are added, and none removed,
// except that setLabels also lists the labels to keep.
type change struct {
	title, body  *string
	setLabels    []string
	addReviewers []string
	addAssignees []string
}

func (c change) empty() bool {
	return c.title == nil && c.body == nil && len(c.setLabels)+len(c.addReviewers)+len(c.addAssignees) == 0
}

// apart returns a change for each of several reviewers or assignees; nil: there are not several.
func (c change) apart() (single []change) {
	if len(c.addReviewers)+len(c.addAssignees) < 2 {
		return nil
	}
	for _, name := range c.addReviewers {
		single = append(single, change{addReviewers: []string{name}})
	}
	for _, name := range c.addAssignees {
		single = append(single, change{addAssignees: []string{name}})
	}
	return single
}

// mergeOptions configures a merge.
type mergeOptions struct {
	method  string // merge, squash or rebase
	queue   bool
	message string // title of the merge commit; "": the host's own
}

// newDriver returns the driver of a client's host.
func newDriver(c *Client) (driver, error) {
	switch c.host.Type {
	case GitHub:
		return &github{account: c.account, at: c.at, app: c.keys[KeyAppID] != ""}, nil
	case GitLab:
		return &gitlab{account: c.account, at: c.at}, nil
	case BitbucketServer:
		return &bitbucketServer{account: c.account, at: c.at}, nil
	case BitbucketCloud:
		return &bitbucketCloud{account: c.account, at: c.at}, nil
	case AzureDevOps:
		return &azure{account: c.account, at: c.at}, nil
	case Gitea, Forgejo:
		return &gitea{account: c.account, at: c.at, forgejo: c.host.Type == Forgejo}, nil
	}
	return nil, fmt.Errorf("hosts of the type %q are not supported yet", c.host.Type)
}

// Bounds of lists.
const (
	maxPages = 40
	pageSize = 50
)

// pages reads pages until one has no successor. read returns the request of the next page; "" as its path ends.
func pages(first request, read func(r request) (next request, err error)) error {
	r := first
	for range maxPages {
		next, err := read(r)
		if err != nil || next.path == "" {
			return err
		}
		r = next
	}
	return nil
}
