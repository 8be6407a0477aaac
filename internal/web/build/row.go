package build

import (
	"context"
	"html/template"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// logRow is one entry on a page.
type logRow struct {
	Step    int
	ID      int64
	At      time.Time
	Stream  string // e: standard error, w: Waybill; "": standard output
	Partial bool
	Text    template.HTML
	Cut     int // number of bytes left out
}

// rowRange selects entries of a step's log.
type rowRange struct {
	Step  int
	After int64 // id of the entry before the first; 0: from the beginning
	Limit int
}

// readRows reads entries of a step as rows.
func readRows(ctx context.Context, reader buildview.Reader, from rowRange) ([]logRow, error) {
	rows := []logRow{}
	q := buildview.LogQuery{Steps: []int{from.Step}, From: from.Step, After: from.After, Limit: from.Limit}
	err := buildview.EachEntry(ctx, reader, q, func(e build.Line) error {
		row := logRow{Step: from.Step, ID: e.ID, At: e.At, Partial: e.Partial}
		line, cut := logLine(e.Text)
		row.Text, row.Cut = template.HTML(line), cut // logLine has escaped the text
		switch {
		case e.Waybill:
			row.Stream = "w"
		case e.Stderr:
			row.Stream = "e"
		}
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// buildRows serves rows of a step's log to the script of a build's page.
func (p *pages) buildRows(w http.ResponseWriter, r *http.Request) {
	rows, err := p.rowsFor(r)
	if err != nil {
		server.WriteProblem(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	part, err := page.Render(p.rows, map[string]any{"rows": rows})
	if err != nil {
		server.WriteProblem(w, r, err)
		return
	}
	_, _ = w.Write([]byte(part)) // a browser that has gone needs no page
}

func (p *pages) rowsFor(r *http.Request) ([]logRow, error) {
	after, err := page.Number(r, "after")
	if err != nil {
		return nil, err
	}
	limit, err := page.Number(r, "limit")
	if err != nil {
		return nil, err
	}
	if limit == 0 || limit > mostRows {
		return nil, fault.New(fault.Invalid, "limit: want a number of 1 to %d", mostRows)
	}
	reader, state, err := p.service.BuildState(r.Context(), r.PathValue("build"))
	if err != nil {
		return nil, err
	}
	step, err := buildview.FindStep(state.Plan, r.FormValue("step"))
	if err != nil {
		return nil, err
	}
	return readRows(r.Context(), reader, rowRange{step.ID, after, int(limit)})
}

// Clock returns the time of a row within its day.
func (row logRow) Clock() string {
	if row.At.IsZero() {
		return ""
	}
	return row.At.UTC().Format("15:04:05.000")
}

// Millis returns the time of a row in milliseconds since 1970.
func (row logRow) Millis() int64 { return row.At.UnixMilli() }

// visible returns foreign text without control sequences.
func visible(text string) string { return build.Printable(text, nil) }
