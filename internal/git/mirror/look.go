package mirror

import (
	"context"

	"github.com/waybill-dev/waybill/internal/marker"
)

// Branches is the state of both branches of a proposal.
type Branches struct {
	Base, Head string   // commits; Head is "" without such a branch
	Foreign    bool     // the head branch has commits of others
	Trailers   Trailers // those in the message of the head commit
	// LinesChanged reports that marked lines of the base branch differ from those that the proposal was made from. It is false if that
	// commit cannot be read any more.
	LinesChanged bool
}

// Look returns the state of the branches of a request. It does not need Revision, Run and At.
func (s *Store) Look(ctx context.Context, r Request) (found Branches, err error) {
	if err := checkBranches(r.Base, r.Head); err != nil {
		return found, err
	}
	if r.within, err = parseGlobs(r.Paths); err != nil {
		return found, err
	}
	err = s.with(ctx, r.Remote, func(ctx context.Context, o *session) error {
		at, err := o.fetchBoth(ctx, r)
		if err != nil {
			return err
		}
		found = Branches{Base: at.base, Head: at.head, Foreign: at.hasForeign(), Trailers: at.trailers}
		if !at.ours || at.parent == at.base {
			return nil
		}
		found.LinesChanged, err = o.linesChanged(ctx, r, at)
		return err
	})
	return found, err
}

// linesChanged compares the marked lines of the base branch with those of the parent of the head.
func (o *session) linesChanged(ctx context.Context, r Request, at tips) (bool, error) {
	has, err := o.obtain(ctx, at.parent)
	if err != nil || !has {
		return false, err
	}
	was, err := o.values(ctx, at.parent, r)
	if err != nil {
		return false, err
	}
	is, err := o.values(ctx, at.base, r)
	if err != nil {
		return false, err
	}
	if len(was) != len(is) {
		return true, nil
	}
	for i := range was {
		if was[i].File != is[i].File || was[i].Was != is[i].Was {
			return true, nil
		}
	}
	return false, nil
}

// obtain fetches one commit by its hash, unless the mirror has it whole, and reports whether that worked. Some hosts give
// out the tips of branches only.
func (o *session) obtain(ctx context.Context, commit string) (bool, error) {
	ref := "refs/waybill/commits/" + commit
	// a pack arrives whole or not at all
	if _, err := o.git(ctx, "rev-parse", "--verify", "--quiet", commit+"^{tree}"); err == nil {
		return true, nil
	}
	_, err := o.git(ctx, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
		"--no-auto-maintenance", "--update-shallow", "--", o.url, "+"+commit+":"+ref)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil && ClassOf(err) != Fatal && !isDamage(err):
		return false, err
	}
	return err == nil, nil
}

// Values returns the marked lines of an environment at a commit, given by its whole hash, or at the tip of a branch. Of the
// request it needs Remote, Of and Paths.
func (s *Store) Values(ctx context.Context, r Request, at string) (lines []marker.Line, err error) {
	if r.within, err = parseGlobs(r.Paths); err != nil {
		return nil, err
	}
	if !isHash(at) {
		if err := checkBranches(at); err != nil {
			return nil, err
		}
	}
	err = s.with(ctx, r.Remote, func(ctx context.Context, o *session) error {
		commit := at
		if isHash(at) {
			has, err := o.obtain(ctx, at)
			if err != nil {
				return err
			}
			if !has {
				return fatal("NotFound", "the host does not give out commit %s", at)
			}
		} else {
			found, err := o.fetch(ctx, at)
			if err != nil {
				return err
			}
			if commit = found[at]; commit == "" {
				return fatal("NotFound", "the repository has no branch %s", at)
			}
		}
		lines, err = o.values(ctx, commit, r)
		return err
	})
	return lines, err
}
