package promotion

import "time"

// FirstSight returns the time at which the revision of a run was seen in the first environment before the run began; the run's start
// if that is not known.
func FirstSight(sightings []Sighting, r Run) time.Time {
	at := r.StartedAt
	for _, s := range sightings {
		if s.Revision == r.Revision && s.At.Before(r.StartedAt) {
			at = s.At
		}
	}
	return at
}

// BrokenSince returns the time since which an environment has failed and nothing has finished there; zero if that is not so. A
// rollback means that the environment failed when it was requested, at the latest.
func BrokenSince(runs []Run, env EnvName) (since time.Time) {
	var finished time.Time
	for i := range runs {
		if at := runs[i].factAt(env, StageFinished); at.After(finished) {
			finished = at
		}
	}
	for i := range runs {
		r := &runs[i]
		at := r.FailedAt(env)
		if at.IsZero() && r.Env == env && isReturn(r.Cause) {
			at = r.StartedAt
		}
		if at.After(finished) && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	return since
}

// FailedAt returns the time since which an environment has been failed in a run, or had been when the run left it; zero if it is not.
func (r *Run) FailedAt(env EnvName) time.Time {
	if p := r.Phases[env]; p.Phase == PhaseFailed {
		return p.Since
	}
	return time.Time{}
}

// FinishedAt returns the time at which an environment was complete in a run; zero if it was not.
func (r *Run) FinishedAt(env EnvName) time.Time { return r.factAt(env, StageFinished) }

// Found reports whether a run is the first of its pipeline and did not promote into an environment: it recorded the present state.
func (r *Run) Found(env EnvName) bool {
	return r.Cause == ByCandidate && r.Was == "" && r.factAt(env, EnvPromoted).IsZero()
}

// HasPromoted reports whether a run has promoted into any environment.
func (r *Run) HasPromoted() bool {
	for _, f := range r.Facts {
		if f.Event == EnvPromoted {
			return true
		}
	}
	return false
}

// factAt returns the time of the first fact of an event in an environment; zero without one.
func (r *Run) factAt(env EnvName, event Event) time.Time {
	for _, f := range r.Facts {
		if f.Env == env && f.Event == event && f.Target == nil {
			return f.At
		}
	}
	return time.Time{}
}
