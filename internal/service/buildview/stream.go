package buildview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Bounds of a stream of a build.
const (
	mostLogs      = 64      // logs whose entries one round sends
	roundBytes    = 1 << 20 // bytes of one log, before the next one has its turn
	longestCursor = 64 << 10
)

// StatusEvent is the data of an event status.
type StatusEvent struct {
	StepID int `json:"stepId"` // 0: the build
	build.Update
}

// buildCursor is the position of a stream: the last update and artifact, the steps whose logs were sent whole, and
// the last entries of the logs that were begun. As text it is UPDATE/ARTIFACT/1-5,7/6:120,8:3.
type buildCursor struct {
	update   int64
	artifact int
	done     map[int]bool
	begun    map[int]int64
}

func (c buildCursor) String() string {
	var done, begun []string
	steps := sortedKeys(c.done)
	for i := 0; i < len(steps); {
		last := i
		for last+1 < len(steps) && steps[last+1] == steps[last]+1 {
			last++
		}
		if last == i {
			done = append(done, strconv.Itoa(steps[i]))
		} else {
			done = append(done, fmt.Sprintf("%d-%d", steps[i], steps[last]))
		}
		i = last + 1
	}
	for _, step := range sortedKeys(c.begun) {
		begun = append(begun, fmt.Sprintf("%d:%d", step, c.begun[step]))
	}
	return fmt.Sprintf("%d/%d/%s/%s", c.update, c.artifact, strings.Join(done, ","), strings.Join(begun, ","))
}

func sortedKeys[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// parseBuildCursor reads a cursor; "" is the start. last is the id of the last step of the build.
func parseBuildCursor(text string, last int) (buildCursor, error) {
	c := buildCursor{done: map[int]bool{}, begun: map[int]int64{}}
	if text == "" {
		return c, nil
	}
	wrong := fault.New(fault.Invalid, "Last-Event-ID: want the id of an event of this stream, found %q", fault.Clip(text))
	parts := strings.Split(text, "/")
	if len(parts) != 4 || len(text) > longestCursor {
		return c, wrong
	}
	var errs [2]error
	c.update, errs[0] = strconv.ParseInt(parts[0], 10, 64)
	c.artifact, errs[1] = strconv.Atoi(parts[1])
	if errors.Join(errs[:]...) != nil || !c.parseDone(parts[2], last) || !c.parseBegun(parts[3], last) {
		return c, wrong
	}
	return c, nil
}

// parseDone reads ranges of steps, which ascend: so each step comes once, however long the text is.
func (c buildCursor) parseDone(text string, highest int) bool {
	next := 0
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from < next || to > highest {
			return false
		}
		for step := from; step <= to; step++ {
			c.done[step] = true
		}
		next = max(from, to) + 1
	}
	return true
}

func (c buildCursor) parseBegun(text string, highest int) bool {
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		first, last, _ := strings.Cut(part, ":")
		step, err1 := strconv.Atoi(first)
		id, err2 := strconv.ParseInt(last, 10, 64)
		if err1 != nil || err2 != nil || step < 0 || step > highest || id < 0 {
			return false
		}
		c.begun[step] = id
	}
	return true
}

// lastStep returns the id of the last step of a build.
func lastStep(state State) (id int) {
	if n := len(state.Plan.Steps); n > 0 {
		id = state.Plan.Steps[n-1].ID
	}
	return id
}

// endOf returns the data of the last event of a stream.
func endOf(state State) map[string]any {
	return map[string]any{"buildId": state.ID, "status": state.Status, "statusId": state.StatusID, "reason": state.Reason}
}

// Follower sends the events of a build to one client.
type Follower struct {
	reader Reader
	write  func(id, kind string, value any) error
	wanted []int // steps; nil: all
	cursor buildCursor
	places map[int]build.Position // places of begun logs, once they are located
	begin  int                    // number of the step with which the next round begins: those before had their turn
}

// NewFollower returns a follower of the steps that a query names, which begins after the event last; "" is the start.
func NewFollower(b Reader, state State, query url.Values, last string) (*Follower, error) {
	steps, err := stepIDs(state, query)
	if err != nil {
		return nil, err
	}
	cursor, err := parseBuildCursor(last, lastStep(state))
	return &Follower{reader: b, wanted: steps, cursor: cursor, places: map[int]build.Position{}}, err
}

