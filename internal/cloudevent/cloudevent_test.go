package cloudevent_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/cloudevent"
	"github.com/waybill-dev/waybill/internal/fault"
)

const (
	structured = "application/cloudevents+json"
	batched    = "application/cloudevents-batch+json"
)

// required are the headers of the smallest event.
const required = "ce-specversion: 1.0\nce-id: 1\nce-source: /shop\nce-type: made\n"

// headers reads headers, one a line.
func headers(text string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		h.Add(key, value)
	}
	return h
}

// event returns the text of an event in JSON with some more members, each after a comma.
func event(more string) string {
	return `{"specversion": "1.0", "id": "1", "source": "/shop", "type": "made"` + more + `}`
}

// read reads a request of one event in JSON.
func read(body string) (cloudevent.Event, error) {
	events, _, err := cloudevent.Read(http.Header{"Content-Type": {structured}}, []byte(body))
	if err != nil {
		return cloudevent.Event{}, err
	}
	return events[0], nil
}

// decode reads JSON with numbers as json.Number.
func decode(t *testing.T, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

func TestReadShowsEventsOfEveryMode(t *testing.T) {
	for _, c := range []struct {
		name, headers, body string
		want                []string
		batch               bool
	}{
		{name: "binary, smallest", headers: required,
			want: []string{`{"specversion": "1.0", "id": "1", "source": "/shop", "type": "made"}`}},
		{name: "binary, every attribute", headers: required + "CE-Subject: eu/7\nce-time: 2026-02-03T04:05:06.7Z\n" +
			"ce-dataschema: https://example.org/order?v=1\nce-region: eu\nce-size: 5\n" +
			"content-type: application/json; charset=utf-8",
			body: `{"id": 42, "sum": 1.10, "big": 12345678901234567890, "none": null}`,
			want: []string{`{"specversion": "1.0", "id": "1", "source": "/shop", "type": "made", "subject": "eu/7",
				"time": "2026-02-03T04:05:06.7Z", "dataschema": "https://example.org/order?v=1", "region": "eu", "size": "5",
				"datacontenttype": "application/json; charset=utf-8",
				"data": {"id": 42, "sum": 1.10, "big": 12345678901234567890, "none": null}}`}},
		{name: "binary, a type that ends in +json", headers: required + "content-type: image/svg+json", body: ` "x" `,
			want: []string{event(`, "datacontenttype": "image/svg+json", "data": "x"`)}},
		{name: "binary, null", headers: required + "content-type: text/json", body: `null`,
			want: []string{event(`, "datacontenttype": "text/json", "data": null`)}},
		{name: "binary, text", headers: required + "content-type: text/plain; charset=UTF-8", body: "grün\n",
			want: []string{event(`, "datacontenttype": "text/plain; charset=UTF-8", "data": "grün\n"`)}},
		{name: "binary, bytes", headers: required + "content-type: application/xml", body: "<a/>",
			want: []string{event(`, "datacontenttype": "application/xml", "data": "PGEvPg=="`)}},
		{name: "binary, without a type", headers: required, body: `{"a": 1}`,
			want: []string{event(`, "data": "eyJhIjogMX0="`)}},
		{name: "binary, without data", headers: required + "content-type: application/json",
			want: []string{event(`, "datacontenttype": "application/json"`)}},
		{name: "structured, smallest", headers: "content-type: " + structured, body: event(""), want: []string{event("")}},
		{name: "structured, headers do not count",
			headers: "ce-id: 2\nContent-Type: application/CloudEvents+JSON; charset=\"UTF-8\"",
			body:    event(""), want: []string{event("")}},
		{name: "structured, types of extensions", headers: "content-type: " + structured,
			body: event(`, "a": true, "b": false, "c": -2147483648, "d": 2147483647, "e": "", "f": null, "g": -0`),
			want: []string{event(`, "a": true, "b": false, "c": -2147483648, "d": 2147483647, "e": "", "g": 0`)}},
		{name: "structured, null is absent", headers: "content-type: " + structured,
			body: event(`, "subject": null, "time": null, "datacontenttype": null, "data_base64": null, "data": [1.0, 1e2]`),
			want: []string{event(`, "data": [1.0, 1e2]`)}},
		{name: "structured, null is data", headers: "content-type: " + structured, body: event(`, "data": null`),
			want: []string{event(`, "data": null`)}},
		{name: "structured, a string is data", headers: "content-type: " + structured, body: event(`, "data": "{\"a\": 1}"`),
			want: []string{event(`, "data": "{\"a\": 1}"`)}},
		{name: "structured, text", headers: "content-type: " + structured,
			body: event(`, "data": "gr\u00fcn \ud83d\ude00", "datacontenttype": "text/plain"`),
			want: []string{event(`, "data": "grün 😀", "datacontenttype": "text/plain"`)}},
		{name: "structured, text is null", headers: "content-type: " + structured,
			body: event(`, "data": null, "datacontenttype": "text/plain"`),
			want: []string{event(`, "datacontenttype": "text/plain"`)}},
		{name: "structured, XML", headers: "content-type: " + structured,
			body: event(`, "data": "<a/>", "datacontenttype": "application/xml"`),
			want: []string{event(`, "data": "PGEvPg==", "datacontenttype": "application/xml"`)}},
		{name: "structured, bytes", headers: "content-type: " + structured,
			body: event(`, "datacontenttype": "image/png", "data_base64": "AP8="`),
			want: []string{event(`, "datacontenttype": "image/png", "data": "AP8="`)}},
		{name: "structured, bytes that are JSON", headers: "content-type: " + structured,
			body: event(`, "data_base64": "eyJhIjogMX0="`),
			want: []string{event(`, "data": {"a": 1}`)}},
		{name: "structured, bytes that are text", headers: "content-type: " + structured,
			body: event(`, "datacontenttype": "text/csv", "data_base64": "YSxi"`),
			want: []string{event(`, "datacontenttype": "text/csv", "data": "a,b"`)}},
		{name: "structured, no bytes", headers: "content-type: " + structured,
			body: event(`, "datacontenttype": "text/csv", "data_base64": ""`),
			want: []string{event(`, "datacontenttype": "text/csv", "data": ""`)}},
		{name: "batch", headers: "content-type: " + batched + "; charset=us-ascii",
			body:  " [" + event(`, "a": 1`) + ", " + event(`, "data": 2`) + "] ",
			batch: true, want: []string{event(`, "a": 1`), event(`, "data": 2`)}},
		{name: "batch, empty", headers: "content-type: " + batched, body: "[]", batch: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			events, batch, err := cloudevent.Read(headers(c.headers), []byte(c.body))
			if err != nil || batch != c.batch {
				t.Fatalf("batch is %v, error is %v", batch, err)
			}
			var got, want []any
			for _, e := range events {
				got = append(got, e.JSON())
			}
			for _, text := range c.want {
				want = append(want, decode(t, text))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	const inJSON, inBatch = "content-type: " + structured, "content-type: " + batched
	for _, c := range []struct {
		headers, body, want string
		code                fault.Code // "": fault.Invalid
	}{
		{headers: "", want: `attribute "specversion": missing`},
		{headers: "content-type: application/json", body: event(""), want: `attribute "specversion": missing`},
		{headers: "content-type: application/cloudevents+avro", code: fault.BadMediaType,
			want: "the format of the event is not supported: want JSON or binary mode"},
		{headers: required + "content-type: Application/CloudEvents", code: fault.BadMediaType,
			want: "the format of the event is not supported: want JSON or binary mode"},
		{headers: inJSON + "; charset=utf-16", body: event(""), code: fault.BadMediaType,
			want: "the header Content-Type: events in JSON are in UTF-8"},
		{headers: inJSON + "; charset", body: event(""), code: fault.BadMediaType,
			want: "the header Content-Type: not a media type"},
		{headers: inJSON + "\n" + inJSON, body: event(""), want: "the header Content-Type is repeated"},
		{headers: strings.Replace(required, "1.0", "0.3", 1), want: `attribute "specversion": want "1.0"`},
		{headers: strings.Replace(required, "1.0", "1.0.2", 1), want: `attribute "specversion": want "1.0"`},
		{headers: strings.Replace(required, "ce-id", "id", 1), want: `attribute "id": missing`},
		{headers: strings.Replace(required, "ce-source", "source", 1), want: `attribute "source": missing`},
		{headers: strings.Replace(required, "ce-type", "type", 1), want: `attribute "type": missing`},
		{headers: required + "ce-subject: ", want: `attribute "subject": empty`},
		{headers: strings.Replace(required, "/shop", "", 1), want: `attribute "source": empty`},
		{headers: required + "ce-id: 1", want: `attribute "id": the header is repeated`},
		{headers: required + "ce-my-region: eu", want: `attribute "my-region": want a name of at most 64 of a-z and 0-9`},
		{headers: required + "ce-data_base64: eu", want: `attribute "data_base64": want a name of at most 64 of a-z and 0-9`},
		{headers: required + "ce-: eu", want: `attribute "": want a name of at most 64 of a-z and 0-9`},
		{headers: required + "ce-" + strings.Repeat("a", 65) + ": x",
			want: `attribute "` + strings.Repeat("a", 64) + `": want a name of at most 64 of a-z and 0-9`},
		{headers: required + "ce-data: eu", want: `attribute "data": in binary mode the body is the data`},
		{headers: required + "ce-datacontenttype: text/plain",
			want: `attribute "datacontenttype": in binary mode it is the header Content-Type alone`},
		{headers: required + "content-type: text", want: `attribute "datacontenttype": not a media type`},
		{headers: required + "content-type: a/b; c=d; c=e", want: `attribute "datacontenttype": not a media type`},
		{headers: required + "content-type: ", want: `attribute "datacontenttype": empty`},
		{headers: required + "content-type: application/json", body: `{"a": 1`,
			want: "data: not valid JSON: at byte 7"},
		{headers: required + "content-type: application/json", body: `{} {}`,
			want: "data: not valid JSON: more than one value"},
		{headers: required + "content-type: application/json", body: ` `, want: "data: not valid JSON: it is empty"},
		{headers: required + "content-type: application/json", body: `{"a": 1, "\u0061": 2}`,
			want: "data: the key at byte 9 is repeated"},
		{headers: required + "content-type: application/json", body: "\ufeff{}",
			want: "data: not valid JSON: at byte 0"},
		{headers: required + "content-type: application/json", body: "\"\xff\"",
			want: "data: not valid JSON: at byte 1"},
		{headers: required + "content-type: text/plain", body: "gr\xfcn", want: "data: the text is not valid UTF-8"},
		{headers: required + "content-type: text/plain; charset=latin1", body: "gr\xfcn", code: fault.BadMediaType,
			want: "data: the charset of the text is not supported: want UTF-8"},
		{headers: inJSON, want: "not valid JSON: it is empty"},
		{headers: inJSON, body: "[" + event("") + "]", want: "the event is not a JSON object"},
		{headers: inJSON, body: "\ufeff" + event(""),
			want: "not valid JSON: at byte 0"},
		{headers: inJSON, body: event("") + event(""), want: "not valid JSON: more than one value"},
		{headers: inJSON, body: event("") + "x", want: "not valid JSON: at byte 68"},
		{headers: inJSON, body: event(`, "id": "1"`), want: "the key at byte 69 is repeated"},
		{headers: inJSON, body: event(`, "a": 1, "\u0061": 1`), want: "the key at byte 77 is repeated"},
		{headers: inJSON, body: event(`, "data": {"a": 1, "a": 1}`), want: "the key at byte 86 is repeated"},
		{headers: inJSON, body: event(`, "ID": "2"`), want: `attribute "ID": want a name of at most 64 of a-z and 0-9`},
		{headers: inJSON, body: event(`, "Data": 1`), want: `attribute "Data": want a name of at most 64 of a-z and 0-9`},
		{headers: inJSON, body: event(`, "my_region": null`),
			want: `attribute "my_region": want a name of at most 64 of a-z and 0-9`},
		{headers: inJSON, body: event(`, "": 1`), want: `attribute "": want a name of at most 64 of a-z and 0-9`},
		{headers: inJSON, body: strings.Replace(event(""), `"1.0"`, `1.0`, 1),
			want: `attribute "specversion": not an integer of 32 bits`},
		{headers: inJSON, body: strings.Replace(event(""), `"1"`, `1`, 1), want: `attribute "id": not a string`},
		{headers: inJSON, body: strings.Replace(event(""), `"1"`, `null`, 1), want: `attribute "id": missing`},
		{headers: inJSON, body: strings.Replace(event(""), `"1"`, `""`, 1), want: `attribute "id": empty`},
		{headers: inJSON, body: event(`, "subject": true`), want: `attribute "subject": not a string`},
		{headers: inJSON, body: event(`, "a": 2147483648`), want: `attribute "a": not an integer of 32 bits`},
		{headers: inJSON, body: event(`, "a": -2147483649`), want: `attribute "a": not an integer of 32 bits`},
		{headers: inJSON, body: event(`, "a": 1.0`), want: `attribute "a": not an integer of 32 bits`},
		{headers: inJSON, body: event(`, "a": 1e3`), want: `attribute "a": not an integer of 32 bits`},
		{headers: inJSON, body: event(`, "a": {"b": 1}`),
			want: `attribute "a": want a string, a boolean or an integer: it is an object`},
		{headers: inJSON, body: event(`, "a": []`),
			want: `attribute "a": want a string, a boolean or an integer: it is a list`},
		{headers: inJSON, body: event(`, "a": "\u0000"`), want: `attribute "a": it has a control character`},
		{headers: inJSON, body: event(`, "a": "x\ny"`), want: `attribute "a": it has a control character`},
		{headers: inJSON, body: event(`, "a": "\u0085"`), want: `attribute "a": it has a control character`},
		{headers: inJSON, body: event(`, "a": "\ufffe"`),
			want: `attribute "a": it has a code point that Unicode reserves as a noncharacter`},
		{headers: inJSON, body: event(`, "a": "\ufdd0"`),
			want: `attribute "a": it has a code point that Unicode reserves as a noncharacter`},
		{headers: inJSON, body: event(`, "a": "\udbff\udfff"`),
			want: `attribute "a": it has a code point that Unicode reserves as a noncharacter`},
		{headers: inJSON, body: event(`, "data": 1, "data_base64": "MQ=="`),
			want: `the event has both "data" and "data_base64"`},
		{headers: inJSON, body: event(`, "data_base64": "MQ==", "data": null`),
			want: `the event has both "data" and "data_base64"`},
		{headers: inJSON, body: event(`, "data_base64": 1`), want: `data_base64: not a string`},
		{headers: inJSON, body: event(`, "data_base64": "MQ"`), want: `data_base64: not base64`},
		{headers: inJSON, body: event(`, "data_base64": "MR=="`), want: `data_base64: not base64`},
		{headers: inJSON, body: event(`, "data_base64": "MQ=\n="`), want: `data_base64: not base64`},
		{headers: inJSON, body: event(`, "data_base64": "_w=="`), want: `data_base64: not base64`},
		{headers: inJSON, body: event(`, "data_base64": "ew=="`), want: `data: not valid JSON: at byte 1`},
		{headers: inJSON, body: event(`, "data_base64": ""`), want: `data: not valid JSON: it is empty`},
		{headers: inJSON, body: event(`, "data_base64": "/w==", "datacontenttype": "text/plain"`),
			want: `data: the text is not valid UTF-8`},
		{headers: inJSON, body: event(`, "data": {}, "datacontenttype": "application/xml"`),
			want: `data: want a string, as its type is not JSON`},
		{headers: inJSON, body: event(`, "data": 1, "datacontenttype": "text/plain"`),
			want: `data: want a string, as its type is not JSON`},
		{headers: inBatch, want: "not valid JSON: it is empty"},
		{headers: inBatch, body: event(""), want: "the batch is not a JSON list"},
		{headers: inBatch, body: "[" + event("") + ", 1]", want: "event 1: the event is not a JSON object"},
		{headers: inBatch, body: "[" + event("") + ", " + event("") + ", " + event(`, "source": 1`) + "]",
			want: "event 2: the key at byte 210 is repeated"},
		{headers: inBatch, body: "[" + strings.Replace(event(""), "/shop", "a b", 1) + "]",
			want: `event 0: attribute "source": not a URI reference`},
		{headers: inBatch, body: "[" + event(""), want: "event 1: not valid JSON: at byte 69"},
		{headers: inBatch, body: "[" + event("") + "] 1", want: "not valid JSON: more than one value"},
		{headers: inBatch, body: "[" + event(`, "datacontenttype": "text/a; charset=x", "data_base64": ""`) + "]",
			code: fault.BadMediaType,
			want: "event 0: data: the charset of the text is not supported: want UTF-8"},
	} {
		events, _, err := cloudevent.Read(headers(c.headers), []byte(c.body))
		if err == nil {
			t.Errorf("%q with %s is accepted, want: %s", c.headers, c.body, c.want)
			continue
		}
		if c.code == "" {
			c.code = fault.Invalid
		}
		if err.Error() != c.want || fault.CodeOf(err) != c.code || events != nil {
			t.Errorf("%q with %s\n got %d events, %s: %s\nwant %s: %s", c.headers, c.body, len(events), fault.CodeOf(err), err,
				c.code, c.want)
		}
	}
}

func TestAttributeReturnsCanonicalTexts(t *testing.T) {
	e, err := read(event(`, "subject": "a", "x": true, "y": -5, "z": "", "data": 1, "n": null,
		"time": "2026-01-01t00:00:00z", "datacontenttype": "a/json", "dataschema": "urn:x"`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"specversion": "1.0", "id": "1", "source": "/shop", "type": "made",
		"subject": "a", "x": "true", "y": "-5",
		"z": "", "time": "2026-01-01t00:00:00z", "datacontenttype": "a/json", "dataschema": "urn:x"} {
		if got, ok := e.Attribute(name); !ok || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"data", "n", "", "data_base64", "ID"} {
		if got, ok := e.Attribute(name); ok || got != "" {
			t.Errorf("%s is %q, %v; want none", name, got, ok)
		}
	}
	smallest, err := read(event(""))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := smallest.Attribute("subject"); ok {
		t.Errorf("an absent subject is %q", got)
	}
}

func TestJSONMakesNewValues(t *testing.T) {
	e, err := read(event(`, "data": {"a": [1]}`))
	if err != nil {
		t.Fatal(err)
	}
	e.JSON()["data"].(map[string]any)["a"] = 2
	if diff := cmp.Diff(decode(t, event(`, "data": {"a": [1]}`)), any(e.JSON())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadKeepsNothingOfTheBody(t *testing.T) {
	body := []byte(event(`, "data": {"a": "kept"}`))
	events, _, err := cloudevent.Read(http.Header{"Content-Type": {structured}}, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = 'x'
	}
	if got := fmt.Sprint(events[0].JSON()["data"]); got != "map[a:kept]" {
		t.Errorf("the data is %s after the body was overwritten", got)
	}
}
