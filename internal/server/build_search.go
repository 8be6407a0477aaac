package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// Bounds of answers to searches.
const (
	mostSearches  = 8               // at a time: each keeps a processor or the database busy
	matchPatience = 2 * time.Minute // bounds a client's reading of the matches, during which other searches wait for its place
)

// searchBuildLog answers with the entries that contain a text.
func (s *Server) searchBuildLog(w http.ResponseWriter, r *http.Request, b buildview.Reader, state buildview.State) error {
	query := r.URL.Query()
	q := buildview.SearchQuery{From: -1}
	var err error
	if q.Text, q.Limit, err = readSearch(query); err != nil {
		return err
	}
	read, err := buildview.ReadLogQuery(state, map[string][]string{"step": query["step"]})
	if err != nil {
		return err
	}
	q.Steps = read.Steps
	if text := query.Get("after"); text != "" {
		if q.From, q.Before, err = buildview.ParseEntryPlace(text, []int{0, 1}); err != nil {
			return err
		}
	}
	return s.sendMatches(w, r, func(ctx context.Context, each func(buildview.LogEntry) error) (string, error) {
		return buildview.SearchBuild(ctx, b, state, q, each)
	})
}

// search gives what it finds to each, for at most ten seconds, and returns the cursor with which it continues; "": everything was searched.
type search func(ctx context.Context, each func(buildview.LogEntry) error) (next string, err error)

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
	_ = out.SetWriteDeadline(time.Now().Add(buildview.LongestSearch + matchPatience)) // an error: nothing that could wait
	defer func() { _ = out.SetWriteDeadline(time.Time{}) }()                          // no limit for the connection's next answers
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
			next, err := find(ctx, func(e buildview.LogEntry) error { return send("match", e) })
			if err != nil {
				return err
			}
			return send("end", buildview.Matches{Next: next})
		})
		return nil
	}
	found := buildview.Matches{Matches: []buildview.LogEntry{}}
	next, err := find(r.Context(), func(e buildview.LogEntry) error {
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
	among := buildview.Query{Pipeline: query.Get("project"), Limit: 1}
	if err := buildview.ReadTimes(query, map[string]*time.Time{"since": &among.Since, "until": &among.Until}); err != nil {
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
	from, err := buildview.ParseSearchCursor(query.Get("after"))
	if err != nil {
		return err
	}
	return s.sendMatches(w, r, func(ctx context.Context, each func(buildview.LogEntry) error) (string, error) {
		return s.service.SearchBuilds(ctx, among, from, buildview.SearchQuery{Text: text, Limit: limit, From: -1}, each)
	})
}

// readSearch reads what is searched for, and how many entries are wanted.
func readSearch(query url.Values) (text string, limit int, err error) {
	if text = query.Get("q"); text == "" || len(text) > buildview.LongestNeedle {
		return "", 0, fault.New(fault.Invalid, "q: want a text of 1 to %d bytes", buildview.LongestNeedle)
	}
	limit = buildview.DefaultMatches
	if given := query.Get("limit"); given != "" {
		if limit, err = strconv.Atoi(given); err != nil || limit < 1 || limit > buildview.MostEntries {
			return "", 0, fault.New(fault.Invalid, "limit: want a number of 1 to %d, found %q", buildview.MostEntries, fault.Clip(given))
		}
	}
	return text, limit, nil
}
