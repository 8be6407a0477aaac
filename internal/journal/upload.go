package journal

import (
	"context"
	"errors"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Uploads are blobs that no revision refers to yet. Each has a folder of its own below that of its
// hour, so a sweep of one upload touches no other one. The hour in the key is by the database's clock
// and is all that is known of an upload's age. sweepAfter leaves an hour between the last moment at
// which an upload can be registered and the first at which it can be swept; no transaction takes that
// long.
const (
	uploads    = "upload"
	uploadHour = "20060102T15"
	uploadAge  = 24 * time.Hour          // how long an upload can be registered, from the end of its hour
	sweepAfter = uploadAge + 2*time.Hour // later than any transaction that still registers it can last
	sweepOften = 8 * 24 * time.Hour      // hours younger than that are swept again and again, since an upload may take long
)

// Uploads makes the keys of uploads, and deletes those that were never registered. Safe for concurrent use. Its
// memory only saves work: a process that starts sweeps old hours once more.
type Uploads struct {
	journal *Journal
	mu      sync.Mutex
	swept   map[string]bool // old hours whose unused uploads this process has deleted
}

// NewUploads returns the uploads of a journal.
func NewUploads(j *Journal) *Uploads { return &Uploads{journal: j, swept: map[string]bool{}} }

// UploadKey returns a new key for an upload. It ends in a slash: the blob store adds the digest.
func (u *Uploads) UploadKey(ctx context.Context) (string, error) {
	now, err := store.Now(ctx, u.journal.db)
	return path.Join(uploads, now.UTC().Format(uploadHour), action.RandomID(now).String()) + "/", err
}

// uploadForm matches the keys of uploads, and of the snapshots that such an upload has.
var uploadForm = regexp.MustCompile("^" + uploads + "/[0-9]{8}T[0-9]{2}/[0-9a-f-]{36}/[0-9a-f]{64}$")

// IsUpload reports whether a blob key is that of an upload.
func IsUpload(key string) bool { return uploadForm.MatchString(key) }

// checkUpload returns fault.Conflict for a key whose upload may be swept already. Keys that do not name
// an upload are fine. It must be called in the transaction that stores the key, by whose time the age
// counts.
func (t *txn) checkUpload(key string) error {
	folder, found := strings.CutPrefix(key, uploads+"/")
	hour, _, _ := strings.Cut(folder, "/")
	at, err := time.Parse(uploadHour, hour)
	if isUpload := found && err == nil; !isUpload || t.Now().Sub(at) < uploadAge+time.Hour {
		return nil
	}
	return fault.New(fault.Conflict, "%s was uploaded more than %s ago and may be deleted", key, uploadAge).WithHint("upload it again")
}

// SweepUploads deletes uploads that no revision and no artifact refers to. What registers them and what
// sweeps them never meet: an upload is too old to be registered before it is old enough to be swept.
// So it needs no lock, and several processes may sweep at the same time. An hour that fails does not
// keep the next ones from being swept; the error joins those of all hours.
func (u *Uploads) SweepUploads(ctx context.Context, stored store.Folders) error {
	now, err := store.Now(ctx, u.journal.db)
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
		if err != nil || age < sweepAfter || u.isSwept(hour) {
			continue
		}
		if err := u.sweepHour(ctx, path.Join(uploads, hour), stored); err != nil {
			faults = append(faults, err)
		} else if age > sweepOften {
			u.setSwept(hour)
		}
	}
	return errors.Join(faults...)
}

// isSwept reports whether this process has swept an old hour: the rest of it is in use.
func (u *Uploads) isSwept(hour string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.swept[hour]
}

// setSwept keeps an hour from being swept again by this process.
func (u *Uploads) setSwept(hour string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.swept[hour] = true
}

// sweepHour deletes the unused uploads of one hour, or the hour's folder when all are unused. Blobs are
// deleted after the transaction, which must not wait for a blob store.
func (u *Uploads) sweepHour(ctx context.Context, hour string, stored store.Folders) error {
	ids, err := stored.Folders(ctx, hour)
	if err != nil {
		return err
	}
	var unused []string
	err = u.journal.read(ctx, "look for revisions that use uploads", func(tx *txn) error {
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
