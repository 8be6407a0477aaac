package buildview

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// Bounds of a search.
const (
	LongestSearch  = 10 * time.Second // time of one request
	LongestNeedle  = 200              // bytes of the text that is searched for
	matchText      = 500              // bytes of an entry that are returned
	DefaultMatches = 1000             // matches of one answer, unless the request names a number
)

// Matches holds the matches of a search, newest first.
type Matches struct {
	Matches []LogEntry `json:"matches"`        // their messages are what is visible, and cut to 500 bytes
	Next    string     `json:"next,omitempty"` // cursor with which the search continues; "": everything was searched
}

// SearchQuery asks for the entries whose visible text contains Text. Upper and lower case of ASCII letters are alike.
type SearchQuery struct {
	Text  string
	Steps []int // ascending
	// The search begins before the entry Before of the step From, if one is set.
	From   int
	Before int64
	Limit  int
}

// SearchCursor is the position of a search in all logs: the cursor of the list at the build, its id, and the cursor
// within its logs.
type SearchCursor struct{ List, Build, Log string }

func (c SearchCursor) String() string { return c.List + "~" + c.Build + "~" + c.Log }

// ParseSearchCursor reads a cursor; "" is the start.
func ParseSearchCursor(text string) (c SearchCursor, err error) {
	if text == "" {
		return c, nil
	}
	parts := strings.Split(text, "~")
	if len(parts) != 3 || len(text) > longestCursor {
		return c, fault.New(fault.Invalid, "after: want the field next of an earlier answer, found %q", fault.Clip(text))
	}
	return SearchCursor{parts[0], parts[1], parts[2]}, nil
}

// TimedOut returns the cursor of a search whose time is over, and every other error.
func TimedOut(ctx, limited context.Context, cursor string, err error) (string, error) {
	if ctx.Err() == nil && limited.Err() != nil {
		return cursor, nil //nolint:nilerr // the cursor is the answer
	}
	return "", err
}

var ErrSearchTime = errors.New("the search took longer than " + LongestSearch.String())

// SearchBuild searches the logs of steps, the last step and the newest entries first, for at most ten seconds. It gives
// what it finds to each, and returns the cursor with which the search continues; "": everything was searched.
func SearchBuild(
	ctx context.Context,
	b Reader,
	state State,
	q SearchQuery,
	each func(LogEntry) error,
) (next string, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, LongestSearch, ErrSearchTime)
	defer cancel()
	found := 0
	var failed error
	needle := []byte(strings.ToLower(q.Text))
	for _, step := range slices.Backward(q.Steps) {
		if q.From >= 0 && step > q.From {
			continue
		}
		end := int64(math.MaxInt64)
		if step == q.From {
			end = max(0, q.Before-1)
		}
		before, err := searchStep(limited, b, step, end, needle, func(e build.Line) bool {
			found++
			failed = each(matchOf(state.ID, e))
			return failed == nil && found < q.Limit
		})
		switch {
		case failed != nil:
			return "", failed
		case err != nil && limited.Err() == nil:
			return "", err
		case before > 0 || limited.Err() != nil:
			return strconv.Itoa(step) + ":" + strconv.FormatInt(before, 10), nil
		}
	}
	return "", nil
}

func matchOf(buildID string, l build.Line) LogEntry {
	text := build.VisibleText(l.Text)
	l.Text = nil
	entry := LogEntryOf(buildID, l)
	entry.Message = strings.ToValidUTF8(text[:min(len(text), matchText)], "")
	return entry
}

// searchStep gives the matching entries of a step up to the id last to each, newest first, until each returns false. It returns the
// id before which the search continues; 0: at the start of the log.
func searchStep(
	ctx context.Context,
	b Reader,
	step int,
	last int64,
	needle []byte,
	each func(build.Line) bool,
) (before int64, err error) {
	end, err := b.Locate(ctx, step, LogPlace{After: last})
	if err != nil {
		return last, err
	}
	buffer := make([]byte, 2*results.BatchSize)
	for end.ID > 0 {
		if err := ctx.Err(); err != nil {
			return end.ID + 1, context.Cause(ctx)
		}
		block, err := readBackward(ctx, b, step, end.Offset, buffer)
		if err != nil {
			return end.ID + 1, err
		}
		stopped := matchBackward(step, end.ID, block, needle, each)
		if stopped > 0 {
			return stopped, nil
		}
		end = build.Position{ID: end.ID - int64(bytes.Count(block, []byte("\n"))), Offset: end.Offset - int64(len(block))}
	}
	return 0, nil
}

// readBackward returns the whole entries that end at an offset and begin at most results.BatchSize bytes before it.
func readBackward(ctx context.Context, b Reader, step int, end int64, buffer []byte) ([]byte, error) {
	from := max(0, end-results.BatchSize)
	read := int64(0)
	for from+read < end {
		n, err := b.ReadLog(ctx, step, from+read, buffer[read:])
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, fault.New(fault.Corrupt, "the log of step %d is shorter than it was", step)
		}
		read += int64(n)
	}
	block := buffer[:end-from]
	if from > 0 {
		block = block[bytes.IndexByte(block, '\n')+1:]
	}
	if len(block) == 0 {
		return nil, fault.New(fault.Corrupt, "an entry of step %d is longer than %d bytes", step, results.BatchSize)
	}
	return block, nil
}

// matchBackward gives the matching entries of a block, of which last is the last one, to each. It returns the id before which each
// has stopped the search; 0: it has not.
func matchBackward(step int, last int64, block, needle []byte, each func(build.Line) bool) int64 {
	if bytes.IndexByte(block, 0x1b) < 0 && !bytes.Contains(bytes.ToLower(block), needle) {
		return 0
	}
	for id := last; len(block) > 0; id-- {
		begin := bytes.LastIndexByte(block[:len(block)-1], '\n') + 1
		e := build.Line{Step: step, ID: id, Entry: build.ParseEntry(block[begin:])}
		block = block[:begin]
		if strings.Contains(strings.ToLower(build.VisibleText(e.Text)), string(needle)) && !each(e) {
			return id
		}
	}
	return 0
}
