package journaltest

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// unusedUploadsAreSwept: uploads that no revision and no artifact refers to are deleted after a day. Equal bytes that
// were uploaded twice are two uploads, so one that is used keeps none that is not.
func unusedUploadsAreSwept(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "used")
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	store, err := blob.OpenDir(t.TempDir())
	storetest.Check(t, err)
	upload := func(age time.Duration) (key string) {
		t.Helper()
		at := now.Add(-age)
		key, _, _, err := store.Put(s.ctx,
			path.Join("upload", at.Format("20060102T15"), action.DerivedID(at, t.Name()).String())+"/", strings.NewReader("files"))
		storetest.Check(t, err)
		return key
	}
	fresh, used, artifact := upload(time.Hour), upload(27*time.Hour), upload(29*time.Hour)
	beside, alone, older := upload(27*time.Hour+time.Millisecond), upload(30*time.Hour), upload(9*24*time.Hour)
	first, usedFirst := upload(60*24*time.Hour), upload(60*24*time.Hour+time.Millisecond)
	storetest.Check(t, s.database.Exec("UPDATE revision SET snapshot = '"+used+"'"))
	_, err = s.Register(s.ctx, pipeline.RegisteredRevision{Pipeline: testPipeline, Label: "first", By: "ana"}, true, "")
	storetest.Check(t, err)
	storetest.Check(t, s.database.Exec("UPDATE revision SET snapshot = '"+usedFirst+"' WHERE label = 'first'"))
	storetest.Check(t, s.write(func(tx rows) error {
		return tx.InsertArtifact(1, 1, pipeline.RevisionArtifact{Label: "any", Digest: path.Base(artifact), Blob: artifact})
	}))
	listed := &listing{store: store, fails: path.Join("upload", now.Add(-9*24*time.Hour).Format("20060102T15"))}
	if err := s.SweepUploads(s.ctx, listed); err == nil {
		t.Error("Delete hid the refusal of its store")
	}
	listed.fails, listed.hours = "", nil
	storetest.Check(t, s.SweepUploads(s.ctx, listed))
	if hour := path.Join("upload", now.Add(-60*24*time.Hour).Format("20060102T15")); slices.Contains(listed.hours, hour) {
		t.Errorf("%s is swept again", hour)
	}
	for key, want := range map[string]bool{fresh: true, used: true, artifact: true, beside: false, alone: false,
		older: false, first: false, usedFirst: true} {
		if has, err := store.Has(s.ctx, key); err != nil || has != want {
			t.Errorf("%s is there: %v, %v; want %v", key, has, err, want)
		}
	}
	if hours, err := store.Folders(s.ctx, "upload"); err != nil || len(hours) != 4 {
		t.Errorf("folders %v, %v, want those of the four uploads that are left", hours, err)
	}
}

// listing notes the folders that are listed, and refuses to delete one.
type listing struct {
	store store.Folders
	hours []string
	fails string
}

func (l *listing) Folders(ctx context.Context, folder string) ([]string, error) {
	l.hours = append(l.hours, folder)
	return l.store.Folders(ctx, folder)
}

func (l *listing) Clear(ctx context.Context, folder string) error {
	if folder == l.fails {
		return fault.New(fault.Unavailable, "the store refuses")
	}
	return l.store.Clear(ctx, folder)
}

// uploadsAreRegisteredWithinADay: before an upload may be swept, it can no longer be registered.
func uploadsAreRegisteredWithinADay(t *testing.T, s setup) {
	s.define(t)
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	key := func(age time.Duration, id string) string {
		return path.Join("upload", now.Add(-age).Format("20060102T15"), id, "digest")
	}
	revision := func(snapshot string) pipeline.RegisteredRevision {
		return pipeline.RegisteredRevision{Pipeline: testPipeline, Label: "3f2c9a1", Snapshot: snapshot, By: "ana"}
	}
	_, err = s.Register(s.ctx, revision(key(25*time.Hour, "a")), true, "")
	storetest.WantCode(t, err, fault.Conflict)
	made, err := s.Register(s.ctx, revision(key(23*time.Hour, "b")), true, "")
	storetest.Check(t, err)
	again, err := s.Register(s.ctx, revision(key(26*time.Hour, "c")), true, "")
	storetest.Check(t, err)
	if again.Created || again.Revision.Snapshot != made.Revision.Snapshot {
		t.Errorf("the same bytes again made %+v, want the revision with %s", again.Revision, made.Revision.Snapshot)
	}
	a := pipeline.RevisionArtifact{Label: "amd64", Name: "greeter", Digest: "digest", Blob: key(25*time.Hour, "d")}
	storetest.WantCode(t, s.RegisterArtifact(s.ctx, testPipeline, 1, a), fault.Conflict)
	upload, err := s.UploadKey(s.ctx)
	storetest.Check(t, err)
	a.Blob = upload + "digest"
	storetest.Check(t, s.RegisterArtifact(s.ctx, testPipeline, 1, a))
}
