package mirror

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/marker"
)

// Request describes a head branch that brings a revision to an environment.
type Request struct {
	Remote     Remote
	Base, Head string   // names of branches
	Paths      []string // patterns of the files that may be edited; none: all
	Of         marker.Environment
	Revision   string
	Run        string    // unique name of the run, for the commit's trailer
	At         time.Time // start of the run, for the commit's dates
	SigningKey []byte    // Ed25519 key of SSH; none: the commit is not signed
	// Redo makes the commit again on the present base, though the head branch has the revision already.
	Redo bool
	// Merged is the beginning of the commit at which the last proposal of the head branch was merged; "": none was. A branch that is still
	// there has no work of others to lose, and is made again from its base.
	Merged string

	within globs
}

// Result reports the head branch of a request.
type Result struct {
	AlreadyAsked bool   // the base branch has the revision already; the head branch is as it was
	Pushed       bool   // the head branch was changed
	Base, Head   string // commits; Head is "" without such a branch
	Foreign      bool   // the head branch has commits of others
	Lines        []marker.Line
	Races        int    // lost leases
	Diff         string // unified diff of the files, by Preview alone
}

// Propose makes the head branch of a request, unless it is there already.
func (s *Store) Propose(ctx context.Context, r Request) (result Result, err error) {
	if err := r.check(); err != nil {
		return result, err
	}
	err = s.with(ctx, r.Remote, func(ctx context.Context, o *session) error {
		for races := 0; ; races++ {
			result, err = o.propose(ctx, r)
			result.Races = races
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Reason != PushRace {
				return err
			}
			if s.Metrics.Raced(); races+1 >= mostRaces {
				return err
			}
		}
	})
	return result, err
}

// Preview returns the lines that Propose would change in the base branch, without changing anything.
func (s *Store) Preview(ctx context.Context, r Request) (result Result, err error) {
	if err := r.check(); err != nil {
		return result, err
	}
	err = s.with(ctx, r.Remote, func(ctx context.Context, o *session) error {
		at, err := o.fetchBoth(ctx, r)
		if err != nil {
			return err
		}
		result.Base, result.Head = at.base, at.head
		files, lines, err := o.editBase(ctx, r, at.base)
		result.Lines, result.AlreadyAsked = changedLines(lines), len(changedLines(lines)) == 0
		result.Diff = unifiedDiff(files, result.Lines)
		return err
	})
	return result, err
}

// check validates a request and fills in its patterns.
func (r *Request) check() error {
	if err := marker.CheckRevision(r.Revision); err != nil {
		return fatal("BadRevision", "%v", err)
	}
	if err := errors.Join(checkBranches(r.Base, r.Head), r.checkRun()); err != nil {
		return fatal("BadRequest", "%v", err)
	}
	if r.Base == r.Head {
		return fatal("BadBranch", "base and head are the same branch %s", r.Base)
	}
	within, err := parseGlobs(r.Paths)
	r.within = within
	return err
}

// tips are the commits of both branches.
type tips struct {
	base, head string // head is "" without such a branch
	ours       bool   // the head branch has nothing of others
	merged     bool   // the head branch was merged
	trailers   Trailers
	parent     string // first parent of the head
}

// fetchBoth fetches the branches of a request.
func (o *session) fetchBoth(ctx context.Context, r Request) (tips, error) {
	at, err := o.fetch(ctx, r.Base, r.Head)
	if err != nil {
		return tips{}, err
	}
	found := tips{base: at[r.Base], head: at[r.Head]}
	found.merged = len(r.Merged) >= shortestHash && strings.HasPrefix(found.head, r.Merged)
	if found.base == "" {
		return tips{}, fatal("NotFound", "the repository has no branch %s", r.Base)
	}
	if found.head == "" {
		return found, nil
	}
	head, err := o.read(ctx, found.head)
	if err != nil {
		return tips{}, err
	}
	found.ours, found.trailers = head.isOurs(r.Of, o.store.Committer), ParseTrailers(head.message)
	if len(head.parents) > 0 {
		found.parent = head.parents[0]
	}
	return found, nil
}

// hasForeign reports whether the head branch has commits of others.
func (f tips) hasForeign() bool { return f.head != "" && !f.ours && !f.merged && f.head != f.base }

