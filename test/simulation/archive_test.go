package simulation_test

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// TestArchivesUnderFaults ships revisions, lets them grow old until some are archived, edits the pipeline and ships more. Whatever
// goes wrong, each entry is in the log or in an archive, and the last revision is on every host.
func TestArchivesUnderFaults(t *testing.T) {
	t.Parallel()
	for seed := *first; seed < *first+uint64(*count); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			reproducible(t, seed)
			bubbletest.Test(t, func(t *testing.T) { newSimulationOf(t, faulty(seed), aging(0)).age() })
		})
	}
}

// aging returns a version of the pipeline shop that archives deployments when they are a day old.
func aging(version int) pipeline.Definition {
	d := shop(version)
	d.Keep.Entries = action.Duration(24 * time.Hour)
	return d
}

// age ships five revisions, has two days pass twice, and ships another one each time.
func (s *simulation) age() {
	for n := range 5 {
		s.ship(fmt.Sprint("r", n+1))
		s.until("the end", allEnded)
	}
	for round, last := range []string{"r6", "last"} {
		s.settle()
		s.clock.set(48 * time.Hour)
		// The newest three revisions stay; so do those that were created under an older version of the definition.
		s.until("archives", func(all []journal.Deployment) bool { return archivedOf(all) >= 2*(round+1)-round })
		if round == 0 {
			s.apply(aging(1))
		}
		s.ship(last)
		s.until("the end", func(all []journal.Deployment) bool { return s.over(all) })
	}
	s.settle()
	s.close()
	s.judgeHosts()
	s.judgeArchives()
}

func archivedOf(all []journal.Deployment) (n int) {
	for _, d := range all {
		if d.Archive != "" {
			n++
		}
	}
	return n
}

// judgeArchives checks that the log and its archives are whole, and together have every entry once.
func (s *simulation) judgeArchives() {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context())
	found, err := deployer.Verify(ctx, s.log, s.blobs, "shop")
	if err != nil || len(found.Faults) > 0 || found.Archived == 0 {
		s.t.Fatalf("%+v, %v", found, err)
	}
	seen := make([]bool, s.seen.engine.Seq()+1)
	count := func(e pipeline.Entry) error {
		if seen[e.Seq] {
			s.t.Errorf("entry %d is there twice", e.Seq)
		}
		seen[e.Seq] = true
		return nil
	}
	all, err := s.log.Deployments(ctx, journal.DeploymentQuery{Pipeline: "shop"})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range all {
		if d.Archive == "" {
			continue
		}
		if err := deployer.ReadArchive(ctx, s.blobs, d.Archive, count); err != nil {
			s.t.Error(err)
		}
	}
	rows, err := s.log.Entries(ctx, journal.EntryQuery{Pipeline: "shop"})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, row := range rows {
		_ = count(row) // never fails
	}
	for seq := range seen {
		if seq > 0 && !seen[seq] {
			s.t.Errorf("entry %d is lost", seq)
		}
	}
}

// shelf is the way to the blob store. Now and then it takes nothing, or its answer gets lost.
type shelf struct {
	blobs blob.Store
	fate  fate
	calls atomic.Int64
}

func (s *shelf) Put(ctx context.Context, key string, r io.Reader) (stored, digest string, size int64, err error) {
	n := s.calls.Add(1)
	pauseFor(ctx, s.fate.pick(2000, "put", n))
	if s.fate.happens(s.fate.refuse, "refuse put", n) {
		return "", "", 0, errAway
	}
	stored, digest, size, err = s.blobs.Put(ctx, key, r)
	if err == nil && s.fate.happens(s.fate.lose, "lose put", n) {
		err = errAway
	}
	return stored, digest, size, err
}
