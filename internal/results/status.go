package results

import (
	"fmt"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/build"
)

// statusDocument is status.json.
type statusDocument struct {
	Updates []build.Update `json:"statusUpdates"`
}

// Update records a status of a step and returns it as it was stored. A change
// that is not allowed is refused. An end gets the trailer of the log; the end of
// step 0 is the final marker, after which nothing more is written.
func (s *Store) Update(id int, u build.Update) (build.Update, error) {
	trailer, err := s.trailerFor(id, u)
	if err != nil {
		return build.Update{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u.Trailer = trailer
	u, err = s.record(id, u)
	if err != nil || !u.Status.Ended() {
		return u, err
	}
	return u, s.steps[id].log.close() // else a build of many steps would have as many files open
}

// record stores an update that has its trailer. The caller holds the lock.
func (s *Store) record(id int, u build.Update) (build.Update, error) {
	step, err := s.step(id)
	if err != nil {
		return build.Update{}, err
	}
	if len(step.updates) > 0 {
		if err := build.CheckChange(step.updates[len(step.updates)-1].Status, u.Status); err != nil {
			return build.Update{}, fmt.Errorf("update step %d: %w", id, err)
		}
	}
	u.ID, u.Step, u.Timestamp = s.events+1, id, u.Timestamp.UTC()
	if id == 0 && u.Status.Ended() {
		u.Final = &build.Final{Steps: s.countSteps(), Events: u.ID, Artifacts: s.artifacts}
	}
	document := statusDocument{append(step.updates, u)}
	if err := s.replace(filepath.Join(s.stepDir(id), statusFile), document, u.Status.Ended()); err != nil {
		return build.Update{}, err
	}
	s.events, step.updates = u.ID, document.Updates
	s.recorded.wake()
	return u, nil
}

// trailerFor returns the trailer that an end gets; nil for another status.
func (s *Store) trailerFor(id int, u build.Update) (*build.Trailer, error) {
	if !u.Status.Ended() {
		return nil, nil
	}
	log, err := s.Log(id)
	if err != nil {
		return nil, err
	}
	return log.trailer()
}

// countSteps returns the number of steps that were begun, without step 0. The caller holds the lock.
func (s *Store) countSteps() int {
	n := len(s.steps)
	if s.steps[0] != nil {
		n--
	}
	return n
}
