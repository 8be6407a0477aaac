package buildstest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// logsArriveOnceHoweverTheyAreSent: batches overlap, repeat and begin anywhere at or before the end.
func logsArriveOnceHoweverTheyAreSent(t *testing.T, s setup) {
	id, file := s.create(t), print(1000)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var sum int64
	for stored := 0; stored < len(file.ends); {
		var batch builds.Batch
		for range 1 + random.IntN(4) {
			from := random.IntN(stored + 1)
			to := min(from+1+random.IntN(40), len(file.ends))
			batch.Logs = append(batch.Logs, file.batch(1, from, to))
			if random.IntN(2) == 0 {
				batch.Logs[len(batch.Logs)-1].Pack()
			}
			stored = max(stored, to)
		}
		sum += s.ingest(t, id, batch).Entries
	}
	if got := s.raw(t, id, 1, 0); !bytes.Equal(got, file.data) {
		t.Errorf("the log has %d bytes other than the %d that were sent", len(got), len(file.data))
	}
	if sum != int64(len(file.ends)) {
		t.Errorf("%d entries were counted as new, want %d", sum, len(file.ends))
	}
	for _, l := range []*builds.LogBatch{file.batch(1, 0, 50), file.batch(1, 950, 1000), file.batch(1, 500, 520)} { // all again
		if done := s.ingest(t, id, builds.Batch{Logs: []*builds.LogBatch{l}}); done != (builds.Ingested{}) {
			t.Errorf("entries that are stored changed %+v", done)
		}
	}
	s.ingest(t, id, builds.Batch{Events: life(file, 0)}) // compares the digest
}

func aGapNamesThePositionExpected(t *testing.T, s setup) {
	id, file := s.create(t), print(30)
	s.ingest(t, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(1, 0, 10)}})
	_, err := s.Ingest(s.ctx, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(1, 10, 15), file.batch(1, 16, 20)}})
	gap, ok := errors.AsType[*builds.GapError](err)
	if !ok {
		t.Fatalf("got %v, want a gap", err)
	}
	if want := (build.Position{ID: 15, Offset: file.start(15)}); gap.Want != want || gap.Got.ID != 16 {
		t.Errorf("got %+v, want %+v", gap, want)
	}
	p, err := s.Progress(s.ctx, id)
	storetest.Check(t, err)
	if at := p.Logs[1]; at.ID != 10 {
		t.Errorf("a batch with a gap left %+v", at)
	}
	_, err = s.Ingest(s.ctx, id, builds.Batch{Events: []builds.Event{event(2, 0, build.Running)}})
	if gap, ok := errors.AsType[*builds.GapError](err); !ok || gap.Want.ID != 0 || gap.Got.ID != 1 {
		t.Errorf("events: got %v", err)
	}
	_, err = s.Ingest(
		s.ctx,
		id,
		builds.Batch{
			Artifacts: []builds.Artifact{
				{Artifact: build.Artifact{ID: 2, Step: 1, SHA256: strings.Repeat("00", 32)}, State: builds.Stored},
			},
		},
	)
	if _, ok := errors.AsType[*builds.GapError](err); !ok {
		t.Errorf("artifacts: got %v", err)
	}
}

func contradictionsAreRefused(t *testing.T, s setup) {
	id, file := s.create(t), print(30)
	s.ingest(t, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(1, 0, 10)}})
	for name, l := range map[string]*builds.LogBatch{
		"continues at another byte":       file.batch(1, 10, 20),
		"overlaps with another byte":      file.batch(1, 5, 20),
		"ends at another byte":            file.batch(1, 5, 10),
		"is stored, and ends at the same": file.batch(1, 5, 9),
	} {
		l.Begin.Offset += 1 << 20
		_, err := s.Ingest(s.ctx, id, builds.Batch{Logs: []*builds.LogBatch{l}})
		if !fault.Is(err, fault.Corrupt) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if got := s.raw(t, id, 1, 0); !bytes.Equal(got, file.data[:file.start(10)]) {
		t.Error("a refused batch changed the log")
	}
}

