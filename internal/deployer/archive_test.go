package deployer_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// keepEntries is the time for which the pipelines of these tests keep ended deployments.
const keepEntries = 48 * time.Hour

// archivist is a deployer with a blob store, on a log of deployments that ended long ago.
type archivist struct {
	*fake
	blobs    blob.Store
	registry *prometheus.Registry
	logged   *lockedBuffer
	put      func() error // called behind each blob that was stored; its error is that of the store
	before   map[int64][]pipeline.Entry
	most     int64 // entries of deployments that are archived together; 0: the default
}

// lockedBuffer is a buffer that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) has(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(b.String(), text)
}

// Put stores a blob and calls put.
func (a *archivist) Put(ctx context.Context, key string, r io.Reader) (stored, digest string, size int64, err error) {
	stored, digest, size, err = a.blobs.Put(ctx, key, r)
	if err == nil && a.put != nil {
		err = a.put()
	}
	return stored, digest, size, err
}

// newArchivist takes so many deployments through the pipeline greeter, one after the other, and lets them grow old. The newest
// three revisions stay in any case.
func newArchivist(t *testing.T, deployments int) *archivist {
	t.Helper()
	blobs, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := &archivist{fake: newFake(), blobs: blobs, before: map[int64][]pipeline.Entry{}}
	d := greeter("greeter")
	d.Keep.Entries = action.Duration(keepEntries)
	a.define(t, d)
	_, stop := run(t, a.fake)
	for n := int64(1); n <= int64(deployments); n++ {
		a.create("greeter", n)
		workUntilDone(t, a.fake, "greeter")
	}
	stop()
	for _, e := range a.head("greeter").entries {
		a.before[e.Deployment] = append(a.before[e.Deployment], e)
	}
	<-time.After(keepEntries)
	return a
}

// start runs a deployer; the returned function ends it.
func (a *archivist) start(t *testing.T) (stop func()) {
	t.Helper()
	a.registry, a.logged = prometheus.NewRegistry(), &lockedBuffer{}
	ctx, cancel := context.WithCancel(t.Context())
	d := deployer.New(a.fake, deployer.Config{Blobs: a, Metrics: obs.NewDeployer(a.registry, false),
		Log: slog.New(slog.NewTextHandler(a.logged, nil))})
	if a.most > 0 {
		d.SetArchiveMost(a.most)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// archived returns the numbers of the archived deployments, in order.
func (a *archivist) archived() (numbers []int64) {
	for _, d := range a.head("greeter").archives {
		numbers = append(numbers, d.Number)
	}
	slices.Sort(numbers)
	return numbers
}

// check compares the archives with the entries that were in the log, and folds the rest of it.
func (a *archivist) check(t *testing.T, want ...int64) {
	t.Helper()
	if diff := gocmp.Diff(want, a.archived()); diff != "" {
		t.Errorf("archived deployments (-want +got):\n%s", diff)
	}
	for _, d := range a.head("greeter").archives {
		var got []pipeline.Entry
		err := deployer.ReadArchive(t.Context(), a.blobs, d.Key, func(e pipeline.Entry) error { got = append(got, e); return nil })
		if err != nil {
			t.Error(err)
		}
		if diff := gocmp.Diff(a.before[d.Number], got); diff != "" {
			t.Errorf("archive of %d (-log +archive):\n%s", d.Number, diff)
		}
		if first, last := got[0].Seq, got[len(got)-1].Seq; d.Entries != int64(len(got)) || d.First != first || d.Last != last {
			t.Errorf("%+v, want %d entries from %d to %d", d, len(got), first, last)
		}
	}
	engine, err := deployer.Fold(t.Context(), a.fake, "greeter")
	if err != nil {
		t.Fatal(err)
	}
	for number := range a.before {
		if _, known := engine.Deployment(number); number != 0 && known == slices.Contains(want, number) {
			t.Errorf("the engine knows %d: %t", number, known)
		}
	}
}

// stored lists the keys of all archives in the blob store.
func (a *archivist) stored(t *testing.T) (keys []string) {
	t.Helper()
	numbers, err := a.blobs.Folders(t.Context(), "archives/greeter")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range a.head("greeter").archives {
		keys = append(keys, d.Key)
	}
	if len(numbers) != len(keys) {
		t.Errorf("%v are in the blob store, %v in the log", numbers, keys)
	}
	slices.Sort(keys)
	return keys
}

func TestDeploymentsThatEndedLongAgoAreArchived(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := newArchivist(t, 6)
		stop := a.start(t)
		elapse(deployer.ArchiveFirst / 2)
		a.check(t)
		elapse(deployer.ArchiveFirst)
		a.check(t, 1, 2, 3)
		if got := measured(t, a.registry, "waybill_deployer_archived_total"); got != 3 {
			t.Errorf("%v deployments were archived, want 3", got)
		}
		if got := measured(t, a.registry, `waybill_deployer_deployments{status="finished"}`); got != 3 {
			t.Errorf("%v finished deployments are counted, want the 3 that are left", got)
		}
		a.create("greeter", 7)
		a.create("greeter", 8)
		workUntilDone(t, a.fake, "greeter")
		elapse(2 * keepEntries)
		a.check(t, 1, 2, 3, 4, 5)
		stop()
		if keys := a.stored(t); len(keys) != 5 {
			t.Errorf("the blob store has %v", keys)
		}
	})
}

