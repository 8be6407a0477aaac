// Package mirror changes marked values on a branch of a Git repository elsewhere. It keeps a bare mirror of depth one for
// each repository, finds the files with markers in the tree of the base branch, edits them, commits by plumbing and pushes
// the head branch with a lease on the commit that it has seen.
//
// # Repeating
//
// A commit is a function of its parent and the run: the message and both dates are fixed. A repetition after a crash therefore
// makes the same commit, and finds that the branch has it already. The mirror is a cache, and may be deleted at any
// time.
//
// # Foreign repositories
//
// The package reads no configuration but its own, and checks nothing out: hooks, filters, attributes and submodules of a
// repository have no effect. A head branch with commits of others is never overwritten; the edit becomes a commit on top.
package mirror

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// Options configure a Store. The zero value is usable but for Dir.
type Options struct {
	Dir       string                 // folder of the mirrors; it is made
	Check     func(netip.Addr) error // refuses addresses of hosts; nil: every address is reached
	Proxy     webhook.Proxy          // used with https and http
	PlainHTTP bool                   // http is allowed
	Timeout   time.Duration          // bound of one operation; 0: ten minutes
	Committer Committer              // author of all commits
	Metrics   *obs.GitHost           // nil: none
	MostBytes int64                  // bound of one mirror on disk; 0: 2 GiB
}

// Bounds of an operation.
const (
	usualTimeout = 10 * time.Minute
	mostRaces    = 5         // repetitions at once after a lost lease
	mostFiles    = 20_000    // with markers of one environment
	mostEdited   = 256 << 20 // bytes of edited files
	mostPacks    = 50        // after so many fetches a mirror is made again
)

// Store has the mirrors of many repositories. Safe for concurrent use, also by several processes.
type Store struct{ Options }

// Open returns the store in the folder of the options.
func Open(options Options) (*Store, error) {
	if options.Timeout == 0 {
		options.Timeout = usualTimeout
	}
	if options.MostBytes == 0 {
		options.MostBytes = usualSize
	}
	options.Committer = options.Committer.orDefault()
	dir, err := filepath.Abs(options.Dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("make the folder of the mirrors: %w", err)
	}
	options.Dir = dir
	return &Store{options}, nil
}

// session is one operation on a mirror, which it has locked.
type session struct {
	store   *Store
	remote  Remote
	url     string // without a user
	dir     string // the bare repository
	private string // folder of the operation's keys
	lock    *os.File
	isNew   bool  // the operation has made the mirror
	room    int64 // bytes that a file may take before the mirror reaches its bound
	set     []setting
	environ []string
}

// with runs an operation on the locked mirror of a repository. A mirror that turns out to be damaged, or that has reached its bound, is
// deleted, and the operation repeated once.
func (s *Store) with(ctx context.Context, remote Remote, do func(context.Context, *session) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout,
		&Error{Class: Throttle, Reason: "Timeout", Text: "the Git host took longer than " + s.Timeout.String()})
	defer cancel()
	o := &session{store: s, remote: remote}
	if err := o.connect(ctx); err != nil {
		return err
	}
	if err := o.open(); err != nil {
		return err
	}
	defer o.close()
	for again := false; ; again = true {
		err := o.prepare(ctx)
		if err == nil {
			err = do(ctx, o)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !isTooLarge(err) && (again || !isDamage(err)):
			return err
		}
		if err := os.RemoveAll(o.dir); err != nil {
			return fmt.Errorf("delete a mirror: %w", err)
		}
		if isTooLarge(err) && o.isNew { // else it has gathered fetches, which a new one does not have
			return o.tooLarge()
		}
	}
}
