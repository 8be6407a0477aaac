package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
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
	defaultMatches = 1000             // of one answer, unless the request names a number
)

// Bounds of answers to searches.
const (
	mostSearches  = 8               // at a time: each keeps a processor or the database busy
	matchPatience = 2 * time.Minute // for a client to read what was found, in which other searches wait for its place
)

// BuildMatches holds the matches of a search, newest first.
type BuildMatches struct {
	Matches []BuildLogEntry `json:"matches"`        // their messages are what is visible, and cut to 500 bytes
	Next    string          `json:"next,omitempty"` // cursor with which the search continues; "": everything was searched
}

// searchQuery asks for the entries whose visible text contains Text. Upper and lower case of ASCII letters are alike.
type searchQuery struct {
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
	q := searchQuery{From: -1}
	var err error
	if q.Text, q.Limit, err = readSearch(query); err != nil {
		return err
	}
	read, err := readLogQuery(state, map[string][]string{"step": query["step"]})
	if err != nil {
		return err
	}
	q.Steps = read.Steps
	if text := query.Get("after"); text != "" {
		if q.From, q.Before, err = parseEntryPlace(text, []int{0, 1}); err != nil {
			return err
		}
	}
	return s.sendMatches(w, r, func(ctx context.Context, each func(BuildLogEntry) error) (string, error) {
		return searchBuild(ctx, b, state, q, each)
	})
}

// search gives what it finds to each, for at most ten seconds, and returns the cursor with which it continues; "": everything was searched.
type search func(ctx context.Context, each func(BuildLogEntry) error) (next string, err error)

// sendMatches answers with what a search finds: as one JSON document, or to a client that accepts it as a stream of events match, and at
// last end.
func (s *Server) sendMatches(w http.ResponseWriter, r *http.Request, find search) error {
	select {
	case s.searches <- struct{}{}:
		defer func() { <-s.searches }()
	default:
		return fault.New(fault.Unavailable, "%d searches of logs run, and no more may at a time", mostSearches).
			WithHint("ask again in a few seconds")
	}
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Now().Add(longestSearch + matchPatience)) // an error: nothing that could wait
	defer func() { _ = out.SetWriteDeadline(time.Time{}) }()                // of the connection's next answers
	forbidScript(w.Header())
	if wantsStream(r.Header.Get("Accept")) {
		ServeEvents(w, r, func(ctx context.Context, events *EventStream) error {
			send := func(kind string, value any) error {
				data, err := json.Marshal(value)
				if err != nil {
					return fmt.Errorf("encode a match: %w", err)
				}
				return events.Text("", kind, string(escapeControls(data)))
			}
			next, err := find(ctx, func(e BuildLogEntry) error { return send("match", e) })
			if err != nil {
				return err
			}
			return send("end", BuildMatches{Next: next})
		})
		return nil
	}
	found := BuildMatches{Matches: []BuildLogEntry{}}
	next, err := find(r.Context(), func(e BuildLogEntry) error {
		found.Matches = append(found.Matches, e)
		return nil
	})
	if err != nil {
		return err
	}
	found.Next = next
	answer, err := json.Marshal(found)
	if err != nil {
		return fmt.Errorf("encode matches: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(escapeControls(answer), '\n')) // a client that has gone needs no answer
	return nil
}

// searchAll answers with the entries of the logs of all builds of a project or a time that contain a text.
func (s *Server) searchAll(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	among := BuildQuery{Pipeline: query.Get("project"), Limit: 1}
	if err := readTimes(query, map[string]*time.Time{"since": &among.Since, "until": &among.Until}); err != nil {
		return err
	}
	text, limit, err := readSearch(query)
	if err != nil {
		return err
	}
	if among.Pipeline == "" && among.Since.IsZero() {
		return fault.New(fault.Invalid, "a search in all logs needs project or since").
			WithHint("/api/log/search?q=panic&since=2026-01-02T00:00:00Z")
	}
	from, err := parseSearchCursor(query.Get("after"))
	if err != nil {
		return err
	}
	return s.sendMatches(w, r, func(ctx context.Context, each func(BuildLogEntry) error) (string, error) {
		return s.service.searchBuilds(ctx, among, from, searchQuery{Text: text, Limit: limit, From: -1}, each)
	})
}

// readSearch reads what is searched for, and how many entries are wanted.
func readSearch(query url.Values) (text string, limit int, err error) {
	if text = query.Get("q"); text == "" || len(text) > longestNeedle {
		return "", 0, fault.New(fault.Invalid, "q: want a text of 1 to %d bytes", longestNeedle)
	}
	limit = defaultMatches
	if given := query.Get("limit"); given != "" {
		if limit, err = strconv.Atoi(given); err != nil || limit < 1 || limit > mostEntries {
			return "", 0, fault.New(fault.Invalid, "limit: want a number of 1 to %d, found %q", mostEntries, fault.Clip(given))
		}
	}
	return text, limit, nil
}

// searchCursor is the position of a search in all logs: the cursor of the list at the build, its id, and the cursor
// within its logs.
type searchCursor struct{ list, build, log string }

func (c searchCursor) String() string { return c.list + "~" + c.build + "~" + c.log }

// parseSearchCursor reads a cursor; "" is the start.
func parseSearchCursor(text string) (c searchCursor, err error) {
	if text == "" {
		return c, nil
	}
	parts := strings.Split(text, "~")
	if len(parts) != 3 || len(text) > longestCursor {
		return c, fault.New(fault.Invalid, "after: want the field next of an earlier answer, found %q", fault.Clip(text))
	}
	return searchCursor{parts[0], parts[1], parts[2]}, nil
}

// searchBuilds searches the logs of the builds that a query selects, the newest first.
func (s *Service) searchBuilds(
	ctx context.Context,
	among BuildQuery,
	from searchCursor,
	q searchQuery,
	each func(BuildLogEntry) error,
) (next string, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, longestSearch, errSearchTime)
	defer cancel()
	if from.build != "" { // one that was removed has nothing to continue with
		if _, err := s.Build(limited, from.build); fault.Is(err, fault.NotFound) {
			from.build, from.log = "", ""
		}
	}
	for {
		among.After = from.list
		list, err := s.Builds(limited, among)
		if err != nil {
			return timedOut(ctx, limited, from.String(), err)
		}
		for _, b := range list.Builds {
			if from.build != "" && b.ID != from.build { // it began after the search
				continue
			}
			from.build = b.ID
			if from.log, err = s.searchOne(limited, b.ID, from.log, &q, each); err != nil {
				return timedOut(ctx, limited, from.String(), err)
			}
			if from.log != "" {
				return from.String(), nil
			}
			from.build = ""
		}
		if list.Next == "" {
			return "", nil
		}
		if from.list = list.Next; q.Limit == 0 {
			return from.String(), nil
		}
	}
}

