package builds

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Record stores one event of a source other than the worker, and makes its change if it is allowed. An event whose
// source and id are stored does nothing. It returns the event as it is stored: Applied reports whether it changed
// anything.
func (b *Builds) Record(ctx context.Context, id ID, e Event) (stored Event, err error) {
	if e.Source == Worker || e.EventID == "" || e.Trailer != nil || e.Final != nil {
		return e, fault.New(fault.Invalid, "record an event of build %d: an event of a worker comes with its results", id)
	}
	if err := checkStep(e.Step); err != nil {
		return e, err
	}
	err = b.write(ctx, fmt.Sprintf("record an event of build %d", id), func(t txn) error {
		found, err := t.lock(id)
		if err != nil {
			return err
		}
		stored, err = t.record(found, e, b.options)
		return err
	})
	return stored, err
}

// record does the same as Record to a locked build.
func (t txn) record(found Build, e Event, o Options) (stored Event, err error) {
	e.EventID = cleanEventID(e.EventID) // as it is stored
	if twice, err := t.HasBuildEvent(found.ID, e.Source, e.EventID); err != nil || twice {
		return e, err
	}
	in := &ingestion{txn: t, build: &found}
	if in.steps, err = t.steps(found.ID, []int{e.Step}); err != nil {
		return e, err
	}
	if err := in.apply(&e); err != nil {
		return e, err
	}
	if err := in.InsertBuildEvents(found.ID, []Event{e}); err != nil {
		return e, err
	}
	if err := in.steps.store(t, found.ID); err != nil {
		return e, err
	}
	in.Touch(store.TopicBuild)
	return e, in.save(o)
}

// apply numbers an event and makes its change, unless that is not allowed.
func (in *ingestion) apply(e *Event) error {
	in.build.LastSeq++
	e.Seq, e.StoredAt = in.build.LastSeq, in.Now()
	if !canStore(e.At) {
		e.At = e.StoredAt
	}
	e.EventID, e.Reason, e.Message = cleanEventID(e.EventID), StoredReason(e.Reason), clean(e.Message, mostMessage)
	if e.Applied = e.Status == ""; e.Applied {
		return nil
	}
	step := in.steps.of(e.Step)
	if e.Trailer != nil {
		step.Trailer = e.Trailer
		in.steps.change(e.Step)
	}
	if err := in.checkEnd(*e); err != nil {
		return err
	}
	if e.Step == 0 {
		e.Applied = checkBuild(in.build.Status, e.Status) == nil
	} else {
		e.Applied = checkChange(step.Status, e.Status) == nil
	}
	if !e.Applied {
		in.build.RefusedEvents++
		in.done.Refused++
		return nil
	}
	in.steps.change(e.Step)
	step.apply(*e)
	if e.Step == 0 {
		in.build.apply(*e)
		if in.ended = e.Status.Ended(); in.ended {
			return in.ForgetPasswords(in.build.ID)
		}
	}
	return nil
}

// canStore reports whether every database, log and JSON document can have a time. They have it in UTC, where its year
// may be another.
func canStore(at time.Time) bool {
	year := at.UTC().Year()
	return year >= 1970 && year <= 9999
}

// checkChange returns an error if a step may not go from one status to another. The same status again only
// brings another reason.
func checkChange(from, to build.Status) error {
	if from == to && !from.Ended() {
		return nil
	}
	return build.CheckChange(from, to)
}

// checkBuild does the same as checkChange for a build, which has fewer statuses.
func checkBuild(from, to build.Status) error {
	switch to {
	case build.Pending, build.Initializing, build.Backoff, build.Reused:
		return fmt.Errorf("a build is never %s", to)
	}
	return checkChange(from, to)
}

// apply takes a change that is allowed.
func (s *Step) apply(e Event) {
	s.Status, s.Reason, s.Message, s.ExitCode = e.Status, e.Reason, e.Message, e.ExitCode
	s.Attempt = max(s.Attempt, e.Attempt)
	if e.Status == build.Running && s.StartedAt.IsZero() {
		s.StartedAt = e.At
	}
	if e.Status.Ended() {
		s.EndedAt = e.At
	}
}

// apply takes a change that is allowed.
func (b *Build) apply(e Event) {
	b.Status, b.Reason, b.Message = e.Status, e.Reason, e.Message
	if e.Status == build.Running && b.StartedAt.IsZero() {
		b.StartedAt = e.At
	}
	if e.Status.Ended() {
		b.EndedAt = e.At
	}
}

// checkEnd takes a final marker, if the event is one and everything before it is stored.
func (in *ingestion) checkEnd(e Event) error {
	switch {
	case e.Source != Worker || e.Step != 0 || !e.Status.Ended():
		return nil
	case e.Final == nil:
		return fault.New(fault.Corrupt, "event %s ends the build without a final marker", e.EventID)
	}
	f := *e.Final
	var missing []string
	if in.build.EventCursor != f.Events {
		return fault.New(fault.Corrupt, "the final marker is event %s, and counts %d events", e.EventID, f.Events)
	}
	if n := f.Artifacts - in.build.ArtifactCursor; n != 0 {
		missing = append(missing, fmt.Sprintf("%d of %d artifacts", n, f.Artifacts))
	}
	if err := checkStep(f.Steps); err != nil {
		return err
	}
	for id := range f.Steps + 1 {
		lacks, err := in.steps.of(id).lacks()
		if err != nil {
			return err
		}
		if lacks != "" && len(missing) < mostMissing {
			missing = append(missing, lacks)
		}
	}
	if len(missing) > 0 {
		return fault.New(fault.Conflict, "the final marker came before %s", strings.Join(missing, ", "))
	}
	in.build.Final = &f
	return nil
}

// mostMissing bounds the missing things that an error lists.
const mostMissing = 10

// lacks returns the missing part of a step's log; "": nothing. A log that has the length of its trailer and another
// digest is fault.Corrupt.
func (s *Step) lacks() (string, error) {
	switch t := s.Trailer; {
	case t == nil:
		return fmt.Sprintf("the end of step %d", s.ID), nil
	case s.LogLines < t.Entries || s.LogBytes < t.Bytes:
		return fmt.Sprintf("%d of %d entries of step %d", t.Entries-s.LogLines, t.Entries, s.ID), nil
	case s.Position() != t.End():
		return "", fault.New(fault.Corrupt, "the log of step %d has %d entries, %d bytes; its trailer says %d, %d", s.ID, s.LogLines, s.LogBytes,
			t.Entries, t.Bytes)
	}
	sum := sha256.New()
	if err := restore(sum, s.HashState); err != nil {
		return "", err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != s.Trailer.SHA256 {
		return "", fault.New(fault.Corrupt, "the log of step %d has the SHA-256 %s; its trailer says %s", s.ID, got, s.Trailer.SHA256)
	}
	return "", nil
}

// restore continues a digest at a stored state; nil is the start.
func restore(sum any, state []byte) error {
	if state == nil {
		return nil
	}
	if err := sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		return fault.New(fault.Corrupt, "the stored state of a log's SHA-256 cannot be read: %w", err)
	}
	return nil
}
