package githost

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// history is the origin of a proposal.
type history struct {
	identity
	head    string // its newest commit
	foreign bool   // it has commits without Waybill's trailers
	listed  bool   // the host has listed its commits
}

// history reads the origin of a proposal: the trailers of its newest commit, then its body.
func (c *Client) history(ctx context.Context, p pull) (history, error) {
	h, ok := c.account.histories.get(c.at, p)
	if !ok {
		commits, err := c.driver.commits(ctx, p)
		if err != nil && statusOf(err) != 404 {
			return h, err // a deleted branch has no commits on some hosts
		}
		if p.state == stateOpen && len(commits) > 0 && !listsHead(commits, p.head) {
			if len(commits) < mostCommits {
				return h, laterDoing("read the commits of the proposal", "", stalePause, "the host does not list the newest one yet")
			}
			h.foreign = true
		}
		if len(commits) > 0 {
			h.read(commits)
			c.account.histories.put(c.at, p, h)
		}
	}
	written, known := readDetails(p.title, p.body)
	h.closed = written.closed
	if h.revision == "" && known {
		h.identity = written
	}
	if h.identity.pipeline == written.pipeline && h.identity.env == written.env && h.identity.revision == written.revision {
		h.runID = written.runID
	}
	h.head = cmp.Or(h.head, p.head)
	return h, nil
}

// read reads the trailers of commits, the newest first.
func (h *history) read(commits []commit) {
	for _, one := range commits {
		_, ours := readTrailers(one.message)
		h.foreign = h.foreign || !ours
	}
	h.foreign = h.foreign || len(commits) > 1 // Waybill's proposals have one commit
	h.head, h.listed = commits[0].sha, true
	h.identity, _ = readTrailers(commits[0].message)
}

// Hosts update the head of a proposal before the list of its commits. A list without the head would hide commits of others.
const (
	stalePause  = time.Second
	mostCommits = 100 // length from which a list may be cut
)

func listsHead(commits []commit, head string) bool {
	return slices.ContainsFunc(commits, func(one commit) bool { return strings.HasPrefix(one.sha, head) })
}

// mergedAt returns the commit at which a proposal was merged; "" if it was not, or the commit is not known. The head that some hosts report
// follows the branch also after the end.
func (h history) mergedAt(p pull) string {
	if p.state != stateMerged || !h.listed {
		return ""
	}
	return h.head
}

// headOf returns the newest commit of an open proposal. Some hosts shorten it.
func (h history) headOf(p pull) string {
	if p.state != stateOpen || strings.HasPrefix(h.head, p.head) {
		return h.head
	}
	return p.head
}

// histories remembers the commits of proposals by their heads. Safe for concurrent use.
type histories struct {
	mu    sync.Mutex
	known map[historyKey]history
}

type historyKey struct {
	owner, name, head string
	number            int64
	state             pullState
}

func keyOf(at repository, p pull) historyKey {
	return historyKey{at.owner, at.name, p.head, p.number, p.state}
}

func (s *histories) get(at repository, p pull) (history, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.known[keyOf(at, p)]
	return h, ok && p.head != ""
}

func (s *histories) put(at repository, p pull, h history) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxRemembered {
		s.known = map[historyKey]history{}
	}
	s.known[keyOf(at, p)] = h
}
