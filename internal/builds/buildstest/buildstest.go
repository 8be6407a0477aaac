// Package buildstest is the suite of every driver of builds, run against each real database.
package buildstest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// Run checks a driver. Each call of open returns a fresh database.
func Run(t *testing.T, open func(t *testing.T) storetest.Database) {
	t.Helper()
	storetest.Run(t, open, newSetup, properties())
}

// properties returns the suite: properties by name, with its proof.
func properties() map[string]func(*testing.T, setup) {
	return map[string]func(*testing.T, setup){
		"LogsArriveOnceHoweverTheyAreSent":    logsArriveOnceHoweverTheyAreSent,
		"AGapNamesThePositionExpected":        aGapNamesThePositionExpected,
		"ContradictionsAreRefused":            contradictionsAreRefused,
		"BatchesThatAreNotEntriesAreRefused":  batchesThatAreNotEntriesAreRefused,
		"AFinalMarkerNeedsEverythingBeforeIt": aFinalMarkerNeedsEverythingBeforeIt,
		"ADamagedLogHasNoEnd":                 aDamagedLogHasNoEnd,
		"EndsStayAndLateVerdictsAreKept":      endsStayAndLateVerdictsAreKept,
		"EventsAreStoredOnce":                 eventsAreStoredOnce,
		"StepsFollowTheirEvents":              stepsFollowTheirEvents,
		"IngestersOfOneBuildTakeTurns":        ingestersOfOneBuildTakeTurns,
		"OnEndSharesTheTransaction":           onEndSharesTheTransaction,
		"OnlyNewDataIsProgress":               onlyNewDataIsProgress,
		"KnownResultsWriteNothing":            knownResultsWriteNothing,
		"BuildsAreListedInPages":              buildsAreListedInPages,
		"LogsAreReadFromAnywhere":             logsAreReadFromAnywhere,
		"ArtifactsHaveTestResults":            artifactsHaveTestResults,
		"DeletedBuildsTakeNothing":            deletedBuildsTakeNothing,
		"PasswordsAreForgotten":               passwordsAreForgotten,
		"APasswordInTheInputsIsErased":        aPasswordInTheInputsIsErased,
		"ACancelEndsABuildWithoutAWorker":     aCancelEndsABuildWithoutAWorker,
		"TheQueueReadsNoEndedBuild":           theQueueReadsNoBuildThatHasEnded,
		"WhatALaterBuildReusesIsKept":         whatALaterBuildReusesIsKept,
		"DamagedBlocksAreReported":            damagedBlocksAreReported,
		"WhatIsTooOldIsDeleted":               whatIsTooOldIsDeleted,
		"WhatCannotBeClearedKeepsNothingElse": whatCannotBeClearedKeepsNothingElse,
		"BundlesOfEndedBuildsAreDeleted":      bundlesOfEndedBuildsAreDeleted,
		"AnotherEngineReportsALog":            anotherEngineReportsALogWithoutGaps,
		"AnotherEngineChangesStatuses":        anotherEngineChangesStatusesThatMay,
		"AnotherEngineReportsArtifacts":       anotherEngineReportsArtifactsAndTests,
		"WhatAnotherEngineReportsIsBounded":   whatAnotherEngineReportsIsBounded,
		"BadTimesThatAreStoredAreRead":        badTimesThatAreStoredAreRead,
		"RowsKeepTheirFormat":                 rowsKeepTheirFormat,
	}
}

// Driver is a database that keeps builds.
type Driver interface {
	store.Driver
	builds.Driver
}

// setup is builds for one test.
type setup struct {
	*builds.Builds
	db       *store.DB
	driver   Driver
	database storetest.Database
	ctx      context.Context
}

func newSetup(t *testing.T, database storetest.Database) setup {
	t.Helper()
	driver := storetest.Open[Driver](t, database)
	s := setup{driver: driver, database: database, db: store.New(driver), ctx: t.Context()}
	s.Builds = builds.New(s.db, driver, builds.Options{})
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// create stores a build.
func (s setup) create(t *testing.T) builds.ID {
	t.Helper()
	b, err := s.Create(s.ctx, builds.Build{Project: "shop", Branch: "main", Commit: "3f9c2ab",
		Inputs: map[string]string{"level": "info"}, CreatedBy: "ana"})
	storetest.Check(t, err)
	return b.ID
}

// ingest stores a batch that has no fault.
func (s setup) ingest(t *testing.T, id builds.ID, batch builds.Batch) builds.Ingested {
	t.Helper()
	done, err := s.Ingest(s.ctx, id, batch)
	storetest.Check(t, err)
	return done
}

// raw reads the bytes of a step's log.
func (s setup) raw(t *testing.T, id builds.ID, step int, offset int64) []byte {
	t.Helper()
	data, err := io.ReadAll(s.OpenLog(s.ctx, id, step, offset))
	storetest.Check(t, err)
	return data
}

// output is the log file of a step, with entries of every length.
type output struct {
	data []byte
	ends []int64 // offset after each entry
}

// print returns a file of so many entries.
func print(entries int) (o output) {
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for i := range entries {
		at = at.Add(time.Millisecond)
		text := fmt.Sprintf("line %d \x00\xff %s", i, strings.Repeat("y", i*37%1500))
		o.data = build.FormatEntry(o.data, build.Entry{At: at, Text: []byte(text)})
		o.ends = append(o.ends, int64(len(o.data)))
	}
	return o
}

// start returns the byte at which the entry after a log id begins.
func (o output) start(after int) int64 {
	if after == 0 {
		return 0
	}
	return o.ends[after-1]
}

// batch returns the entries after one log id up to another.
func (o output) batch(step, after, last int) *builds.LogBatch {
	return &builds.LogBatch{Step: step, Begin: build.Position{ID: int64(after), Offset: o.start(after)},
		Entries: last - after, Data: bytes.Clone(o.data[o.start(after):o.start(last)])}
}

// trailer returns what the file comes to.
func (o output) trailer() *build.Trailer {
	sum := sha256.Sum256(o.data)
	return &build.Trailer{Entries: int64(len(o.ends)), Bytes: int64(len(o.data)), SHA256: hex.EncodeToString(sum[:])}
}

// event returns an event of the worker.
func event(id int, step int, status build.Status) builds.Event {
	return builds.Event{Source: builds.Worker, EventID: strconv.Itoa(id), Step: step, Status: status,
		Attempt: min(step, 1), At: time.Date(2026, 3, 1, 9, 0, id, 0, time.UTC)}
}

// life returns the events of a build of one step with a log, and its final marker with so many artifacts.
func life(log output, artifacts int) []builds.Event {
	events := []builds.Event{event(1, 0, build.Scheduling), event(2, 0, build.Running), event(3, 1, build.Running),
		event(4, 1, build.Completed), event(5, 0, build.Completed)}
	events[3].Trailer, events[4].Trailer = log.trailer(), output{}.trailer()
	events[4].Final = &build.Final{Steps: 1, Events: 5, Artifacts: artifacts}
	return events
}
