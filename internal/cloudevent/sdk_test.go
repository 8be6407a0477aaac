package cloudevent_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	sdk "github.com/cloudevents/sdk-go/v2/event"
	sdkhttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/cloudevent"
)

// readBySDK reads a request with the CloudEvents SDK, which shares no code with this package.
func readBySDK(t *testing.T, h http.Header, body []byte) (events []sdk.Event, err error) {
	t.Helper()
	r := &http.Request{Header: h.Clone()}
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	message := sdkhttp.NewMessageFromHttpRequest(r)
	if message.ReadEncoding() == binding.EncodingBatch {
		events, err = binding.ToEvents(t.Context(), message, message.BodyReader)
	} else {
		var e *sdk.Event
		if e, err = binding.ToEvent(t.Context(), message); err == nil {
			events = []sdk.Event{*e}
		}
	}
	for _, e := range events {
		if err == nil {
			err = e.Validate()
		}
	}
	return events, err
}

// shown returns an event of the SDK as Event.JSON would. Data without a type is JSON unless the mode is binary.
func shown(t *testing.T, e sdk.Event, binary bool) map[string]any {
	t.Helper()
	all := map[string]any{"specversion": e.SpecVersion(), "id": e.ID(), "source": e.Source(), "type": e.Type()}
	for name, text := range map[string]string{"subject": e.Subject(), "datacontenttype": e.DataContentType(), "dataschema": e.DataSchema()} {
		if text != "" {
			all[name] = text
		}
	}
	if !e.Time().IsZero() {
		all["time"] = e.Time().UTC().Format(time.RFC3339Nano)
	}
	for name, value := range e.Extensions() {
		all[name] = value
		if number, ok := value.(int32); ok {
			text, err := types.Format(number)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = json.Number(text)
		}
	}
	media := e.DataMediaType()
	switch isJSON := strings.HasSuffix(media, "json") || media == "" && !binary; {
	case len(e.Data()) == 0 && !(isJSON && e.Data() != nil):
	case isJSON:
		all["data"] = decode(t, string(e.Data()))
	case strings.HasPrefix(media, "text/"):
		all["data"] = string(e.Data())
	default:
		all["data"] = base64.StdEncoding.EncodeToString(e.Data())
	}
	return all
}

// inUTC returns JSON of an event of this package with the time as the SDK shows it.
func inUTC(t *testing.T, e cloudevent.Event) map[string]any {
	t.Helper()
	all := e.JSON()
	if text, ok := all["time"].(string); ok {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		all["time"] = at.UTC().Format(time.RFC3339Nano)
	}
	return all
}

// Outcomes of reading a request with both.
const (
	alike     = "both read the same"
	refused   = "both refuse"
	different = "both read, and differ"
	strict    = "only the SDK reads"
	lenient   = "only we read"
)

// compared reads a request with both.
func compared(t *testing.T, r request) (outcome, detail string) {
	t.Helper()
	h := headers(r.headers)
	ours, _, err := cloudevent.Read(h, []byte(r.body))
	theirs, other := readBySDK(t, h, []byte(r.body))
	switch {
	case err != nil && other != nil:
		return refused, ""
	case err != nil:
		return strict, err.Error()
	case other != nil:
		return lenient, other.Error()
	case len(ours) != len(theirs):
		return different, fmt.Sprintf("%d events, the SDK reads %d", len(ours), len(theirs))
	}
	isBinary := !strings.HasPrefix(h.Get("Content-Type"), "application/cloudevents")
	for i := range ours {
		if diff := cmp.Diff(shown(t, theirs[i], isBinary), inUTC(t, ours[i])); diff != "" {
			return different, fmt.Sprintf("event %d, the SDK's is -:\n%s", i, diff)
		}
	}
	return alike, ""
}

// inBinary and inJSON return requests of the smallest event with something more.
func inBinary(more, body string) request { return request{required + more, body} }

func inJSON(more string) request { return request{"content-type: " + structured, event(more)} }

// instead returns a request with a part of it replaced.
func instead(r request, old, now string) request {
	return request{strings.Replace(r.headers, old, now, 1), strings.Replace(r.body, old, now, 1)}
}

func batch(events ...string) request {
	return request{"content-type: " + batched, "[" + strings.Join(events, ",") + "]"}
}

