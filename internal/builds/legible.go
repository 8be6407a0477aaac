package builds

import "github.com/waybill-dev/waybill/internal/build"

// legible is rows without times that JSON cannot have. Older versions stored what workers and build engines reported,
// such as a time of the year 10000.
type legible struct{ Rows }

// LockBuild locks and reads a build.
func (l legible) LockBuild(id ID) (b Build, ok bool, err error) {
	b, ok, err = l.Rows.LockBuild(id)
	b.clamp()
	return b, ok, err
}

// Builds reads builds.
func (l legible) Builds(q Query) ([]Build, error) {
	found, err := l.Rows.Builds(q)
	for i := range found {
		found[i].clamp()
	}
	return found, err
}

// clamp changes the times that the clock of a worker or build engine has made.
func (b *Build) clamp() {
	b.StartedAt = build.ClampTime(b.StartedAt)
	b.EndedAt = build.ClampTime(b.EndedAt)
}

// Steps reads steps.
func (l legible) Steps(id ID, only []int) ([]Step, error) {
	found, err := l.Rows.Steps(id, only)
	for i := range found {
		found[i].StartedAt = build.ClampTime(found[i].StartedAt)
		found[i].EndedAt = build.ClampTime(found[i].EndedAt)
	}
	return found, err
}

// BuildEvents reads events.
func (l legible) BuildEvents(id ID, after int64, limit int) ([]Event, error) {
	found, err := l.Rows.BuildEvents(id, after, limit)
	for i := range found {
		found[i].At = build.ClampTime(found[i].At)
	}
	return found, err
}
