package builds

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/store"
)

// Bounds of one slice of Retain and Delete, so that other work comes between.
const (
	expiredAtOnce = 50  // builds that are searched for at a time
	rowsAtOnce    = 500 // rows of a table that one transaction deletes
)

// Retain deletes the logs, events, artifacts and test results of builds that ended longer ago than the retention, by
// the database's clock, and their artifacts in the blob store. The builds and their steps stay. 0 deletes nothing. An
// interrupted deletion is continued by the next call. A build that cannot be cleared does not keep later ones from
// it; the first error is returned.
func (b *Builds) Retain(ctx context.Context, retention time.Duration, blobs store.Folders) (failed error) {
	for last := ID(0); retention > 0; {
		var old []ID
		err := b.read(ctx, "look for builds that are too old", func(t txn) (err error) {
			old, err = t.BuildsBefore(t.Now().Add(-retention), last, expiredAtOnce)
			return err
		})
		if err != nil {
			return cmp.Or(failed, err)
		}
		failures := 0
		for _, id := range old {
			last = id
			if err := b.expire(ctx, id, blobs); err != nil {
				failed = cmp.Or(failed, err)
				failures++
			}
			if ctx.Err() != nil {
				return cmp.Or(failed, context.Cause(ctx))
			}
		}
		if len(old) < expiredAtOnce || failures == expiredAtOnce { // the blob store or the database is away
			return failed
		}
	}
	return failed
}

// ClearBundles deletes the results that ended builds got from earlier ones. The conductor does so at the end of a
// build, unless it is killed or the build's action ends before that. A build whose bundle cannot be deleted does not
// keep later ones from it; the first error is returned.
func (b *Builds) ClearBundles(ctx context.Context, blobs Clearer) (failed error) {
	for last, more := ID(0), true; more && ctx.Err() == nil; {
		var ended []ID
		err := b.read(ctx, "look for bundles of builds that have ended", func(t txn) (err error) {
			ended, err = t.EndedResumes(last, expiredAtOnce)
			return err
		})
		if err != nil {
			return cmp.Or(failed, err)
		}
		failures := 0
		for _, id := range ended {
			last = id
			if err := b.ForgetBundle(ctx, id, blobs); err != nil {
				failed = cmp.Or(failed, err)
				failures++
			}
		}
		more = len(ended) == expiredAtOnce && failures < expiredAtOnce // else the blob store or the database is away
	}
	return cmp.Or(failed, context.Cause(ctx))
}

// expire deletes a build's results. The blobs go first: only their rows name them.
func (b *Builds) expire(ctx context.Context, id ID, blobs store.Folders) error {
	if err := blobs.Clear(ctx, Folder(id)); err != nil {
		return fmt.Errorf("delete the artifacts of build %d: %w", id, err)
	}
	return b.slices(ctx, fmt.Sprintf("delete what build %d has left", id), func(t txn) (left bool, err error) {
		found, ok, err := t.LockBuild(id)
		if err != nil || !ok || !found.DeletedAt.IsZero() || !found.Status.Ended() {
			return false, err
		}
		if left, err = t.DeleteSome(id, rowsAtOnce); err != nil || left {
			return left, err
		}
		found.ExpiredAt = t.Now()
		t.Touch(store.TopicBuild)
		return false, t.UpdateBuild(found)
	})
}

// slices runs a transaction again while it leaves rows to delete: the results of one build may be more than a transaction has time for.
func (b *Builds) slices(ctx context.Context, what string, slice func(txn) (left bool, err error)) error {
	for {
		begun, left := time.Now(), false
		err := b.write(ctx, what, func(t txn) (err error) {
			left, err = slice(t)
			return err
		})
		if err != nil || !left {
			return err
		}
		if !loop.Pause(ctx, time.Since(begun)) { // the database has half of its time for other work
			return context.Cause(ctx)
		}
	}
}
