package cloudevent_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/cloudevents/sdk-go/v2/binding"
	sdk "github.com/cloudevents/sdk-go/v2/event"
	sdkhttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/cloudevent"
)

// TestReadWhatTheSDKWrites has the SDK write random events in every mode, and wants the values that it was given.
func TestReadWhatTheSDKWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		mode := rapid.SampledFrom([]string{"binary", "structured", "batch"}).Draw(r, "mode")
		count := 1
		if mode == "batch" {
			count = rapid.IntRange(0, 5).Draw(r, "events")
		}
		events := make([]sdk.Event, count)
		for i := range events {
			events[i] = drawEvent(r, mode == "binary")
		}
		h, body := written(t, r, mode, events)
		read, isBatch, err := cloudevent.Read(h, body)
		if err != nil || isBatch != (mode == "batch") || len(read) != count {
			r.Fatalf("%d of %d events, batch %v, %v\n%v\n%s", len(read), count, isBatch, err, h, body)
		}
		for i := range read {
			want := shown(t, events[i], mode == "binary")
			for name, value := range events[i].Extensions() {
				if mode == "binary" {
					want[name] = formatted(r, value)
				}
			}
			if diff := cmp.Diff(want, inUTC(t, read[i])); diff != "" {
				r.Fatalf("event %d was written as -:\n%s\n%v\n%s", i, diff, h, body)
			}
		}
	})
}

// formatted returns the canonical text of an attribute.
func formatted(r *rapid.T, value any) string {
	text, err := types.Format(value)
	if err != nil {
		r.Fatal(err)
	}
	return text
}

// written returns a request with events as the SDK writes it.
func written(t *testing.T, r *rapid.T, mode string, events []sdk.Event) (http.Header, []byte) {
	t.Helper()
	const url = "http://example.org"
	var made *http.Request
	var err error
	switch mode {
	case "batch":
		made, err = sdkhttp.NewHTTPRequestFromEvents(t.Context(), url, events)
	case "structured":
		made, err = sdkhttp.NewHTTPRequestFromEvent(binding.WithForceStructured(t.Context()), url, events[0])
	default:
		made, err = sdkhttp.NewHTTPRequestFromEvent(binding.WithForceBinary(t.Context()), url, events[0])
	}
	if err != nil {
		r.Fatal(err)
	}
	var body []byte
	if made.Body != nil {
		if body, err = io.ReadAll(made.Body); err != nil {
			r.Fatal(err)
		}
	}
	return made.Header, body
}

// drawEvent draws a valid event. The SDK writes headers without percent-encoding, so in binary mode texts need none.
func drawEvent(r *rapid.T, isBinary bool) sdk.Event {
	text := rapid.StringOfN(rapid.Rune().Filter(func(c rune) bool {
		return !unicode.IsControl(c) && c&0xfffe != 0xfffe && (c < 0xfdd0 || c > 0xfdef)
	}), 1, 20, -1).Filter(func(text string) bool { return strings.TrimSpace(text) == text }) // the SDK trims it
	if isBinary {
		text = rapid.StringMatching(`[!#$&-~]([ !#$&-~]{0,18}[!#$&-~])?`)
	}
	e := sdk.New()
	e.SetID(text.Draw(r, "id"))
	e.SetType(text.Draw(r, "type"))
	sources := []string{"/shop", "shop/1", "urn:shop:1", "https://example.org/a?q=1#f", "//example.org:80"}
	if !isBinary {
		sources = append(sources, "/a%20b")
	}
	e.SetSource(rapid.SampledFrom(sources).Draw(r, "source"))
	if rapid.Bool().Draw(r, "has more") {
		e.SetSubject(text.Draw(r, "subject"))
		e.SetTime(time.Unix(rapid.Int64Range(0, 4e9).Draw(r, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(r, "nanoseconds")))
		e.SetDataSchema(rapid.SampledFrom([]string{"https://example.org/schema?v=1", "urn:schema:1"}).Draw(r, "dataschema"))
	}
	for i := range rapid.IntRange(0, 4).Draw(r, "extensions") {
		e.SetExtension(fmt.Sprint("x", i), rapid.OneOf(text.AsAny(), rapid.Bool().AsAny(), rapid.Int32().AsAny()).Draw(r, "extension"))
	}
	drawData(r, &e, text)
	if err := e.Validate(); err != nil {
		r.Fatal(err)
	}
	return e
}

// drawData sets the data of an event. In JSON the SDK writes bytes as base64.
func drawData(r *rapid.T, e *sdk.Event, text *rapid.Generator[string]) {
	var data any
	media := rapid.SampledFrom([]string{"", "application/json", "application/vnd.order+json", "text/plain", "application/octet-stream"}).Draw(r, "media")
	switch {
	case media == "":
		return
	case strings.HasSuffix(media, "json"):
		data = rapid.OneOf(text.AsAny(), rapid.Int32().AsAny(), rapid.Bool().AsAny(), rapid.SliceOf(text).AsAny(),
			rapid.MapOf(text, rapid.Float64()).AsAny()).Draw(r, "data")
		encoded, err := json.Marshal(data)
		if err != nil {
			r.Fatal(err)
		}
		if media != "application/json" { // the SDK has no encoder for it
			data = encoded
		}
	case media == "text/plain":
		data = text.Draw(r, "data")
	default:
		data = rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(r, "data")
	}
	if err := e.SetData(media, data); err != nil {
		r.Fatal(err)
	}
}