func TestTheSDKReadsTheSame(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]request{
		"binary": inBinary("", ""), "structured": inJSON(""), "batch": batch(event(""), event(`, "x": 1`)), "empty batch": batch(),
		"binary, JSON":            inBinary("content-type: application/json", `{"a": [1, null, 1.10, 12345678901234567890]}`),
		"binary, null":            inBinary("content-type: application/json", `null`),
		"binary, text":            inBinary("content-type: text/plain", `grün`),
		"binary, bytes":           inBinary("content-type: application/xml", `<a/>`),
		"binary, without a type":  inBinary("", `{"a": 1}`),
		"binary, every attribute": inBinary("ce-subject: eu/7\nce-time: 2026-02-03T04:05:06.7+02:00\nce-dataschema: https://example.org/o?v=1\nce-size: 5", ""),
		"types of extensions":     inJSON(`, "a": true, "b": false, "c": -2147483648, "d": 2147483647, "e": "", "f": null`),
		"null is absent":          inJSON(`, "subject": null`),
		"null is data":            inJSON(`, "data": null`),
		"numbers":                 inJSON(`, "data": {"a": 1e2, "b": 1.10}`),
		"a string":                inJSON(`, "data": "x"`),
		"text":                    inJSON(`, "datacontenttype": "text/plain", "data": "gr\u00fcn"`),
		"text, type last":         inJSON(`, "data": "gr\u00fcn", "datacontenttype": "text/plain"`),
		"bytes":                   inJSON(`, "datacontenttype": "application/xml", "data_base64": "PGEvPg=="`),
		"not as JSON":             inJSON(`, "datacontenttype": "application/xml", "data": "<a/>"`),
		"source":                  instead(inJSON(""), "/shop", "/a%20b?x#y"),
		"URN":                     instead(inJSON(""), "/shop", "urn:a:b"),
		"charset":                 instead(inJSON(""), "+json", "+json; charset=UTF-8"),
		"headers do not count":    instead(inJSON(""), "+json", "+json\nce-id: 2"),
	} {
		if outcome, detail := compared(t, r); outcome != alike {
			t.Errorf("%s: %s: %s", name, outcome, detail)
		}
	}
}

func TestTheSDKRefusesTheSame(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]request{
		"nothing": {}, "no id": instead(inBinary("", ""), "ce-id: 1\n", ""), "no type": instead(inJSON(""), `, "type": "made"`, ""),
		"a time in words": inBinary("ce-time: yesterday", ""), "30 February": inJSON(`, "time": "2026-02-30T04:05:06Z"`),
		"a relative schema": inBinary("ce-dataschema: a/b", ""), "a name with _": inBinary("ce-my_x: a", ""),
		"a name with -": inJSON(`, "my-ext": "a"`), "a large number": inJSON(`, "e": 2147483648`),
		"a list": inJSON(`, "e": [1]`), "an object": inJSON(`, "e": {}`), "an id that is a number": instead(inJSON(""), `"1"`, `1`),
		"a port in letters": instead(inJSON(""), "/shop", "//h:x"), "not base64": inJSON(`, "data_base64": "PGEvPg="`),
		"a list for an event": instead(inJSON(""), event(""), "[]"), "an event for a batch": {"content-type: " + batched, event("")},
		"another format": instead(inJSON(""), "+json", "+xml"),
	} {
		if outcome, detail := compared(t, r); outcome != refused {
			t.Errorf("%s: %s: %s", name, outcome, detail)
		}
	}
}