func TestNothingIsArchivedWithoutAnAge(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := newArchivist(t, 5)
		a.logs["greeter"].versions[0].Keep.Entries = 0
		stop := a.start(t)
		elapse(2 * deployer.ArchiveEvery)
		a.check(t)
		stop()
	})
}

// TestABlobStoreThatFailsCostsTime: nothing is deleted, passes continue, and it is tried again.
func TestABlobStoreThatFailsCostsTime(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := newArchivist(t, 5)
		var full atomic.Bool
		full.Store(true)
		a.put = func() error {
			if full.Load() {
				return fault.New(fault.Unavailable, "the disk is full")
			}
			return nil
		}
		stop := a.start(t)
		elapse(deployer.ArchiveFirst)
		a.check(t)
		if !a.logged.has("cannot archive deployments") || !a.logged.has("the disk is full") || !a.logged.has("greeter#1") {
			t.Errorf("logged:\n%s", a.logged.String())
		}
		a.create("greeter", 6)
		workUntilDone(t, a.fake, "greeter")
		full.Store(false)
		elapse(deployer.ArchiveRetry)
		a.check(t, 1, 2, 3) // the newest three revisions are 4 to 6 by now
		stop()
	})
}

// TestASlowBlobStoreDelaysNoPass: of its pipeline, or of another.
func TestASlowBlobStoreDelaysNoPass(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := newArchivist(t, 5)
		a.define(t, greeter("other"))
		answer := make(chan struct{})
		a.put = func() error { <-answer; return nil }
		stop := a.start(t)
		elapse(deployer.ArchiveFirst)
		a.create("greeter", 6)
		a.create("other", 1)
		workUntilDone(t, a.fake, "greeter")
		workUntilDone(t, a.fake, "other")
		a.check(t)
		close(answer)
		elapse(2 * deployer.ArchivePause) // by now it would choose others, so it looks once more after a pause
		if got := a.archived(); !slices.Contains(got, 1) {
			t.Errorf("archived %v once the store had answered", got)
		}
		stop()
	})
}

