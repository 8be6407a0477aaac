package ogc

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// cache lists the entries of the payload cache, in the order of keys.
func (a *API) cache(r *http.Request) (reply, error) {
	limit, err := limitOf(r)
	if err != nil {
		return reply{}, err
	}
	query := r.URL.Query()
	q := queue.CacheQuery{Name: query.Get("processID"), Limit: limit + 1}
	if query.Has("after") {
		if q.After, err = action.ParseID(query.Get("after")); err != nil {
			return reply{}, fault.New(fault.Invalid, "after=%s: want a key", query.Get("after"))
		}
	}
	found, err := a.service.CacheEntries(r.Context(), q)
	if err != nil {
		return reply{}, err
	}
	list := CacheList{Entries: []CacheEntry{}, Links: selfLinks(r)}
	for _, e := range found[:min(limit, len(found))] {
		list.Entries = append(list.Entries, cacheEntryOf(r, e))
	}
	if len(found) > limit {
		query.Set("after", found[limit-1].Key.String())
		list.Links = append(list.Links, Link{Href: absoluteURL(r, "/cache", query), Rel: "next", Type: typeJSON, Title: "more entries"})
	}
	return reply{name: "cache", doc: list}, nil
}

// cacheEntryOf returns the document of a cache entry.
func cacheEntryOf(r *http.Request, e queue.CacheEntry) CacheEntry {
	entry := CacheEntry{Key: e.Key.String(), ProcessID: e.Name, Version: strconv.Itoa(e.Version),
		JobID: e.ActionID.String(), Created: e.CreatedAt}
	if !e.InvalidAfter.IsZero() {
		entry.InvalidAfter = &e.InvalidAfter
	}
	entry.Links = addLink(nil, r, pathOf("cache", entry.Key), "self", typeJSON, "the entry")
	entry.Links = addLink(entry.Links, r, pathOf("jobs", entry.JobID), "item", typeJSON, "the job that answers")
	return entry
}

// cacheKeyOf returns the key in the path. Error: fault.NotFound, also for an invalid key.
func cacheKeyOf(r *http.Request) (action.ID, error) {
	key, err := action.ParseID(r.PathValue("key"))
	if err != nil {
		return key, fault.New(fault.NotFound, "the payload cache has no entry %q", r.PathValue("key"))
	}
	return key, nil
}

func (a *API) cacheEntry(r *http.Request) (reply, error) {
	key, err := cacheKeyOf(r)
	if err != nil {
		return reply{}, err
	}
	entry, err := a.service.CacheEntry(r.Context(), key)
	if err != nil {
		return reply{}, err
	}
	return reply{name: "cache-entry", doc: cacheEntryOf(r, entry)}, nil
}

// lookUp answers with the entry for the inputs in the body, which has the form of an execution's.
func (a *API) lookUp(r *http.Request) (reply, error) {
	var asked struct {
		ProcessID string                     `json:"processID"`
		Inputs    map[string]json.RawMessage `json:"inputs"`
	}
	body, err := readBody(r)
	if err != nil {
		return reply{}, err
	}
	release, err := a.acquireLarge(r.Context(), body)
	if err != nil {
		return reply{}, err
	}
	defer release()
	if err := json.Unmarshal(body, &asked); err != nil || asked.ProcessID == "" {
		return reply{}, fault.New(fault.Invalid, `want {"processID": …, "inputs": {…}}`)
	}
	w, err := a.service.Process(r.Context(), asked.ProcessID)
	if err != nil {
		return reply{}, err
	}
	values, _ := store.MeasureJSON(body)
	inputs, err := a.resolveInputs(r.Context(), request{Inputs: asked.Inputs, values: values}, w)
	if err != nil {
		return reply{}, err
	}
	key, err := a.service.CacheKey(r.Context(), w, inputs)
	if err != nil {
		return reply{}, err
	}
	entry, err := a.service.CacheEntry(r.Context(), key)
	if err != nil {
		return reply{}, err
	}
	return reply{doc: cacheEntryOf(r, entry)}, nil
}

// invalidate ends an entry's answers for its payload now or at a given time.
func (a *API) invalidate(r *http.Request) (reply, error) {
	key, err := cacheKeyOf(r)
	if err != nil {
		return reply{}, err
	}
	body, err := readBody(r)
	if err != nil {
		return reply{}, err
	}
	var asked struct {
		At time.Time `json:"at"`
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &asked); err != nil {
			return reply{}, fault.New(fault.Invalid, `want nothing, or {"at": "2026-12-01T00:00:00Z"}`)
		}
	}
	entry, err := a.service.ExpireCache(r.Context(), key, asked.At)
	if err != nil {
		return reply{}, err
	}
	return reply{doc: cacheEntryOf(r, entry)}, nil
}