func batchesThatAreNotEntriesAreRefused(t *testing.T, s setup) {
	id, file := s.create(t), print(3)
	for name, change := range map[string]func(*builds.LogBatch){
		"no data":            func(l *builds.LogBatch) { l.Data = nil },
		"torn":               func(l *builds.LogBatch) { l.Data = l.Data[:len(l.Data)-1] },
		"another count":      func(l *builds.LogBatch) { l.Entries++ },
		"no id":              func(l *builds.LogBatch) { l.Begin.ID = -1 },
		"negative offset":    func(l *builds.LogBatch) { l.Begin.Offset = -1 },
		"negative step":      func(l *builds.LogBatch) { l.Step = -1 },
		"a step of millions": func(l *builds.LogBatch) { l.Step = 1 << 30 },
		"too large":          func(l *builds.LogBatch) { l.Data = append(make([]byte, builds.BlockSize), l.Data...) },
	} {
		l := file.batch(1, 0, 3)
		change(l)
		if _, err := s.Ingest(s.ctx, id, builds.Batch{Logs: []*builds.LogBatch{l}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// ingestersOfOneBuildTakeTurns: several aggregators send the same log at the same time.
func ingestersOfOneBuildTakeTurns(t *testing.T, s setup) {
	id, file := s.create(t), print(600)
	var all sync.WaitGroup
	for worker := range 3 {
		all.Go(func() {
			size := 7 + worker*6
			for from := 0; from < len(file.ends); {
				to := min(from+size, len(file.ends))
				_, err := s.Ingest(s.ctx, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(1, from, to)}})
				if err != nil {
					t.Error(err)
					return
				}
				from = to
			}
		})
	}
	all.Wait()
	if got := s.raw(t, id, 1, 0); !bytes.Equal(got, file.data) {
		t.Errorf("the log has %d bytes, want %d", len(got), len(file.data))
	}
	s.ingest(t, id, builds.Batch{Events: life(file, 0)})
}

func logsAreReadFromAnywhere(t *testing.T, s setup) {
	id, file := s.create(t), print(400)
	for from := 0; from < 400; from += 50 {
		s.ingest(t, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(2, from, from+50)}})
	}
	for _, offset := range []int64{0, 1, file.start(50) - 1, file.start(50), file.start(50) + 1, file.start(399),
		file.start(400), file.start(400) + 7} {
		if got := s.raw(t, id, 2, offset); !bytes.Equal(got, file.data[min(offset, int64(len(file.data))):]) {
			t.Errorf("from byte %d: %d bytes, want %d", offset, len(got), int64(len(file.data))-offset)
		}
	}
	for _, after := range []int{0, 1, 49, 50, 51, 399, 400, 500} {
		at, err := s.Find(s.ctx, id, 2, int64(after))
		storetest.Check(t, err)
		if want := (build.Position{ID: int64(min(after, 400)), Offset: file.start(min(after, 400))}); at != want {
			t.Errorf("after entry %d: got %+v, want %+v", after, at, want)
		}
		next := int64(min(after, 400))
		storetest.Check(t, s.Log(s.ctx, id, 2, int64(after), func(e build.Line) error {
			next++
			if want := build.ParseEntry(file.data[file.start(int(next)-1):file.start(int(next))]); e.ID != next ||
				!bytes.Equal(e.Text, want.Text) ||
				!e.At.Equal(want.At) {
				t.Errorf("entry %d came as %d: %q", next, e.ID, e.Text)
			}
			return nil
		}))
		if next != 400 {
			t.Errorf("after entry %d the last one was %d", after, next)
		}
	}
	for _, n := range []int{0, 1, 49, 50, 51, 399, 400} {
		since := build.ParseEntry(file.data[file.start(min(n, 399)):]).At.Add(time.Duration(n/400) * time.Hour)
		at, err := s.FindSince(s.ctx, id, 2, since)
		storetest.Check(t, err)
		if want := (build.Position{ID: int64(n), Offset: file.start(n)}); at != want {
			t.Errorf("since entry %d: got %+v, want %+v", n+1, at, want)
		}
	}
	for _, size := range []int{1, 1000, builds.BlockSize, len(file.data) + 7} {
		buffer := make([]byte, size)
		n, err := s.ReadLog(s.ctx, id, 2, file.start(40)+3, buffer)
		want := file.data[file.start(40)+3:]
		if want = want[:min(size, len(want))]; err != nil || !bytes.Equal(buffer[:n], want) {
			t.Errorf("%d bytes: got %d, want %d, %v", size, n, len(want), err)
		}
	}
	// a reader at the end sees what is stored later
	reader := s.OpenLog(s.ctx, id, 3, 0)
	if n, err := reader.Read(make([]byte, 10)); n != 0 || err == nil {
		t.Errorf("an empty log: %d bytes, %v", n, err)
	}
	s.ingest(t, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(3, 0, 1)}})
	if n, err := reader.Read(make([]byte, 10)); n != 10 || err != nil {
		t.Errorf("after an append: %d bytes, %v", n, err)
	}
	end, err := s.End(s.ctx, id, 2)
	storetest.Check(t, err)
	if end.ID != 400 || end.Offset != int64(len(file.data)) {
		t.Errorf("the end is %+v", end)
	}
}

func damagedBlocksAreReported(t *testing.T, s setup) {
	id, file := s.create(t), print(20)
	s.ingest(t, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(1, 0, 20)}})
	for _, damage := range []string{`UPDATE log_line SET bytes = bytes - 1`,
		`UPDATE log_line SET bytes = bytes + 1, byte_offset = byte_offset + 100`} {
		storetest.Check(t, s.database.Exec(damage))
		if _, err := s.OpenLog(s.ctx, id, 1, 0).Read(make([]byte, 10)); !fault.Is(err, fault.Corrupt) {
			t.Errorf("%s: got %v", damage, err)
		}
	}
}
