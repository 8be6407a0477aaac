package builds

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/store"
)

// Bounds of one slice of Retain, so that other work comes between.
const (
	expiredAtOnce = 50  // builds that are looked for at a time
	rowsAtOnce    = 500 // rows of a table that one transaction deletes
)

// Retain deletes the logs, events, artifacts and test results of builds that ended longer ago than the retention, by the database's clock, and their
// artifacts in the blob store. The builds and their steps stay. 0 deletes nothing. What is interrupted is continued by the next call.
func (b *Builds) Retain(ctx context.Context, retention time.Duration, blobs store.Folders) error {
	for retention > 0 {
		var old []ID
		err := b.read(ctx, "look for builds that are too old", func(t txn) (err error) {
			old, err = t.BuildsBefore(t.Now().Add(-retention), expiredAtOnce)
			return err
		})
		if err != nil {
			return err
		}
		for _, id := range old {
			if err := b.expire(ctx, id, blobs); err != nil {
				return err
			}
		}
		if len(old) < expiredAtOnce {
			return nil
		}
	}
	return nil
}

// expire deletes what a build has left. The blobs go first: only their rows name them.
func (b *Builds) expire(ctx context.Context, id ID, blobs store.Folders) error {
	if err := blobs.Clear(ctx, Folder(id)); err != nil {
		return fmt.Errorf("delete the artifacts of build %d: %w", id, err)
	}
	for {
		begun, left := time.Now(), false
		err := b.write(ctx, fmt.Sprintf("delete what build %d has left", id), func(t txn) error {
			found, ok, err := t.LockBuild(id)
			if err != nil || !ok || !found.DeletedAt.IsZero() || !found.Status.Ended() {
				left = false
				return err
			}
			if left, err = t.DeleteSome(id, rowsAtOnce); err != nil || left {
				return err
			}
			found.ExpiredAt = t.Now()
			t.Touch(store.TopicBuild)
			return t.UpdateBuild(found)
		})
		if err != nil || !left {
			return err
		}
		if !loop.Pause(ctx, time.Since(begun)) { // the database has half of its time for other work
			return context.Cause(ctx)
		}
	}
}
