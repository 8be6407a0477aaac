package builds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// Batch holds results received from a worker. Each list is in the worker's order.
type Batch struct {
	Steps     []Step // as planned, see Define
	Logs      []*LogBatch
	Artifacts []Artifact // whose bytes are in the blob store, or Damaged
	Tests     []build.TestFile
	Events    []Event // events of the source Worker
	// Again reports that everything is probably stored: Ingest searches for that first, and then writes nothing while
	// the lease is young. It saves time and changes nothing else.
	Again bool
}

// Progress is the position from which the results of a build continue.
type Progress struct {
	Events    int64                  // id of the worker's last event
	Artifacts int                    // id of the last artifact
	Logs      map[int]build.Position // by step; steps at the start are left out
	Ended     bool                   // the build has ended, maybe without a final marker
	Whole     bool                   // the final marker is stored
	Known     bool                   // the acknowledgement was stored
}

// Ingested describes the changes by a batch.
type Ingested struct {
	Entries   int64 // entries of logs
	Bytes     int64 // bytes of logs
	Events    int
	Refused   int // number of Events with changes that were not allowed
	Artifacts int
}

// GapError reports that a batch does not continue the stored log. Nothing of it was stored.
type GapError struct {
	Build ID
	What  string // event, artifact, or the log of step 3
	Got   build.Position
	Want  build.Position // the position expected; of events and artifacts the ID is theirs
}

// Error names the position expected.
func (e *GapError) Error() string {
	return fmt.Sprintf("build %d, %s: a batch begins after entry %d, byte %d; expected entry %d, byte %d", e.Build, e.What,
		e.Got.ID, e.Got.Offset, e.Want.ID, e.Want.Offset)
}

// Progress reads where the results of a build continue.
func (b *Builds) Progress(ctx context.Context, id ID) (p Progress, err error) {
	err = b.read(ctx, fmt.Sprintf("read the progress of build %d", id), func(t txn) error {
		found, err := t.Builds(Query{IDs: []ID{id}, Deleted: true})
		if err != nil {
			return err
		}
		var one Build
		if len(found) > 0 {
			one = found[0]
		}
		if err := known(one, len(found) > 0, id); err != nil {
			return err
		}
		p = Progress{Events: one.EventCursor, Artifacts: one.ArtifactCursor, Logs: map[int]build.Position{},
			Ended: one.Status.Ended(), Whole: one.Final != nil, Known: !one.AcknowledgedAt.IsZero()}
		steps, err := t.Steps(id, nil)
		for i := range steps {
			if at := steps[i].Position(); at != (build.Position{}) {
				p.Logs[steps[i].ID] = at
			}
		}
		return err
	})
	return p, err
}

// Ingest stores a worker's messages and renews the build's lease; an empty batch only renews it. Stored data is
// skipped. It returns a *GapError, and stores nothing, if something before the batch is missing. A batch that
// contradicts the stored data is fault.Corrupt; one with a final marker is fault.Conflict while anything of the build
// is missing.
func (b *Builds) Ingest(ctx context.Context, id ID, batch Batch) (done Ingested, err error) {
	if err := batch.check(); err != nil {
		return Ingested{}, fmt.Errorf("ingest results of build %d: %w", id, err)
	}
	if batch.Again {
		if stored, err := b.has(ctx, id, batch); err != nil || stored {
			return Ingested{}, err
		}
	}
	err = b.write(ctx, fmt.Sprintf("ingest results of build %d", id), func(t txn) error {
		done, err = b.ingest(t, id, batch)
		return err
	})
	return done, err
}

// check returns fault.Invalid for a batch that no build can have.
func (b Batch) check() error {
	for _, l := range b.Logs {
		if err := l.check(); err != nil {
			return err
		}
	}
	for i := range b.Events {
		if err := checkStep(b.Events[i].Step); err != nil {
			return err
		}
		if t := b.Events[i].Trailer; t != nil && build.DigestBytes(t.SHA256) == nil {
			return fault.New(fault.Invalid, "event %q has a digest of %d bytes", b.Events[i].EventID, len(t.SHA256)/2)
		}
	}
	for i := range b.Artifacts {
		a := &b.Artifacts[i]
		if err := checkStep(a.Step); err != nil {
			return err
		}
		if a.Size < 0 || build.DigestBytes(a.SHA256) == nil {
			return fault.New(fault.Invalid, "artifact %d has %d bytes and a digest of %d bytes", a.ID, a.Size, len(a.SHA256)/2)
		}
		if err := checkArtifact(a.ID); err != nil {
			return err
		}
	}
	for i := range b.Tests {
		if err := errors.Join(checkStep(b.Tests[i].Step), checkArtifact(b.Tests[i].Artifact)); err != nil {
			return err
		}
	}
	return nil
}

// checkArtifact returns fault.Invalid for a number that is not an artifact's.
func checkArtifact(id int) error {
	if id < 1 || id > mostArtifacts {
		return fault.New(fault.Invalid, "%d is not the id of an artifact; a build has at most %d", id, mostArtifacts)
	}
	return nil
}

// has reports whether a batch of logs is stored and the lease is young. It locks nothing: stored data stays.
func (b *Builds) has(ctx context.Context, id ID, batch Batch) (stored bool, err error) {
	if len(batch.Steps)+len(batch.Artifacts)+len(batch.Tests)+len(batch.Events) > 0 {
		return false, nil
	}
	err = b.read(ctx, fmt.Sprintf("look for results of build %d", id), func(t txn) error {
		found, err := t.Builds(Query{IDs: []ID{id}})
		if err != nil || len(found) == 0 || found[0].LeaseUntil.Sub(t.Now()) < LeaseTime/2 {
			return err
		}
		s, err := t.steps(id, batch.touches())
		if err != nil {
			return err
		}
		for _, l := range batch.Logs {
			at := s.of(l.Step).Position()
			if at.ID < l.End().ID {
				return nil
			}
			if _, err := l.after(at); err != nil {
				return err
			}
		}
		stored = true
		return nil
	})
	return stored, err
}

