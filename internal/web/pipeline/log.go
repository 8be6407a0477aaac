package pipeline

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// logLength is the number of entries on a page.
const logLength = 200

// logPage is the data of a page of a pipeline's log.
type logPage struct {
	Pipeline   string
	Class      string
	Deployment int64
	Target     string
	Entries    page.Entries
	Earlier    string // address of the page with earlier entries; "": none
	Newest     string // address of the page with the newest entries; "": this page
}

// log returns a page of a pipeline's log.
func (p *pages) log(r *http.Request) (page.Content, error) {
	data := logPage{Pipeline: r.PathValue("pipeline"), Class: r.FormValue("class"), Target: r.FormValue("target")}
	q := journal.EntryQuery{Pipeline: data.Pipeline, Limit: logLength, Newest: true}
	q.Class = classOf(data.Class)
	if data.Target != "" {
		q.Target = pipeline.Path(data.Pipeline, data.Target)
	}
	var err error
	if data.Deployment, err = page.Number(r, "deployment"); err != nil {
		return page.Content{}, err
	}
	q.Deployment = data.Deployment
	before, err := page.Number(r, "before")
	if err != nil {
		return page.Content{}, err
	}
	var entries []pipeline.Entry
	if before > 0 {
		data.Newest = page.WithQuery(r, "before", "")
		entries, err = p.entriesBefore(r.Context(), &q, before)
	} else {
		entries, err = p.service.Entries(r.Context(), q)
	}
	data.Entries = page.EntriesOf(entries, false, page.Detail)
	if first := earliest(entries, q.After); first > 1 {
		data.Earlier = page.WithQuery(r, "before", strconv.FormatInt(first, 10))
	}
	return page.Content{Title: "Log of " + data.Pipeline, Nav: "pipelines", Data: data}, err
}

// widestLog bounds the positions of a log that are read for one page. Positions of archived
// deployments have no entries.
const widestLog = 100 * logLength

// entriesBefore returns the last entries before a seq. It sets q.After to the seq after which it
// has read.
func (p *pages) entriesBefore(ctx context.Context, q *journal.EntryQuery, before int64) ([]pipeline.Entry, error) {
	q.Newest = false
	for window := int64(logLength); ; window *= 10 {
		q.After, q.Limit = max(0, before-window-1), int(window)
		entries, err := p.service.Entries(ctx, *q)
		if err != nil {
			return nil, err
		}
		entries = slices.DeleteFunc(entries, func(e pipeline.Entry) bool { return e.Seq >= before })
		if len(entries) >= logLength || q.After == 0 || window >= widestLog {
			return entries[max(0, len(entries)-logLength):], nil
		}
	}
}

// earliest returns the seq at which the page with earlier entries ends; 0 without such a page.
func earliest(entries []pipeline.Entry, after int64) int64 {
	if len(entries) < logLength && after > 0 {
		return after + 1
	}
	if len(entries) < logLength {
		return 0
	}
	return entries[0].Seq
}

func classOf(name string) pipeline.Class {
	for _, class := range []pipeline.Class{pipeline.Fact, pipeline.Note, pipeline.Change} {
		if class.String() == name {
			return class
		}
	}
	return 0
}