// TestDifferencesFromTheSDK names every known difference, with the rule that decides it.
func TestDifferencesFromTheSDK(t *testing.T) {
	t.Parallel()
	const (
		percent     = "the HTTP binding: receivers decode percent-encoded headers once"
		characters  = "strings have no control characters, noncharacters or lone surrogates"
		reference   = "source is a URI reference of RFC 3986, in which blanks and braces are encoded"
		once        = "a JSON key may occur once: which of two values counts would depend on the reader"
		timestamps  = "a time is one of RFC 3339, which knows t, z and the leap second, and has a point before a fraction"
		integers    = "a number is an integer of 32 bits, written without a fraction"
		versions    = "1.0 is the only version"
		data        = "data is of its type: JSON is valid, text is UTF-8"
		bounded     = "attributes, data and batches are bounded"
		headerNames = "in binary mode a header is there once, and data is the body"
	)
	for name, c := range map[string]struct {
		request
		want, rule string
	}{
		"percent-encoded":       {inBinary("ce-subject: Euro%20%E2%82%AC", ""), different, percent},
		"quoted":                {inBinary(`ce-subject: "a b"`, ""), different, "the HTTP binding: receivers unquote a header in double quotes"},
		"a scheme in capitals":  {instead(inJSON(""), "/shop", "HTTP://example.org"), different, "source is compared byte by byte, so it stays as it was sent"},
		"a header twice":        {inBinary("ce-subject: a\nce-subject: b", ""), strict, headerNames},
		"a header data":         {inBinary("ce-data: a", ""), strict, headerNames},
		"JSON that is broken":   {inBinary("content-type: application/json", "{"), strict, data},
		"text in Latin 1":       {inBinary("content-type: text/plain; charset=iso-8859-1", "a"), strict, data},
		"text that is broken":   {inBinary("content-type: text/plain", "\xff"), strict, data},
		"an event in Latin 1":   {instead(inJSON(""), "+json", "+json; charset=latin1"), strict, "events in JSON are in UTF-8"},
		"type without subtype":  {inJSON(`, "datacontenttype": "json"`), strict, "datacontenttype is a media type of RFC 2046"},
		"version 0.3":           {instead(inJSON(""), "1.0", "0.3"), strict, versions},
		"version 0.3 in binary": {instead(inBinary("", ""), "1.0", "0.3"), strict, versions},
		"a name in capitals":    {inJSON(`, "myExt": "a"`), strict, "names have lower-case letters and digits alone"},
		"a blank":               {instead(inJSON(""), "/shop", "a b"), strict, reference},
		"braces":                {instead(inJSON(""), "/shop", "/{a}"), strict, reference},
		"fragment":              {inJSON(`, "dataschema": "https://a/b#c"`), strict, "dataschema is an absolute URI, which has no fragment"},
		"an empty subject":      {inJSON(`, "subject": ""`), strict, "subject is absent or not empty"},
		"a control character":   {inJSON(`, "subject": "a\u0001"`), strict, characters},
		"a noncharacter":        {inJSON(`, "subject": "a\uffff"`), strict, characters},
		"a surrogate":           {inJSON(`, "subject": "\ud800"`), strict, characters},
		"not UTF-8":             {inJSON(", \"subject\": \"\xff\""), strict, characters},
		"an attribute twice":    {inJSON(`, "id": "2"`), strict, once},
		"an extension twice":    {inJSON(`, "a": "1", "a": "2"`), strict, once},
		"a key of data twice":   {inJSON(`, "data": {"a": 1, "a": 2}`), strict, once},
		"a fraction":            {inJSON(`, "e": 1.5`), strict, integers},
		"a fraction of zero":    {inJSON(`, "e": 1.0`), strict, integers},
		"a comma in a time":     {inJSON(`, "time": "2026-02-03T04:05:06,5Z"`), strict, timestamps},
		"a time in small":       {inJSON(`, "time": "2026-02-03t04:05:06z"`), lenient, timestamps},
		"a type of a blank":     {instead(inJSON(""), "made", " "), lenient, "a blank is a character, so the type is not empty"},
		"a leap second":         {inJSON(`, "time": "1990-12-31T23:59:60Z"`), lenient, timestamps},
		"base64 without a type": {inJSON(`, "data_base64": "eyJhIjogMX0="`), lenient, "members are in any order, and without a type data is JSON"},
		"a long attribute":      {inBinary("ce-subject: "+strings.Repeat("a", cloudevent.MaxAttribute+1), ""), strict, bounded},
		"a large batch":         {batch(slices.Repeat([]string{event("")}, cloudevent.MaxBatch+1)...), strict, bounded},
		"deep data": {inJSON(`, "data": ` + strings.Repeat("[", cloudevent.MaxDepth+1) + strings.Repeat("]", cloudevent.MaxDepth+1)),
			strict, bounded},
	} {
		if outcome, detail := compared(t, c.request); outcome != c.want {
			t.Errorf("%s: %s, want: %s, since %s: %s", name, outcome, c.want, c.rule, detail)
		}
	}
}
