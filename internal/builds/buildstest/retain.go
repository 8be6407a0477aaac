package buildstest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// cleared is a blob store that notes which folders were cleared, and cannot clear broken.
type cleared struct {
	folders []string
	broken  string // "*": any
	failed  int
}

func (c *cleared) Folders(context.Context, string) ([]string, error) { return nil, nil }

func (c *cleared) Clear(_ context.Context, folder string) error {
	if folder == c.broken || c.broken == "*" {
		c.failed++
		return errors.New("permission denied")
	}
	c.folders = append(c.folders, folder)
	return nil
}

// whatCannotBeClearedKeepsNothingElse: builds that come after one whose artifacts cannot be deleted expire.
func whatCannotBeClearedKeepsNothingElse(t *testing.T, s setup) {
	var ids []builds.ID
	for range 60 { // more than one page
		id := s.create(t)
		_, err := s.Record(s.ctx, id, builds.Event{Source: builds.API, EventID: "end", Status: build.Canceled})
		storetest.Check(t, err)
		ids = append(ids, id)
	}
	blobs := &cleared{broken: builds.Folder(ids[0])}
	for range 2 {
		err := s.Retain(s.ctx, time.Nanosecond, blobs)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("artifacts of build %d: permission denied", ids[0])) {
			t.Errorf("the error is %v", err)
		}
		if len(blobs.folders) != len(ids)-1 {
			t.Errorf("%d folders were cleared, want %d", len(blobs.folders), len(ids)-1)
		}
	}
	blobs.broken = ""
	storetest.Check(t, s.Retain(s.ctx, time.Nanosecond, blobs))
	if b, err := s.Build(s.ctx, ids[0]); err != nil || b.ExpiredAt.IsZero() {
		t.Errorf("the build is %+v, %v", b, err)
	}
}

// watched is a driver that counts slices of deletions, and keeps the last query for builds.
type watched struct {
	Driver
	slices int
	query  builds.Query
}

func (w *watched) BuildRows(r store.Rows) (builds.Rows, builds.PasswordRows) {
	rows, passwords := w.Driver.BuildRows(r)
	return watchedRows{rows, w}, passwords
}

type watchedRows struct {
	builds.Rows
	by *watched
}

func (r watchedRows) DeleteSome(id builds.ID, most int) (bool, error) {
	r.by.slices++
	return r.Rows.DeleteSome(id, most)
}

func (r watchedRows) Builds(q builds.Query) ([]builds.Build, error) {
	r.by.query = q
	return r.Rows.Builds(q)
}

// whatIsTooOldIsDeleted in slices, as a person's deletions: the builds have more rows than one holds. Running builds,
// young ones and deleted ones are left alone.
func whatIsTooOldIsDeleted(t *testing.T, s setup) {
	old, young, running, deleted := s.create(t), s.create(t), s.create(t), s.create(t)
	file := print(1200)
	results := make([]testresult.Result, 1200)
	for i := range results {
		results[i] = testresult.Result{Name: "Sum", Outcome: testresult.Passed}
	}
	for _, id := range []builds.ID{old, young, deleted} {
		size := 40
		if id == old {
			size = 2 // 600 blocks
		}
		for from := 0; from < 1200; from += size {
			s.ingest(t, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(1, from, from+size)}})
		}
		s.ingest(t, id, builds.Batch{Steps: []builds.Step{{ID: 1, Stage: "test", Name: "unit"}},
			Artifacts: []builds.Artifact{
				{
					Artifact: build.Artifact{
						ID:     1,
						Step:   1,
						Name:   "a",
						SHA256: strings.Repeat("00", 32),
						Kind:   "junit",
						Path:   builds.Folder(id) + "/1",
					},
					State: builds.Stored,
				},
			},
			Tests: []build.TestFile{
				{Artifact: 1, Step: 1, Name: "a", Format: testresult.JUnit, Report: testresult.Report{Results: results}},
			}, Events: life(file, 1)})
	}
	rows := &watched{Driver: s.driver}
	storetest.Check(t, builds.New(s.db, rows, builds.Options{}).Delete(s.ctx, deleted))
	if rows.slices < 3 {
		t.Errorf("1200 tests are deleted in %d transactions", rows.slices)
	}
	blobs := cleared{}
	storetest.Check(t, s.Retain(s.ctx, 0, &blobs))
	storetest.Check(t, s.Retain(s.ctx, time.Hour, &blobs))
	if len(blobs.folders) > 0 {
		t.Errorf("cleared %v", blobs.folders)
	}
	now, err := store.Now(s.ctx, s.db)
	storetest.Check(t, err)
	past := fmt.Sprintf("'%s'", now.Add(-48*time.Hour).Format(time.RFC3339))
	if s.db.Embedded() {
		past = strconv.FormatInt(now.Add(-48*time.Hour).UnixMicro(), 10)
	}
	storetest.Check(
		t,
		s.database.Exec(fmt.Sprintf("UPDATE build SET last_progress_at = %s, created_at = %s WHERE build_id <> %d", past, past, young)),
	)
	for range 2 {
		storetest.Check(t, s.Retain(s.ctx, 24*time.Hour, &blobs))
	}
	if diff := cmp.Diff([]string{builds.Folder(old)}, blobs.folders); diff != "" {
		t.Error(diff)
	}
	b, err := s.Build(s.ctx, old)
	storetest.Check(t, err)
	steps, err := s.Steps(s.ctx, old)
	if err != nil || b.ExpiredAt.IsZero() || b.Status != build.Completed || len(steps) != 2 || steps[1].Name != "unit" {
		t.Errorf("the build is %+v with %+v, %v", b, steps, err)
	}
	events, err := s.Events(s.ctx, old, 0, 10)
	storetest.Check(t, err)
	tests, err := s.TestResults(s.ctx, old, builds.TestResult{}, false, 10)
	storetest.Check(t, err)
	artifacts, err := s.Artifacts(s.ctx, old, 0)
	storetest.Check(t, err)
	if log := s.raw(t, old, 1, 0); len(log)+len(events)+len(tests)+len(artifacts) > 0 {
		t.Errorf("left are %d bytes of log, %d events, %d tests, %d artifacts", len(log), len(events), len(tests), len(artifacts))
	}
	if log := s.raw(t, young, 1, 0); len(log) != len(file.data) {
		t.Errorf("of a young build %d bytes are left", len(log))
	}
	if b, err := s.Build(s.ctx, running); err != nil || !b.ExpiredAt.IsZero() {
		t.Errorf("a running build: %+v, %v", b, err)
	}
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	if err := s.Retain(ended, time.Nanosecond, &blobs); err == nil {
		t.Error("retention went on after the end of its context")
	}
}
