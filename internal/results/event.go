package results

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Events reads the updates of all steps in the order of their ids.
type Events struct {
	reader *Reader
	last   int64 // id of the last event returned
	live   []int // steps that may have further updates, ascending
}

// EventsAfter returns the updates of a build of so many steps (step 0 aside) whose ids are above after.
func (r *Reader) EventsAfter(steps int, after int64) *Events {
	e := &Events{reader: r, last: after}
	for step := range steps + 1 {
		e.live = append(e.live, step)
	}
	return e
}

// Next returns the events that were recorded since the last call. Ids have no gap: where the files of two steps were read
// at different times, the event before the gap is the last one, and the rest comes with a later call.
func (e *Events) Next() ([]build.Update, error) {
	var found []build.Update
	var live []int
	for _, step := range e.live {
		updates, err := e.reader.Updates(step)
		if err != nil {
			return nil, err
		}
		for _, u := range updates {
			if u.ID > e.last {
				found = append(found, u)
			}
		}
		if n := len(updates); n == 0 || !updates[n-1].Status.Ended() || updates[n-1].ID > e.last {
			live = append(live, step)
		}
	}
	slices.SortFunc(found, func(a, b build.Update) int { return cmp.Compare(a.ID, b.ID) })
	for i := range found {
		if found[i].ID != e.last+1 {
			found = found[:i]
			break
		}
		e.last++
	}
	e.live = live
	return found, nil
}

// ArtifactsOf lists what the first steps yielded, step 0 aside, whose ids are above after. Ids have no gap, as in [Events.Next].
func (r *Reader) ArtifactsOf(steps, after int) ([]build.Artifact, error) {
	var found []build.Artifact
	for step := 1; step <= steps; step++ {
		var document artifactsDocument
		err := readJSON(filepath.Join(r.stepDir(step), artifactsFile), &document)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, a := range document.Artifacts {
			if a.Step = step; a.ID > after {
				found = append(found, a)
			}
		}
	}
	slices.SortFunc(found, func(a, b build.Artifact) int { return cmp.Compare(a.ID, b.ID) })
	for i := range found {
		if found[i].ID != after+i+1 {
			return found[:i], nil
		}
	}
	return found, nil
}

// errLongEntry returns the error for a log with a longer entry than any that this program writes.
func errLongEntry(path string, offset int64) error {
	return fault.New(fault.Corrupt, "the entry at byte %d of %s is longer than %d bytes", offset, path, BatchSize)
}