// timedOut returns the cursor of a search whose time is over, and every other error.
func timedOut(ctx, limited context.Context, cursor string, err error) (string, error) {
	if ctx.Err() == nil && limited.Err() != nil {
		return cursor, nil //nolint:nilerr // the cursor is the answer
	}
	return "", err
}

// searchOne searches the logs of one build, and lowers the limit by what it has found.
func (s *Service) searchOne(
	ctx context.Context,
	id, after string,
	q *searchQuery,
	each func(BuildLogEntry) error,
) (next string, err error) {
	reader, state, err := s.BuildState(ctx, id)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Refused) { // removed just now
		return "", nil
	} else if err != nil {
		return after, err
	}
	all, err := readLogQuery(state, nil)
	if err != nil {
		return after, err
	}
	one := *q
	one.Steps = all.Steps
	if after != "" {
		if one.From, one.Before, err = parseEntryPlace(after, []int{0, 1}); err != nil {
			return after, err
		}
	}
	return searchBuild(ctx, reader, state, one, func(e BuildLogEntry) error {
		q.Limit--
		return each(e)
	})
}

var errSearchTime = errors.New("the search took longer than " + longestSearch.String())

// searchBuild searches the logs of steps, the last step and the newest entries first, for at most ten seconds. It gives what it finds to each, and
// returns the cursor with which the search continues; "": everything was searched.
func searchBuild(
	ctx context.Context,
	b BuildReader,
	state BuildState,
	q searchQuery,
	each func(BuildLogEntry) error,
) (next string, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, longestSearch, errSearchTime)
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

func matchOf(buildID string, l build.Line) BuildLogEntry {
	text := build.VisibleText(l.Text)
	l.Text = nil
	entry := logEntryOf(buildID, l)
	entry.Message = strings.ToValidUTF8(text[:min(len(text), matchText)], "")
	return entry
}

// searchStep gives the matching entries of a step up to the id last to each, newest first, until each returns false. It returns the
// id before which the search continues; 0: at the start of the log.
func searchStep(
	ctx context.Context,
	b BuildReader,
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
func readBackward(ctx context.Context, b BuildReader, step int, end int64, buffer []byte) ([]byte, error) {
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
