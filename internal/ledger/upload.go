package ledger

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Uploads are blobs that no revision refers to yet. Each has a folder of its own below that of its hour, so nothing else
// shares it: until it is registered or too old to be.
const (
	uploads    = "upload"
	uploadHour = "20060102T15"
	uploadAge  = 24 * time.Hour          // how long an upload can be registered, from the end of its hour
	sweepAfter = uploadAge + 2*time.Hour // later than any transaction that still registers it can last
	sweepOften = 8 * 24 * time.Hour      // hours younger than that are swept again and again, since an upload may take long
)

// UploadKey returns a new key for an upload. It ends in a slash: the blob store adds the digest.
func (l *Ledger) UploadKey(ctx context.Context) (string, error) {
	now, err := l.Now(ctx)
	return path.Join(uploads, now.UTC().Format(uploadHour), newID(now).String()) + "/", err
}

// checkUpload refuses a key whose upload may be swept already. Other keys are fine.
func (t *txn) checkUpload(key string) error {
	folder, found := strings.CutPrefix(key, uploads+"/")
	hour, _, _ := strings.Cut(folder, "/")
	at, err := time.Parse(uploadHour, hour)
	if isUpload := found && err == nil; !isUpload || t.Now().Sub(at) < uploadAge+time.Hour {
		return nil
	}
	return fault.New(fault.Conflict, "%s was uploaded more than %s ago and may be deleted", key, uploadAge).WithHint("upload it again")
}

// sweepUploads deletes uploads that no revision and no artifact refers to. What registers them and what sweeps them never
// meet: an upload is too old to be registered before it is old enough to be swept.
func (l *Ledger) sweepUploads(ctx context.Context, stored Folders) error {
	now, err := l.Now(ctx)
	if err != nil {
		return err
	}
	hours, err := stored.Folders(ctx, uploads)
	if err != nil {
		return err
	}
	var faults []error
	for _, hour := range hours {
		at, err := time.Parse(uploadHour, hour)
		age := now.Sub(at)
		if err != nil || age < sweepAfter || l.isSwept(hour) {
			continue
		}
		if err := l.sweepHour(ctx, path.Join(uploads, hour), stored); err != nil {
			faults = append(faults, err)
		} else if age > sweepOften {
			l.setSwept(hour)
		}
	}
	return errors.Join(faults...)
}

// isSwept reports whether this process has swept an old hour: what is left of it is in use.
func (l *Ledger) isSwept(hour string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.swept[hour]
}

func (l *Ledger) setSwept(hour string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.swept[hour] = true
}

// sweepHour deletes the unused uploads of one hour, and its folder when none is left.
func (l *Ledger) sweepHour(ctx context.Context, hour string, stored Folders) error {
	ids, err := stored.Folders(ctx, hour)
	if err != nil {
		return err
	}
	var unused []string
	err = l.read(ctx, "look for revisions that use uploads", func(tx Tx) error {
		unused = nil
		for _, id := range ids {
			folder := path.Join(hour, id)
			used, err := tx.UsesBlobs(folder)
			if err != nil {
				return err
			}
			if !used {
				unused = append(unused, folder)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(unused) == len(ids) {
		unused = []string{hour}
	}
	for _, folder := range unused {
		if err := stored.Clear(ctx, folder); err != nil {
			return err
		}
	}
	return nil
}
