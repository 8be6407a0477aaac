package page_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/web/page"
)

func TestFieldsAreNumbersAndDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"": 0, "0": 0, "12": 12, "9223372036854775807": 1<<63 - 1, "-1": -1, "x": -1,
		"1.5": -1, "9223372036854775808": -1} {
		got, err := page.Number(httptest.NewRequest(http.MethodGet, "/?n="+url.QueryEscape(text), nil), "n")
		if bad := want < 0; bad != fault.Is(err, fault.Invalid) || !bad && got != want {
			t.Errorf("the number %q is %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]time.Duration{" 30m ": 30 * time.Minute, "7d": 7 * 24 * time.Hour, "": 0, "0s": 0,
		"-1h": 0, "soon": 0} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(url.Values{"for": {text}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		got, err := page.Duration(r, "for")
		if got != want || (want == 0) != fault.Is(err, fault.Invalid) {
			t.Errorf("the duration %q is %s, %v", text, got, err)
		}
	}
}

func TestAnAddressKeepsItsOtherParameters(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/log?before=7&class=fact", nil)
	for value, want := range map[string]string{"9": "/log?before=9&class=fact", "": "/log?class=fact"} {
		if got := page.WithQuery(r, "before", value); got != want {
			t.Errorf("before %q: %s, want %s", value, got, want)
		}
	}
	if got := page.WithQuery(httptest.NewRequest(http.MethodGet, "/log?before=7", nil), "before", ""); got != "/log" {
		t.Errorf("without parameters: %s", got)
	}
}

func TestEntriesAreShownNewestFirst(t *testing.T) {
	t.Parallel()
	log := []pipeline.Entry{
		{Seq: 1, Detail: json.RawMessage(
			`{"event": "host-deployed", "status": "FAILED", "error": "no", "by": "ana", "size": 2048, "digest": "9b1e07d2aaaa"}`)},
		{Seq: 2},
		{Seq: 3, Detail: json.RawMessage(`no object`)},
	}
	table := page.EntriesOf(log, true, page.Detail)
	var got []string
	for _, row := range table.Rows {
		got = append(got, row.Text)
	}
	want := []string{"no object", "", "host-deployed · failed · no · 2.0 kB · sha256:9b1e07d2 · by ana"}
	if diff := cmp.Diff(want, got); diff != "" || !table.Single || table.Rows[2].Seq != 1 {
		t.Error(diff)
	}
}

func TestStatesHaveTones(t *testing.T) {
	t.Parallel()
	for state, want := range map[any]page.Tone{
		"finished": page.Finished, "RUNNING": page.Running, action.TimedOut: page.Failed, pipeline.StatusCanceled: page.Ended,
		"no such state": page.Waiting, "": page.Waiting,
	} {
		if got := page.ToneOf(state); got != want {
			t.Errorf("%v has the tone %s, want %s", state, got, want)
		}
	}
}

func TestARefusalIsShownAndAnyOtherErrorReturned(t *testing.T) {
	t.Parallel()
	for code, shown := range map[fault.Code]bool{fault.Refused: true, fault.NotFound: true, fault.Unavailable: false} {
		var c page.Confirm
		err := c.Refuse(fault.New(code, "not now").WithHint("later"))
		if (err == nil) != shown || (c.Refused != "" && c.Hint == "later") != shown {
			t.Errorf("%s: %v, %+v", code, err, c)
		}
	}
	var c page.Confirm
	if err := c.Refuse(nil); err != nil || c.Refused != "" {
		t.Errorf("no error: %v, %+v", err, c)
	}
	for range page.HostsPerPage + 3 {
		c.AddRow("elm", "nothing")
	}
	if len(c.Rows) != page.HostsPerPage || c.More != 3 {
		t.Errorf("%d rows and %d more", len(c.Rows), c.More)
	}
}
