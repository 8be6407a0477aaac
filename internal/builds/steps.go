package builds

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Bounds of one worker's data.
const (
	mostSteps     = 100_000
	mostEvents    = 1_000_000
	mostArtifacts = 10_000 // as many as a worker keeps
	mostName      = 1000   // bytes
	mostReason    = 200    // bytes
	mostMessage   = 8000   // bytes
)

// steps is a transaction's knowledge of a build's steps.
type steps struct {
	by      map[int]*Step
	changed map[int]bool
}

// steps reads steps; nil reads all.
func (t txn) steps(id ID, only []int) (*steps, error) {
	found, err := t.Steps(id, only)
	s := &steps{by: map[int]*Step{}, changed: map[int]bool{}}
	for i := range found {
		s.by[found[i].ID] = &found[i]
	}
	return s, err
}

// of returns a step. One that nothing is known of is Pending.
func (s *steps) of(id int) *Step {
	step := s.by[id]
	if step == nil {
		step = &Step{ID: id, Status: build.Pending, Needs: []int{}}
		s.by[id] = step
	}
	return step
}

// define takes a step as planned.
func (s *steps) define(p Step) {
	step := s.of(p.ID)
	stage, name, kind := clean(plainName(p.Stage), mostName), clean(plainName(p.Name), mostName), clean(p.Type, mostName)
	identity := clean(p.Identity, mostName)
	if step.Stage != stage || step.Name != name || step.Type != kind || step.Identity != identity || !slices.Equal(step.Needs, p.Needs) {
		step.Stage, step.Name, step.Type, step.Identity, step.Needs = stage, name, kind, identity, append([]int{}, p.Needs...)
		s.change(p.ID)
	}
}

// change has store write a step.
func (s *steps) change(id int) { s.changed[id] = true }

// store writes the changes.
func (s *steps) store(t txn, id ID) error {
	var all []Step
	for _, step := range slices.Sorted(maps.Keys(s.changed)) {
		all = append(all, *s.by[step])
	}
	if len(all) == 0 {
		return nil
	}
	return t.PutSteps(id, all)
}

// checkStep returns fault.Invalid for a number that is not a step's.
func checkStep(id int) error {
	if id < 0 || id > mostSteps {
		return fault.New(fault.Invalid, "%d is not the id of a step; a build has at most %d", id, mostSteps)
	}
	return nil
}

// clean returns a text that every database stores, cut to a size in bytes.
func clean(text string, most int) string {
	text = store.CleanText(text)
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// StoredReason returns the reason of an event as it is stored, which is cut if it is long.
func StoredReason(reason string) string { return clean(reason, mostReason) }

// Waits completes an event, whose kind EventID names, that shows why a build is still Scheduling. It returns false if
// the build shows that already. Of several programs that see the same, one stores it; a reason that comes back is
// shown again.
func (b *Build) Waits(e Event) (Event, bool) {
	if b.Reason == StoredReason(e.Reason) && b.Message == clean(e.Message, mostMessage) {
		return e, false
	}
	e.EventID, e.Status = fmt.Sprintf("%s-%d", e.EventID, b.LastSeq), build.Scheduling
	return e, true
}

// mostEventID bounds the id of an event, in bytes. A longer one ends in a digest, so that two differ.
const mostEventID = 200

// cleanEventID returns the id of an event as it is stored.
func cleanEventID(id string) string {
	if len(id) <= mostEventID {
		return clean(id, mostEventID)
	}
	sum := sha256.Sum256([]byte(id))
	digest := hex.EncodeToString(sum[:8])
	return clean(id, mostEventID-len(digest)) + digest
}