// TestADeployerThatDiesWhileItArchivesLosesNothing: it dies behind each blob, and the next one archives the same.
func TestADeployerThatDiesWhileItArchivesLosesNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := newArchivist(t, 6)
		var mu sync.Mutex
		var blobs, lives int
		var die func()
		a.put = func() error {
			mu.Lock()
			defer mu.Unlock()
			if blobs++; blobs > lives && lives < 3 {
				go die()
				return errors.New("cut off")
			}
			return nil
		}
		for life := range 4 {
			ended := make(chan struct{})
			stop := a.start(t)
			mu.Lock()
			blobs, lives, die = 0, life, func() { stop(); close(ended) }
			mu.Unlock()
			if life == 3 {
				elapse(deployer.ArchiveFirst)
				stop()
				break
			}
			<-ended
			a.check(t)
		}
		a.check(t, 1, 2, 3)
		if keys := a.stored(t); len(keys) != 3 {
			t.Errorf("the blob store has %v: the same entries are stored under the same key", keys)
		}
	})
}

// TestAnArchivePassThatFailsIsRepeated: refused, or committed without an answer.
func TestAnArchivePassThatFailsIsRepeated(t *testing.T) {
	for name, fail := range map[string]func(f *fake){
		"refused": func(f *fake) {
			f.beforePass = func(string) error {
				f.beforePass = nil
				return fault.New(fault.Conflict, "greeter#1 has 4 entries, its archive 5")
			}
		},
		"unanswered": func(f *fake) { f.loseAnswer = 1 },
		"repeated":   func(f *fake) { f.tryTwice = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				a := newArchivist(t, 4)
				failed := false
				a.put = func() error {
					a.mu.Lock()
					defer a.mu.Unlock()
					if !failed {
						failed = true
						fail(a.fake)
					}
					return nil
				}
				stop := a.start(t)
				elapse(deployer.ArchiveFirst + deployer.ArchiveRetry)
				a.check(t, 1)
				if a.logged.has("invariant broken") {
					t.Errorf("logged:\n%s", a.logged.String())
				}
				a.create("greeter", 5)
				workUntilDone(t, a.fake, "greeter")
				stop()
			})
		})
	}
}

// TestWhatIsNeededAgainMeanwhileStays: a deployment of the same revision is created after the entries were stored.
func TestWhatIsNeededAgainMeanwhileStays(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := newArchivist(t, 6)
		a.put = func() error {
			a.put = nil
			a.add("greeter", pipeline.Entry{Event: pipeline.DeploymentCreated, Class: pipeline.Note, Deployment: 7, Revision: 1})
			return nil
		}
		stop := a.start(t)
		elapse(deployer.ArchiveFirst + deployer.ArchivePause)
		if got := a.archived(); slices.Contains(got, 1) {
			t.Errorf("archived %v: deployment 7 has the revision of 1", got)
		}
		workUntilDone(t, a.fake, "greeter")
		stop()
	})
}

// TestWhatComesBeforeALargeDeploymentIsArchived: the deployments that are chosen with it are not left because of it.
func TestWhatComesBeforeALargeDeploymentIsArchived(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := newArchivist(t, 6)
		a.most = 2000
		a.grow(2, int(a.most)+1)
		stop := a.start(t)
		elapse(deployer.ArchiveFirst + 4*deployer.ArchivePause)
		stop()
		if got := a.archived(); !slices.Equal(got, []int64{1}) {
			t.Errorf("archived %v, want #1 alone", got)
		}
		if !a.logged.has("too large to be archived") {
			t.Error("no warning names #2")
		}
	})
}

// TestOneDeploymentAtATimeIsArchivedIfItIsLarge: the transaction deletes a bounded number of entries, unless one deployment has more.
func TestOneDeploymentAtATimeIsArchivedIfItIsLarge(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := newArchivist(t, 6)
		for number := int64(1); number <= 2; number++ { // reports, which an engine hardly reads
			a.grow(number, 1500)
		}
		sizes := []int{}
		a.beforePass = func(string) error { sizes = append(sizes, len(a.logs["greeter"].archives)); return nil }
		stop := a.start(t)
		elapse(deployer.ArchiveFirst + 4*deployer.ArchivePause)
		a.check(t, 1, 2, 3)
		slices.Sort(sizes)
		if sizes = slices.Compact(sizes); !gocmp.Equal(sizes, []int{0, 1, 3}) && !gocmp.Equal(sizes, []int{0, 1, 2, 3}) {
			t.Errorf("after each pass %v deployments were archived, want the first alone", sizes)
		}
		stop()
	})
}