// shortestHash is the shortest beginning of a commit that identifies it. Some hosts shorten it to 12 characters.
const shortestHash = 12

func (o *session) propose(ctx context.Context, r Request) (Result, error) {
	at, err := o.fetchBoth(ctx, r)
	if err != nil {
		return Result{}, err
	}
	files, lines, err := o.editBase(ctx, r, at.base)
	if err != nil {
		return Result{}, err
	}
	result := Result{Base: at.base, Head: at.head, Foreign: at.hasForeign(), Lines: changedLines(lines)}
	if len(files) == 0 {
		result.AlreadyAsked = true
		return result, nil
	}
	c := change{parent: at.base, files: files}
	isAsked := !r.Redo && at.ours && at.trailers == r.trailersOf()
	if at.head != "" && (result.Foreign || isAsked) {
		inHead, there, err := o.edit(ctx, at.head, r)
		if err != nil {
			return Result{}, err
		}
		if len(inHead) == 0 && samePlaces(there, lines) {
			return result, nil
		}
		if result.Foreign {
			if len(there) == 0 {
				return Result{}, fatal(NoMarkers, "no file of the branch %s, which has commits of others, has a marker of %s", r.Head, r.Of)
			}
			c = change{parent: at.head, foreign: true, files: inHead}
		}
	}
	return o.pushChange(ctx, r, c, result)
}

// pushChange commits a change and moves the head branch, unless that is at the commit already. result has the state of the branches.
func (o *session) pushChange(ctx context.Context, r Request, c change, result Result) (Result, error) {
	seen := result.Head
	commit, err := o.commit(ctx, r, c)
	if err != nil || commit == seen {
		return result, err
	}
	if err := o.push(ctx, r.Head, seen, commit); err != nil {
		return result, err
	}
	result.Head, result.Pushed = commit, true
	return result, nil
}

// editBase edits the base branch, which has at least one marker.
func (o *session) editBase(ctx context.Context, r Request, base string) ([]edited, []marker.Line, error) {
	files, lines, err := o.edit(ctx, base, r)
	if err == nil && len(lines) == 0 {
		err = fatal(NoMarkers, `no file of the branch %s has a marker # {"$promotion": %q}`, r.Base, r.Of)
	}
	return files, lines, err
}

func changedLines(lines []marker.Line) []marker.Line {
	return slices.DeleteFunc(slices.Clone(lines), func(l marker.Line) bool { return !l.Changed() })
}

// samePlaces reports whether two commits have the same markers in the same files.
func samePlaces(a, b []marker.Line) bool {
	return slices.EqualFunc(a, b, func(a, b marker.Line) bool { return a.File == b.File && a.Part == b.Part })
}

// push moves a branch from the commit that was seen, or makes it.
func (o *session) push(ctx context.Context, branch, seen, commit string) error {
	_, err := o.git(ctx, "push", "--porcelain", "--quiet", "--no-verify", "--no-signed", "--force-with-lease="+heads+branch+":"+seen,
		"--", o.url, commit+":"+heads+branch)
	if err != nil {
		return err
	}
	if commit == "" {
		return nil
	}
	_, err = o.git(ctx, "update-ref", heads+branch, commit)
	return err
}

// Delete deletes a branch if it is still at a commit, or is gone. It reports whether the branch is gone.
func (s *Store) Delete(ctx context.Context, remote Remote, branch, commit string) (gone bool, err error) {
	if err := checkBranches(branch); err != nil {
		return false, err
	}
	err = s.with(ctx, remote, func(ctx context.Context, o *session) error {
		for range mostRaces {
			at, err := o.list(ctx, branch)
			if err != nil || at[branch] != commit {
				gone = err == nil && at[branch] == ""
				return err
			}
			err = o.push(ctx, branch, commit, "")
			if e, ok := errors.AsType[*Error](err); !ok || e.Reason != PushRace && !strings.Contains(e.Text, "does not exist") {
				gone = err == nil
				return err
			}
		}
		return &Error{Class: Retry, Reason: PushRace, Text: "the branch " + branch + " changes all the time"}
	})
	return gone, err
}
