package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
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
	longestSearch  = 10 * time.Second // of one request
	longestNeedle  = 200              // bytes of the text that is searched for
	matchText      = 500              // bytes of an entry that are returned
	matchesOfReply = 1000             // unless the request says
)

// BuildMatches is what a search has found, newest first.
type BuildMatches struct {
	Matches []BuildLogEntry `json:"matches"`        // their messages are what is visible, and cut to 500 bytes
	Next    string          `json:"next,omitempty"` // cursor with which the search continues; "": everything was searched
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

// searchBuildLog answers with the entries that contain a text.
func (s *Server) searchBuildLog(w http.ResponseWriter, r *http.Request, b BuildReader, state BuildState) error {
	query := r.URL.Query()
	q := SearchQuery{Text: query.Get("q"), Limit: matchesOfReply, From: -1}
	if q.Text == "" || len(q.Text) > longestNeedle {
		return fault.New(fault.Invalid, "q: want a text of 1 to %d bytes", longestNeedle)
	}
	read, err := readLogQuery(state, map[string][]string{"step": query["step"], "limit": query["limit"]})
	if err != nil {
		return err
	}
	if q.Steps = read.Steps; read.Limit > 0 {
		q.Limit = read.Limit
	}
	if text := query.Get("after"); text != "" {
		if q.From, q.Before, err = parseEntryPlace(text, []int{0, 1}); err != nil {
			return err
		}
	}
	found, err := SearchBuild(r.Context(), b, state, q)
	if err != nil {
		return err
	}
	answer, err := json.Marshal(found)
	if err != nil {
		return fmt.Errorf("encode matches: %w", err)
	}
	forbidScript(w.Header())
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(escapeControls(answer), '\n')) // a client that has gone needs no answer
	return nil
}

var errSearchTime = errors.New("the search took longer than " + longestSearch.String())

// SearchBuild searches the logs of steps, the last step and the newest entries first, for at most ten seconds.
func SearchBuild(ctx context.Context, b BuildReader, state BuildState, q SearchQuery) (BuildMatches, error) {
	limited, cancel := context.WithTimeoutCause(ctx, longestSearch, errSearchTime)
	defer cancel()
	found := BuildMatches{Matches: []BuildLogEntry{}}
	needle := []byte(strings.ToLower(q.Text))
	for _, step := range slices.Backward(q.Steps) {
		if q.From >= 0 && step > q.From {
			continue
		}
		end := int64(math.MaxInt64)
		if step == q.From {
			end = max(0, q.Before-1)
		}
		before, err := searchStep(limited, b, step, end, needle, func(e BuildEntry) bool {
			found.Matches = append(found.Matches, matchOf(state.ID, e))
			return len(found.Matches) < q.Limit
		})
		if ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		if err != nil && limited.Err() == nil {
			return found, err
		}
		if before > 0 || limited.Err() != nil {
			found.Next = strconv.Itoa(step) + ":" + strconv.FormatInt(before, 10)
			return found, nil
		}
	}
	return found, nil
}

func matchOf(buildID string, e BuildEntry) BuildLogEntry {
	entry := logEntryOf(buildID, BuildEntry{Step: e.Step, ID: e.ID, Entry: build.Entry{At: e.At, Marks: e.Marks}})
	text := build.VisibleText(e.Text)
	entry.Message = strings.ToValidUTF8(text[:min(len(text), matchText)], "")
	return entry
}

// searchStep gives the matching entries of a step up to the id last to each, newest first, until each returns false. It returns the
// id before which the search continues; 0: at the start of the log.
func searchStep(ctx context.Context, b BuildReader, step int, last int64, needle []byte, each func(BuildEntry) bool) (before int64, err error) {
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
		end = results.Position{ID: end.ID - int64(bytes.Count(block, []byte("\n"))), Offset: end.Offset - int64(len(block))}
	}
	return 0, nil
}

// readBackward returns the whole entries that end at an offset and begin at most results.BatchSize bytes before it.
func readBackward(ctx context.Context, b BuildReader, step int, end int64, buffer []byte) ([]byte, error) {
	from := max(0, end-results.BatchSize)
	read := int64(0)
	for from+read < end {
		n, _, err := b.ReadLog(ctx, step, from+read, buffer[read:])
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
func matchBackward(step int, last int64, block, needle []byte, each func(BuildEntry) bool) int64 {
	if bytes.IndexByte(block, 0x1b) < 0 && !bytes.Contains(bytes.ToLower(block), needle) {
		return 0
	}
	for id := last; len(block) > 0; id-- {
		begin := bytes.LastIndexByte(block[:len(block)-1], '\n') + 1
		e := BuildEntry{Step: step, ID: id, Entry: build.ParseEntry(block[begin:])}
		block = block[:begin]
		if strings.Contains(strings.ToLower(build.VisibleText(e.Text)), string(needle)) && !each(e) {
			return id
		}
	}
	return 0
}
