package cloudevent_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/cloudevent"
	"github.com/waybill-dev/waybill/internal/fault"
)

// FuzzRead reads requests of any kind. An accepted event is written in structured mode by a writer of its own, from
// its JSON value, and must be read back as the same.
func FuzzRead(f *testing.F) {
	for _, media := range []string{"", "application/json", "text/plain; charset=utf-8", "image/png"} {
		f.Add(media, required+"ce-time: 2026-01-01T00:00:00Z\nce-x: \"a%20\\b\"", []byte(`{"a": [1.0, null]}`))
	}
	for _, more := range []string{"", `, "x": -5, "y": true, "data": {"a": 1e400}`,
		`, "data_base64": "AP8=", "datacontenttype": "image/png"`,
		`, "data": "\u2028<", "datacontenttype": "text/plain"`, `, "data": null, "subject": null`,
		`, "datacontenttype": "a/b", "data": "x"`} {
		f.Add(structured, "", []byte(event(more)))
		f.Add(batched, "", []byte("["+event(more)+","+event("")+"]"))
	}
	f.Add(batched, "", []byte("[]"))
	f.Fuzz(func(t *testing.T, media, lines string, body []byte) {
		h := headers(lines)
		if media != "" {
			h.Set("Content-Type", media)
		}
		events, batch, err := cloudevent.Read(h, body)
		if err != nil {
			code := fault.CodeOf(err)
			if events != nil || code != fault.Invalid && code != fault.BadMediaType && code != fault.TooLarge {
				t.Errorf("%d events, %s: %v", len(events), code, err)
			}
			return
		}
		if !batch && len(events) != 1 {
			t.Errorf("%d events without a batch", len(events))
		}
		for _, e := range events {
			checkAttributes(t, e)
			checkReadBack(t, e)
		}
	})
}

// checkAttributes compares the attributes with the event in JSON.
func checkAttributes(t *testing.T, e cloudevent.Event) {
	for name, value := range e.JSON() {
		var want string
		switch v := value.(type) {
		case string:
			want = v
		case bool:
			want = strconv.FormatBool(v)
		case json.Number:
			want = v.String()
		}
		if got, ok := e.Attribute(name); name != "data" && (!ok || got != want) {
			t.Errorf("attribute %s is %q, %v; JSON has %#v", name, got, ok, value)
		}
	}
	for _, name := range []string{"specversion", "id", "source", "type"} {
		if text, ok := e.Attribute(name); !ok || text == "" {
			t.Errorf("%s is absent", name)
		}
	}
}

// checkReadBack writes an event in structured mode and reads that.
func checkReadBack(t *testing.T, e cloudevent.Event) {
	written, kind := e.JSON(), ""
	if named, ok := written["datacontenttype"].(string); ok {
		kind, _, _ = strings.Cut(strings.ToLower(named), ";")
		kind = strings.TrimSpace(kind)
	}
	data, hasData := written["data"]
	_, isText := data.(string)
	switch {
	case !hasData, strings.HasSuffix(kind, "/json"), strings.HasSuffix(kind, "+json"), strings.HasPrefix(kind, "text/"):
	case kind == "" && !isText: // structured mode, where it is JSON
	case kind == "": // either mode: structured mode needs a type for bytes, and shows JSON texts and base64 alike
		written["datacontenttype"] = "application/json"
	default:
		delete(written, "data")
		written["data_base64"] = data
	}
	text, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	read, batch, err := cloudevent.Read(http.Header{"Content-Type": {structured}}, text)
	if err != nil || batch || len(read) != 1 {
		t.Fatalf("%s: %d events, %v", text, len(read), err)
	}
	got := read[0].JSON()
	if kind == "" {
		delete(got, "datacontenttype")
	}
	if diff := cmp.Diff(e.JSON(), got); diff != "" {
		t.Errorf("%s (-first +read back):\n%s", text, diff)
	}
}