// Follow writes the stored events of the build, and new ones until the build ends.
func (f *Follower) Follow(ctx context.Context, write func(id, kind string, value any) error) error {
	f.write = write
	wait := f.reader.Follow()
	for {
		state, err := f.reader.State(ctx)
		if err != nil {
			return err
		}
		over, more, err := f.round(ctx, state)
		if err != nil {
			return err
		}
		if over {
			return f.send("end", endOf(state))
		}
		if more {
			continue
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
}

// round sends what the state has beyond the cursor: entries first, so that the end of a step comes after its log.
// over reports that the stream is complete; more that entries remain to be sent.
func (f *Follower) round(ctx context.Context, state State) (over, more bool, err error) {
	if more, err = f.sendLogs(ctx, state); err != nil {
		return false, false, err
	}
	if err := f.sendUpdates(state); err != nil {
		return false, false, err
	}
	if err := f.sendArtifacts(state); err != nil {
		return false, false, err
	}
	return state.Ended() && !more, more, nil
}

// sendLogs sends entries of the logs of some steps. more reports that there are more already.
func (f *Follower) sendLogs(ctx context.Context, state State) (more bool, err error) {
	all, logs := len(state.Plan.Steps)+1, 0
	for i := range all {
		number := (f.begin + i) % all
		id := 0
		if number > 0 {
			id = state.Plan.Steps[number-1].ID
		}
		begun := len(state.Updates[id]) > 0 || state.Logs[id].ID > 0 // another build engine may report the log first
		if f.cursor.done[id] || !begun && !state.Ended() {
			continue
		}
		if logs == mostLogs {
			f.begin = number
			return true, nil
		}
		sent, rest, err := f.sendLog(ctx, state, id)
		if err != nil {
			return false, err
		}
		if sent {
			logs++
		}
		more = more || rest
	}
	f.begin = 0
	return more, nil
}

// sendLog sends entries of a step. rest reports that there are more already.
func (f *Follower) sendLog(ctx context.Context, state State, id int) (sent, rest bool, err error) {
	last := state.Last(id)
	final := last.Status.Ended() || state.Ended()
	if !wants(f.wanted, id) {
		if final {
			f.cursor.done[id] = true
		}
		return false, false, nil
	}
	from, located := f.places[id]
	end, known := state.Logs[id]
	if after := f.cursor.begun[id]; !located && after > 0 {
		if from, err = f.reader.Locate(ctx, id, LogPlace{After: after}); err != nil {
			return false, false, err
		}
	}
	f.places[id] = from
	if known && from.Offset >= end.Offset {
		f.conclude(id, final)
		return false, false, nil
	}
	size := 0
	from, err = scanBuildLog(ctx, f.reader, id, from, func(e build.Line) error {
		if size += len(e.Text); size > roundBytes {
			rest = true
			return ErrEnough
		}
		f.cursor.begun[id], sent = e.ID, true
		return f.send("log", LogEntryOf(state.ID, e))
	})
	f.places[id] = from
	f.conclude(id, err == nil && final && !rest)
	return sent, rest, err
}

// conclude forgets a log that was sent whole.
func (f *Follower) conclude(id int, whole bool) {
	if whole {
		f.cursor.done[id] = true
		delete(f.cursor.begun, id)
		delete(f.places, id)
	}
}

func (f *Follower) send(kind string, value any) error {
	return f.write(f.cursor.String(), kind, value)
}

// sendUpdates sends statuses in the order of their ids, which have no gap, as far as the logs before them were sent.
func (f *Follower) sendUpdates(state State) error {
	var all []build.Update
	for _, updates := range state.Updates {
		for _, u := range updates {
			if u.ID > f.cursor.update {
				all = append(all, u)
			}
		}
	}
	slices.SortFunc(all, func(a, b build.Update) int { return cmp.Compare(a.ID, b.ID) })
	for _, u := range all {
		if u.ID != f.cursor.update+1 || u.Status.Ended() && !f.cursor.done[u.Step] {
			return nil
		}
		f.cursor.update = u.ID
		if !wants(f.wanted, u.Step) {
			continue
		}
		u.Reason = build.Printable(u.Reason, nil)
		if err := f.send("status", StatusEvent{u.Step, u}); err != nil {
			return err
		}
	}
	return nil
}

// sendArtifacts sends artifacts in the order of their ids, which have no gap.
func (f *Follower) sendArtifacts(state State) error {
	all := slices.Clone(state.Artifacts)
	slices.SortFunc(all, func(a, b build.Artifact) int { return cmp.Compare(a.ID, b.ID) })
	for _, a := range all {
		if a.ID <= f.cursor.artifact {
			continue
		}
		if a.ID != f.cursor.artifact+1 {
			return nil
		}
		f.cursor.artifact = a.ID
		if !wants(f.wanted, a.Step) {
			continue
		}
		if err := f.send("artifact", Artifact{a.Step, a}); err != nil {
			return err
		}
	}
	return nil
}