// ingestion is one run of Ingest's transaction.
type ingestion struct {
	txn
	build *Build
	steps *steps
	done  Ingested
	ended bool // the build ended in this transaction
}

func (b *Builds) ingest(t txn, id ID, batch Batch) (Ingested, error) {
	found, err := t.lock(id)
	if err != nil {
		return Ingested{}, err
	}
	in := &ingestion{txn: t, build: &found}
	if in.steps, err = t.steps(id, batch.touches()); err != nil {
		return Ingested{}, err
	}
	for _, store := range []func(Batch) error{in.plan, in.logs, in.artifacts, in.tests, in.events} {
		if err := store(batch); err != nil {
			return Ingested{}, err
		}
	}
	if err := in.steps.store(t, id); err != nil {
		return Ingested{}, err
	}
	return in.done, in.finish(b.options)
}

// touches lists the steps that a batch is about; nil: all, since there may be a final marker.
func (b Batch) touches() []int {
	only := []int{}
	for _, l := range b.Logs {
		only = append(only, l.Step)
	}
	for i := range b.Events {
		if b.Events[i].Final != nil {
			return nil
		}
		only = append(only, b.Events[i].Step)
	}
	for i := range b.Steps {
		only = append(only, b.Steps[i].ID)
	}
	return only
}

// plan takes the steps as planned.
func (in *ingestion) plan(b Batch) error {
	for _, p := range b.Steps {
		if err := checkStep(p.ID); err != nil {
			return err
		}
		in.steps.define(p)
	}
	return nil
}

// artifacts stores new artifacts.
func (in *ingestion) artifacts(b Batch) error {
	var fresh []Artifact
	for _, a := range b.Artifacts {
		switch want := in.build.ArtifactCursor + 1; {
		case a.ID < want:
			continue
		case a.ID > want:
			return &GapError{in.build.ID, "artifact", build.Position{ID: int64(a.ID - 1)}, build.Position{ID: int64(want - 1)}}
		}
		in.build.ArtifactCursor, a.StoredAt, a.Name = a.ID, in.Now(), clean(a.Name, mostName)
		a.Kind = clean(a.Kind, mostName)
		fresh = append(fresh, a)
	}
	in.done.Artifacts = len(fresh)
	if len(fresh) == 0 {
		return nil
	}
	return in.InsertBuildArtifacts(in.build.ID, fresh)
}

// tests stores new reports about tests. They come in the transaction of the event that ends their step.
func (in *ingestion) tests(b Batch) error {
	for _, r := range b.Tests {
		r.Name, r.Format, r.Results = clean(r.Name, mostName), testresult.Format(clean(string(r.Format), mostName)), cleanResults(r.Results)
		if r.Problem != nil {
			r.Problem = &testresult.Error{Line: r.Problem.Line, Text: clean(r.Problem.Text, mostMessage)}
		}
		if err := in.InsertReport(in.build.ID, r); err != nil {
			return err
		}
	}
	return nil
}

// events stores new events of the worker and makes their changes.
func (in *ingestion) events(b Batch) error {
	var fresh []Event
	for _, e := range b.Events {
		id, err := strconv.ParseInt(e.EventID, 10, 64)
		if err != nil || e.Source != Worker {
			return fault.New(fault.Invalid, "%s event %q is not a worker's", e.Source, e.EventID)
		}
		if id > mostEvents {
			return fault.New(fault.Invalid, "event %d of build %d; a build has at most %d", id, in.build.ID, mostEvents)
		}
		switch want := in.build.EventCursor + 1; {
		case id < want:
			continue
		case id > want:
			return &GapError{in.build.ID, "event", build.Position{ID: id - 1}, build.Position{ID: want - 1}}
		}
		in.build.EventCursor = id
		if err := in.apply(&e); err != nil {
			return err
		}
		fresh = append(fresh, e)
	}
	in.done.Events = len(fresh)
	if len(fresh) == 0 {
		return nil
	}
	return in.InsertBuildEvents(in.build.ID, fresh)
}

// finish renews the lease, and the progress if there was any, and writes the build's row.
func (in *ingestion) finish(o Options) error {
	now := in.Now()
	in.build.LeaseUntil = now.Add(LeaseTime)
	if in.done != (Ingested{}) || len(in.steps.changed) > 0 {
		in.build.LastProgressAt = now
		in.Touch(store.TopicBuild)
	}
	return in.save(o)
}

// save writes the build's row, and has its end recorded elsewhere.
func (in *ingestion) save(o Options) error {
	if err := in.UpdateBuild(*in.build); err != nil || !in.ended || o.OnEnd == nil {
		return err
	}
	return o.OnEnd(in.Tx, *in.build)
}

// cleanResults returns results that every database stores.
func cleanResults(results []testresult.Result) []testresult.Result {
	cleaned := slices.Clone(results)
	for i := range cleaned {
		r := &cleaned[i]
		r.Suite, r.Name, r.Message, r.File = clean(r.Suite, mostName), clean(r.Name, mostName), clean(r.Message,
			mostMessage), clean(r.File, mostName)
		r.Outcome = testresult.Outcome(clean(string(r.Outcome), mostName))
	}
	return cleaned
}