// grow puts notes behind the first entry of a deployment, and moves all that follows.
func (a *archivist) grow(number int64, notes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.logs["greeter"]
	at := slices.IndexFunc(l.entries, func(e pipeline.Entry) bool { return e.Deployment == number })
	report := l.entries[at]
	report.Event, report.Detail = pipeline.StepReported, []byte(`{"event":"host-deployed"}`)
	l.entries = slices.Insert(l.entries, at+1, slices.Repeat([]pipeline.Entry{report}, notes)...)
	clear(a.before)
	for i := range l.entries {
		l.entries[i].Seq = int64(i) + 1
		a.before[l.entries[i].Deployment] = append(a.before[l.entries[i].Deployment], l.entries[i])
	}
	l.Seq = int64(len(l.entries))
}

// TestAnEngineThatLagsFoldsAgain: rows that it has yet to apply are in the blob store.
func TestAnEngineThatLagsFoldsAgain(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := newArchivist(t, 5)
		rows := a.head("greeter").entries
		engine := pipeline.New("greeter")
		cut := &shortLog{fake: a.fake, upTo: rows[30].Seq}
		if err := deployer.Catch(t.Context(), cut, "greeter", engine, nil); err != nil {
			t.Fatal(err)
		}
		if err := deployer.Catch(t.Context(), &racing{fake: a.fake, meanwhile: func() {
			stop := a.start(t)
			elapse(deployer.ArchiveFirst)
			stop()
		}}, "greeter", pipeline.New("greeter"), nil); !errors.Is(err, deployer.ErrArchived) {
			t.Errorf("a fold from the start, whose rows are archived behind the look at the head: %v", err)
		}
		a.check(t, 1, 2)
		if err := deployer.Catch(t.Context(), a.fake, "greeter", engine, nil); !errors.Is(err, deployer.ErrArchived) {
			t.Errorf("an engine at %d: %v", engine.Seq(), err)
		}
	})
}

// shortLog ends at a position.
type shortLog struct {
	*fake
	upTo int64
}

func (s *shortLog) Entries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error) {
	rows, err := s.fake.Entries(ctx, q)
	return slices.DeleteFunc(rows, func(e pipeline.Entry) bool { return e.Seq > s.upTo }), err
}

// racing is a log that changes behind the first look at its head.
type racing struct {
	*fake
	meanwhile func()
}

func (r *racing) Head(ctx context.Context, name string) (journal.Head, error) {
	head, err := r.fake.Head(ctx, name)
	if meanwhile := r.meanwhile; meanwhile != nil {
		r.meanwhile = nil
		meanwhile()
	}
	return head, err
}

// TestNoArchiveHasMoreThanIsRead: entries that could not be read from an archive stay in the log.
func TestNoArchiveHasMoreThanIsRead(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := newArchivist(t, 1)
		var lines bytes.Buffer
		for _, row := range a.before[1] {
			line, err := json.Marshal(deployer.ArchivedEntry{Entry: row, Digest: row.Digest})
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(line, '\n'))
		}
		size := int64(lines.Len())
		for most, want := range map[int64]error{size: deployer.ErrTooLarge, size + 1: nil} {
			if _, err := deployer.StoreBounded(t.Context(), a.fake, a.blobs, "greeter", 1, most); !errors.Is(err, want) {
				t.Errorf("%d bytes with less than %d: %v, want %v", size, most, err, want)
			}
		}
		if kept, err := a.blobs.Folders(t.Context(), "archives/greeter"); err != nil || len(kept) != 1 {
			t.Errorf("the blob store has %v, %v", kept, err)
		}
	})
}

