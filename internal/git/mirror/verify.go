package mirror

import (
	"context"
	"strings"
)

// HeadMoved is the reason of an error of Verify about a head branch that is not at the commit.
const HeadMoved = "HeadMoved"

// Verify reports whether a commit, at which the head branch is, is the edit of its parent that Propose makes of a
// request, and nothing else. Its message and its author prove nothing: a person who may push the branch can copy
// both.
func (s *Store) Verify(ctx context.Context, r Request, commit string) (same bool, err error) {
	if err := r.check(); err != nil {
		return false, err
	}
	err = s.with(ctx, r.Remote, func(ctx context.Context, o *session) error {
		at, err := o.fetchBoth(ctx, r)
		if err != nil {
			return err
		}
		if len(commit) < shortestHash || !strings.HasPrefix(at.head, strings.ToLower(commit)) {
			return fatal(HeadMoved, "the head branch %s is at %s, not %s", r.Head, at.head, commit)
		}
		same, err = o.isEdit(ctx, r, at.head)
		return err
	})
	return same, err
}

// isEdit reports whether a commit of the head branch has one parent, and the tree of its edit.
func (o *session) isEdit(ctx context.Context, r Request, commit string) (bool, error) {
	head, err := o.read(ctx, commit)
	if err != nil || len(head.parents) != 1 {
		return false, err
	}
	parent := head.parents[0]
	if has, err := o.obtain(ctx, parent); err != nil {
		return false, err
	} else if !has { // this host gives out branches only
		if _, err := o.git(ctx, "fetch", "--quiet", "--depth=2", "--force", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
			"--no-auto-maintenance", "--update-shallow", "--", o.url, "+"+heads+r.Head+":"+heads+r.Head); err != nil {
			return false, err
		}
	}
	files, _, err := o.edit(ctx, parent, r)
	if err != nil || len(files) == 0 {
		return false, err
	}
	want, err := o.writeTree(ctx, parent, files)
	if err != nil {
		return false, err
	}
	is, err := o.git(ctx, "rev-parse", "--verify", commit+"^{tree}")
	return strings.TrimSpace(is) == want, err
}
