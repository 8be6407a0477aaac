package results_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// aLog writes a log of many lines of different lengths, a second apart, and returns the place after each.
func aLog(t *testing.T, store *results.Store, step, lines int, began time.Time) []build.Position {
	t.Helper()
	log, err := store.Log(step)
	if err != nil {
		t.Fatal(err)
	}
	for i := range lines {
		text := strings.Repeat("x", i*i%1009)
		if i%500 == 250 {
			text = strings.Repeat("y", build.MaxText)
		}
		if err := log.Append(build.Entry{At: began.Add(time.Duration(i) * time.Second), Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(open(t, store.Dir()).LogPath(step))
	if err != nil {
		t.Fatal(err)
	}
	places := []build.Position{{}}
	for line := range bytes.Lines(data) {
		last := places[len(places)-1]
		places = append(places, build.Position{ID: last.ID + 1, Offset: last.Offset + int64(len(line))})
	}
	return places
}

func TestAPlaceIsFoundByItsEntry(t *testing.T) {
	t.Parallel()
	store := create(t, filepath.Join(t.TempDir(), "r"), 0)
	began := time.Now()
	places := aLog(t, store, 1, 3000, began)
	finder := open(t, store.Dir()).Positions(1)
	for i := len(places) - 1; i >= 0; i -= 7 {
		got, err := finder.AfterEntry(int64(i))
		if err != nil || got != places[i] {
			t.Fatalf("after entry %d: %v, %v; want %v", i, got, err, places[i])
		}
		got, err = finder.Since(began.Add(time.Duration(i) * time.Second))
		if err != nil || got != places[i] {
			t.Fatalf("since second %d: %v, %v; want %v", i, got, err, places[i])
		}
	}
	for id, want := range map[int64]build.Position{-1: {}, 3001: places[3000], 1 << 62: places[3000]} {
		if got, err := finder.AfterEntry(id); err != nil || got != want {
			t.Errorf("after entry %d: %v, %v; want %v", id, got, err, want)
		}
	}
	if got, err := open(t, store.Dir()).Positions(2).Since(began); err != nil || got != (build.Position{}) {
		t.Errorf("in a log that was not begun: %v, %v", got, err)
	}
}

// TestAPlaceThatAReaderPassedNeedsNoScan: it is known even when the file has gone.
func TestAPlaceThatAReaderPassedNeedsNoScan(t *testing.T) {
	t.Parallel()
	store := create(t, filepath.Join(t.TempDir(), "r"), 0)
	places := aLog(t, store, 1, 1000, time.Now())
	reader := open(t, store.Dir())
	finder, late := reader.Positions(1), reader.Positions(1)
	buffer := make([]byte, results.BatchSize)
	var at build.Position
	var passed []build.Position
	for {
		size, err := reader.ReadBatch(1, at.Offset, buffer)
		if err != nil {
			t.Fatal(err)
		}
		if size == 0 {
			break
		}
		next := at.After(buffer[:size])
		finder.Passed(at, next)
		late.Passed(at, next)
		late.Passed(build.Position{ID: next.ID + 1, Offset: next.Offset + 1}, build.Position{ID: 1 << 40, Offset: 1 << 40}) // a reader far ahead
		at = next
		passed = append(passed, at)
	}
	if at != places[len(places)-1] || len(passed) < 3 {
		t.Fatalf("%v were passed", passed)
	}
	if err := os.Remove(reader.LogPath(1)); err != nil {
		t.Fatal(err)
	}
	for _, want := range passed {
		for _, p := range []*results.Positions{finder, late} {
			if got, err := p.AfterEntry(want.ID); err != nil || got != want {
				t.Errorf("after entry %d: %v, %v; want %v", want.ID, got, err, want)
			}
		}
	}
}

func TestAPlaceIsFoundInAGrowingLog(t *testing.T) {
	t.Parallel()
	store := create(t, filepath.Join(t.TempDir(), "r"), 0)
	finder := open(t, store.Dir()).Positions(1)
	log, err := store.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	var want build.Position
	for i := range 5000 {
		e := line(strings.Repeat("z", i%97))
		if err := log.Append(e); err != nil {
			t.Fatal(err)
		}
		want = build.Position{ID: want.ID + 1, Offset: want.Offset + int64(len(build.FormatEntry(nil, e)))}
		if got, err := finder.AfterEntry(int64(i + 1)); err != nil || got != want {
			t.Fatalf("after entry %d: %v, %v; want %v", i+1, got, err, want)
		}
	}
}

// TestAnEntryIsOneLine: a text of several lines, or a longer one than an entry may have, becomes several entries.
func TestAnEntryIsOneLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                   {""},
		"one\ntwo\r\n\nthree":                {"one", "two", "", "three"},
		"one\n":                              {"one"},
		strings.Repeat("a", build.MaxText+5): {strings.Repeat("a", build.MaxText) + "…", "aaaaa"},
	} {
		store := create(t, filepath.Join(t.TempDir(), "r"), 0)
		log, err := store.Log(1)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Append(build.Entry{At: time.Now(), Marks: build.Marks{Waybill: true}, Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		update(t, store, 1, build.Running)
		trailer := update(t, store, 1, build.Completed).Trailer
		var got []string
		if err := open(t, store.Dir()).Log(t.Context(), 1, false, func(e build.Line) error {
			text := string(e.Text)
			if e.Partial {
				text += "…"
			}
			got = append(got, text)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || trailer.Entries != int64(len(got)) {
			t.Errorf("%.20q: trailer %v; entries (-want +got):\n%s", text, trailer, diff)
		}
	}
}

// TestALongerEntryThanAnyIsCorrupt: another program wrote into the log.
func TestALongerEntryThanAnyIsCorrupt(t *testing.T) {
	t.Parallel()
	store := create(t, filepath.Join(t.TempDir(), "r"), 0)
	update(t, store, 1, build.Running)
	r := open(t, store.Dir())
	if err := os.WriteFile(r.LogPath(1), make([]byte, results.BatchSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Positions(1).AfterEntry(1); !fault.Is(err, fault.Corrupt) {
		t.Errorf("got %v", err)
	}
	if _, _, err := r.Tail(1, 1); !fault.Is(err, fault.Corrupt) {
		t.Errorf("read from the start: %v", err)
	}
}

// TestEventsHaveNoGap: an event that cannot be read yet holds back those after it.
func TestEventsHaveNoGap(t *testing.T) {
	t.Parallel()
	store := create(t, filepath.Join(t.TempDir(), "r"), 0)
	update(t, store, 0, build.Running)   // 1
	update(t, store, 1, build.Running)   // 2
	update(t, store, 2, build.Running)   // 3
	update(t, store, 1, build.Completed) // 4
	update(t, store, 2, build.Completed) // 5
	r := open(t, store.Dir())
	status := filepath.Join(filepath.Dir(r.LogPath(1)), "status.json")
	if err := os.Rename(status, status+".away"); err != nil {
		t.Fatal(err)
	}
	events := r.EventsAfter(2, 0)
	ids := func() (got []string) {
		found, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			got = append(got, fmt.Sprint(e.ID, "/", e.Step))
		}
		return got
	}
	if diff := cmp.Diff([]string{"1/0"}, ids()); diff != "" {
		t.Errorf("without step 1:\n%s", diff)
	}
	if err := os.Rename(status+".away", status); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"2/1", "3/2", "4/1", "5/2"}, ids()); diff != "" {
		t.Errorf("with step 1:\n%s", diff)
	}
	update(t, store, 0, build.Completed)
	if diff := cmp.Diff([]string{"6/0"}, ids()); diff != "" {
		t.Errorf("the end:\n%s", diff)
	}
}

func TestWaitersAreWoken(t *testing.T) {
	t.Parallel()
	store := create(t, filepath.Join(t.TempDir(), "r"), 0)
	log, err := store.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		wait func() <-chan struct{}
		do   func() error
	}{
		"an entry": {store.Written, func() error { return log.Append(line("one")) }},
		"a status": {store.Recorded, func() error { update(t, store, 1, build.Running); return nil }},
		"an artifact": {store.Recorded, func() error {
			_, err := store.AddArtifact(build.Artifact{Step: 1, Name: "a", Kind: build.KindFile}, strings.NewReader("a"))
			return err
		}},
		"Wake": {store.Written, func() error { store.Wake(); return nil }},
	} {
		woken := c.wait()
		if c.wait() != woken {
			t.Errorf("%s: another channel before anything happened", name)
		}
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-woken:
		default:
			t.Errorf("%s wakes no waiter", name)
		}
	}
}

func TestWorkerFileIsOfALivingWorker(t *testing.T) {
	t.Parallel()
	store := create(t, filepath.Join(t.TempDir(), "r"), 0)
	r := open(t, store.Dir())
	if _, err := r.Worker(); !fault.Is(err, fault.NotFound) {
		t.Errorf("before: %v", err)
	}
	want := results.Worker{Address: "http://127.0.0.1:1", Token: "secret", PID: 7}
	if err := store.Announce(want); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Worker(); err != nil || got != want {
		t.Errorf("got %v, %v", got, err)
	}
	if info, err := os.Stat(filepath.Join(store.Dir(), results.WorkerFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(store.Dir(), results.WorkerFile)); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}

// TestAPlaceNearTheEndIsFoundBackward compares with the scan from the start.
func TestAPlaceNearTheEndIsFoundBackward(t *testing.T) {
	t.Parallel()
	s := create(t, filepath.Join(t.TempDir(), "1"), 1<<30)
	log, err := s.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	var entries []build.Entry
	for n := range 9000 {
		entries = append(entries, build.Entry{At: time.Unix(1, 0), Text: bytes.Repeat([]byte("x"), n%97)})
	}
	if err := log.Append(entries...); err != nil {
		t.Fatal(err)
	}
	r, err := results.Open(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	places := r.Positions(1)
	end, err := places.AfterEntry(9000)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []int64{9000, 8999, 8000, 5000, 3500} {
		want, err := places.AfterEntry(id)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok, err := r.BeforeEnd(1, end, id); err != nil || !ok || got != want {
			t.Errorf("entry %d: %v %v %v, want %v", id, got, ok, err, want)
		}
	}
	if _, ok, err := r.BeforeEnd(1, end, 10); ok || err != nil {
		t.Errorf("an entry far from the end: %v, %v", ok, err)
	}
}