func TestDamagedArchivesAreFound(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := newArchivist(t, 4)
		verify := func() deployer.Verification {
			t.Helper()
			b := &beside{a.fake, nil}
			for number := int64(1); number <= 4; number++ {
				b.kept = append(b.kept, journal.Deployment{Number: number, Status: pipeline.StatusFinished})
			}
			for _, d := range a.head("greeter").archives {
				b.kept[d.Number-1].Archive = d.Key
			}
			found, err := deployer.Verify(t.Context(), b, a.blobs, "greeter")
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		whole := verify()
		stop := a.start(t)
		elapse(deployer.ArchiveFirst)
		stop()
		a.check(t, 1)
		after := verify()
		if len(whole.Faults)+len(after.Faults) > 0 || after.Archived != 1 || after.Deployments != 4 ||
			after.Entries != whole.Entries-int64(len(a.before[1]))+1 {
			t.Errorf("before %+v, after %+v", whole, after)
		}
		key := a.head("greeter").archives[0].Key
		content, _, err := a.blobs.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := io.ReadAll(content)
		if err := cmp.Or(err, content.Close()); err != nil {
			t.Fatal(err)
		}
		for what, spoiled := range map[string][]byte{
			"cut short":   packed[:len(packed)/2],
			"empty":       {},
			"a longer":    append(slices.Clone(packed), 0),
			"another bit": append(slices.Clone(packed[:len(packed)/2]), append([]byte{packed[len(packed)/2] ^ 1}, packed[len(packed)/2+1:]...)...),
			"not packed":  []byte("{}\n"),
		} {
			if _, _, _, err := a.blobs.Put(t.Context(), key, bytes.NewReader(spoiled)); err != nil {
				t.Fatal(err)
			}
			if found := verify(); len(found.Faults) != 1 || found.Damaged != 1 ||
				!strings.Contains(found.Faults[0], "deployment 1: the archive "+key+" is damaged") {
				t.Errorf("%s: %q", what, found.Faults)
			}
		}
		if err := a.blobs.Clear(t.Context(), "archives"); err != nil {
			t.Fatal(err)
		}
		if found := verify(); len(found.Faults) != 1 || found.Damaged != 1 ||
			!strings.Contains(found.Faults[0], "deployment 1: the archive "+key+" is not in the blob store") {
			t.Errorf("missing: %q", found.Faults)
		}
	})
}

// TestAnEditedArchiveIsFound: an archive that is named by the digest of its edited content looks whole alone.
func TestAnEditedArchiveIsFound(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := newArchivist(t, 4)
		stop := a.start(t)
		elapse(deployer.ArchiveFirst)
		stop()
		a.check(t, 1)
		l := a.logs["greeter"]
		l.entries = append(slices.Clone(a.before[1]), l.entries...) // the editor has the log and the blob store
		seq := a.before[1][5].Seq
		l.entries[5].Detail = []byte(`{"by":"eve"}`)
		edited, err := deployer.StoreBounded(t.Context(), a.fake, a.blobs, "greeter", 1, deployer.MostArchived)
		if err != nil {
			t.Fatal(err)
		}
		l.entries = l.entries[len(a.before[1]):]
		changed := fmt.Sprintf("entry %d was changed: it does not have the digest that it was written with", seq)
		for key, want := range map[string][]string{l.archives[0].Key: {}, edited: {changed}} {
			kept := []journal.Deployment{{Number: 1, Status: pipeline.StatusFinished, Archive: key}}
			for number := int64(2); number <= 4; number++ {
				kept = append(kept, journal.Deployment{Number: number, Status: pipeline.StatusFinished})
			}
			found, err := deployer.Verify(t.Context(), &beside{a.fake, kept}, a.blobs, "greeter")
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(want, found.Faults); diff != "" {
				t.Errorf("%s (-want +got):\n%s", key, diff)
			}
		}
	})
}
