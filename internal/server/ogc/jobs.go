package ogc

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
)

// jobs lists jobs, newest first, one page at a time. after= is the last job of the previous page,
// before= the first job of the next one.
func (a *API) jobs(r *http.Request) (reply, error) {
	q, err := jobQuery(r)
	if err != nil {
		return reply{}, err
	}
	limit := q.Limit
	q.Limit++ // one more job means that there is one more page
	found, err := a.service.Jobs(r.Context(), q)
	if err != nil {
		return reply{}, err
	}
	more := len(found) > limit
	found = found[:min(limit, len(found))]
	if q.Oldest {
		slices.Reverse(found)
	}
	list := JobList{Jobs: []StatusInfo{}, Links: selfLinks(r)}
	for _, state := range found {
		list.Jobs = append(list.Jobs, statusInfo(r, state))
	}
	list.Links = append(list.Links, pageLinks(r, found, more, q)...)
	return reply{name: "jobs", doc: list}, nil
}

// pageLinks returns links to the next and the previous page. The page from which the client came
// always exists.
func pageLinks(r *http.Request, found []queue.ActionState, more bool, q queue.ActionQuery) []Link {
	if len(found) == 0 {
		return nil
	}
	var links []Link
	link := func(rel, key string, id action.ID, title string) {
		query := r.URL.Query()
		query.Del("after")
		query.Del("before")
		query.Set(key, id.String())
		links = append(links, Link{Href: absoluteURL(r, "/jobs", query), Rel: rel, Type: typeJSON, Title: title})
	}
	if more && !q.Oldest || q.Oldest {
		link("next", "after", found[len(found)-1].ID, "older jobs")
	}
	if more && q.Oldest || !q.Oldest && !q.After.IsZero() {
		link("prev", "before", found[0].ID, "newer jobs")
	}
	return links
}

// jobQuery returns the query of the ledger for a request's filters.
func jobQuery(r *http.Request) (queue.ActionQuery, error) {
	limit, err := limitOf(r)
	if err != nil {
		return queue.ActionQuery{}, err
	}
	q := queue.ActionQuery{Limit: limit, Names: listedValues(r, "processID")}
	if len(q.Names) > queue.MaxNames {
		return q, fault.New(fault.Invalid, "processID: want at most %d processes, found %d", queue.MaxNames, len(q.Names))
	}
	for _, kind := range listedValues(r, "type") {
		if kind != "process" {
			return q, fault.New(fault.Invalid, "type=%s: every job is of the type process", kind)
		}
	}
	for _, read := range []func(url.Values, *queue.ActionQuery) error{readPhases(r), readStatuses(r), readDates, readDurations, readPage} {
		if err := read(r.URL.Query(), &q); err != nil {
			return q, err
		}
	}
	return q, nil
}

// readPhases reads status.
func readPhases(r *http.Request) func(url.Values, *queue.ActionQuery) error {
	return func(_ url.Values, q *queue.ActionQuery) error {
		for _, text := range listedValues(r, "status") {
			phase := queue.Phase(text)
			if !slices.Contains(queue.Phases(), phase) {
				return fault.New(fault.Invalid, "status=%s: want accepted, running, successful, failed or dismissed", text)
			}
			q.Phases = append(q.Phases, phase)
		}
		return nil
	}
}

// readStatuses reads waybillStatus.
func readStatuses(r *http.Request) func(url.Values, *queue.ActionQuery) error {
	return func(_ url.Values, q *queue.ActionQuery) error {
		for _, text := range listedValues(r, "waybillStatus") {
			status, err := action.ParseStatus(text)
			if err != nil {
				return fault.New(fault.Invalid, "waybillStatus=%s: %w", text, err)
			}
			q.Statuses = append(q.Statuses, status)
		}
		return nil
	}
}

// readDates reads datetime: an instant or an interval, where two dots are an open end (RFC 3339).
func readDates(query url.Values, q *queue.ActionQuery) error {
	text := query.Get("datetime")
	if text == "" {
		return nil
	}
	wrong := fault.New(fault.Invalid,
		"datetime=%s: want a time such as 2026-11-21T00:00:00Z, or an interval such as 2026-11-01T00:00:00Z/..", text)
	from, to, isInterval := strings.Cut(text, "/")
	if !isInterval {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return wrong
		}
		q.Since, q.Until = at, at.Add(time.Millisecond) // created has milliseconds
		return nil
	}
	var err error
	if from != ".." && from != "" {
		if q.Since, err = time.Parse(time.RFC3339, from); err != nil {
			return wrong
		}
	}
	if to != ".." && to != "" {
		if q.Until, err = time.Parse(time.RFC3339, to); err != nil {
			return wrong
		}
		q.Until = q.Until.Add(time.Millisecond) // the interval includes its end
	}
	if q.Since.IsZero() && q.Until.IsZero() || !q.Until.IsZero() && q.Until.Before(q.Since) {
		return wrong
	}
	return nil
}

// readDurations reads minDuration and maxDuration in seconds. Without a status they only select
// running and ended jobs.
func readDurations(query url.Values, q *queue.ActionQuery) error {
	for name, into := range map[string]*time.Duration{"minDuration": &q.Shortest, "maxDuration": &q.Longest} {
		text := query.Get(name)
		if !query.Has(name) {
			continue
		}
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil || seconds < 0 || len(query[name]) > 1 {
			return fault.New(fault.Invalid, "%s=%s: want a whole number of seconds", name, strings.Join(query[name], ","))
		}
		*into = max(time.Duration(seconds)*time.Second, time.Nanosecond) // zero would mean unbounded
	}
	if (q.Shortest > 0 || q.Longest > 0) && len(q.Phases) == 0 {
		q.Phases = []queue.Phase{queue.Running, queue.Successful, queue.Failed, queue.Dismissed}
	}
	return nil
}

// readPage reads after and before.
func readPage(query url.Values, q *queue.ActionQuery) error {
	if query.Has("after") && query.Has("before") {
		return fault.New(fault.Invalid, "after and before name different pages: want one")
	}
	for _, name := range []string{"after", "before"} {
		if !query.Has(name) {
			continue
		}
		id, err := action.ParseID(query.Get(name))
		if err != nil {
			return fault.New(fault.Invalid, "%s=%s: want a job's id", name, query.Get(name))
		}
		q.After, q.Oldest = id, name == "before"
	}
	return nil
}
