package build

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// stepLog is the log of a step on a page.
type stepLog struct {
	buildview.StepView
	Lines   int64 // entries so far
	Open    bool
	Rows    []logRow
	First   string // addresses of other pages of the log; "": none, or this page
	Earlier string
	Later   string
	Last    string
}

// Path names the step for people.
func (l stepLog) Path() string {
	if l.ID == 0 {
		return "build"
	}
	return l.StepView.Path()
}

// Over reports whether the log is complete.
func (l stepLog) Over() bool { return l.Status.Ended() }

// fill reads the length of a log, unless it is known, and the rows of an open log.
func (l *stepLog) fill(r *http.Request, reader buildview.Reader, known bool) error {
	l.Lines = l.LogEntries
	begun := l.Status != build.Pending && l.Status != build.Skipped
	if l.Lines == 0 && begun && !known {
		end, err := reader.Locate(r.Context(), l.ID, buildview.LogPlace{After: math.MaxInt64})
		if err != nil {
			return err
		}
		l.Lines = end.ID
	}
	if !l.Open {
		return nil
	}
	after := max(0, l.Lines-rowsShown)
	if r.FormValue("after") != "" && r.FormValue("step") != "" {
		n, err := page.Number(r, "after")
		if err != nil {
			return err
		}
		after = min(n, l.Lines)
	}
	var err error
	if l.Rows, err = readRows(r.Context(), reader, rowRange{l.ID, after, rowsShown}); err != nil {
		return err
	}
	l.addLinks(r, after)
	return nil
}

// addLinks adds the addresses of the pages of the log before and after this one.
func (l *stepLog) addLinks(r *http.Request, after int64) {
	address := func(after int64) string {
		query := url.Values{"step": {strconv.Itoa(l.ID)}, "after": {strconv.FormatInt(max(after, 0), 10)}}
		if style := r.FormValue("time"); style != "" {
			query.Set("time", style)
		}
		return r.URL.Path + "?" + query.Encode() + "#log-" + strconv.Itoa(l.ID)
	}
	if after > 0 {
		l.First, l.Earlier = address(0), address(after-rowsShown)
	}
	if after+rowsShown < l.Lines {
		l.Later, l.Last = address(after+rowsShown), address(l.Lines-rowsShown)
	}
}

// TimeOf returns the time of a row in the format for readers without script: clock, since the start
// of the step, or none.
func (l stepLog) TimeOf(style string, row logRow) string {
	switch {
	case style == "clock":
		return row.Clock()
	case style == "since" && !row.At.IsZero() && !l.StartedOn.IsZero():
		return fmt.Sprintf("%.2fs", row.At.Sub(l.StartedOn).Seconds())
	}
	return ""
}

func countLines(n int64) string { return page.Plural(int(n), "line", "lines") }
