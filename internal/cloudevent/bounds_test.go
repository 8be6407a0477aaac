package cloudevent_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cloudevent"
	"github.com/waybill-dev/waybill/internal/fault"
)

// request is a request with one or more events.
type request struct{ headers, body string }

// inModes returns requests with this JSON as the data of an event, in every mode.
func inModes(data string) map[string]request {
	encoded := base64.StdEncoding.EncodeToString([]byte(data))
	return map[string]request{
		"binary":             {required + "content-type: application/json", data},
		"structured":         {"content-type: " + structured, event(`, "data": ` + data)},
		"structured, base64": {"content-type: " + structured, event(`, "data_base64": "` + encoded + `"`)},
		"batch":              {"content-type: " + batched, "[" + event(`, "data": `+data) + "]"},
	}
}

func TestDataHasTheSameDepthInEveryMode(t *testing.T) {
	nested := func(levels int) string {
		return strings.Repeat(`[{"]\"[":`, levels/2) + "1" + strings.Repeat("}]", levels/2)
	}
	for mode, r := range inModes(nested(cloudevent.MaxDepth)) {
		if _, _, err := cloudevent.Read(headers(r.headers), []byte(r.body)); err != nil {
			t.Errorf("%s: data of %d levels: %v", mode, cloudevent.MaxDepth, err)
		}
	}
	for mode, r := range inModes("[" + nested(cloudevent.MaxDepth) + ", 1]") {
		want := "data: more than 100 levels deep"
		if mode == "batch" {
			want = "event 0: " + want
		}
		_, _, err := cloudevent.Read(headers(r.headers), []byte(r.body))
		if err == nil || err.Error() != want || fault.CodeOf(err) != fault.Invalid {
			t.Errorf("%s: data of %d levels: got %v, want %s", mode, cloudevent.MaxDepth+1, err, want)
		}
	}
	for mode, r := range inModes(strings.Repeat("[", 1<<20)) {
		if _, _, err := cloudevent.Read(headers(r.headers), []byte(r.body)); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("%s: a million brackets: got %v", mode, err)
		}
	}
}

func TestListsBesideEachOtherAreNotDeep(t *testing.T) {
	for mode, r := range inModes("[" + strings.Repeat("[], {}, ", 1000) + "1]") {
		if _, _, err := cloudevent.Read(headers(r.headers), []byte(r.body)); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestBatchesAreBounded(t *testing.T) {
	batch := func(events int) []byte {
		return []byte("[" + strings.TrimSuffix(strings.Repeat(event("")+",", events), ",") + "]")
	}
	h := http.Header{"Content-Type": {batched}}
	events, _, err := cloudevent.Read(h, batch(cloudevent.MaxBatch))
	if err != nil || len(events) != cloudevent.MaxBatch {
		t.Errorf("got %d events, %v", len(events), err)
	}
	_, _, err = cloudevent.Read(h, batch(cloudevent.MaxBatch+1))
	if want := "the batch has more than 100 events"; fault.CodeOf(err) != fault.TooLarge || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAttributesAreBounded(t *testing.T) {
	extensions := func(count int) (more string) {
		for i := range count {
			more += fmt.Sprintf(`, "x%d": %d`, i, i)
		}
		return more
	}
	longest := strings.Repeat("a", cloudevent.MaxAttribute)
	for _, more := range []string{extensions(cloudevent.MaxExtensions), `, "subject": "` + longest + `"`,
		`, "` + strings.Repeat("a", cloudevent.MaxName) + `": 1`} {
		if _, err := read(event(more)); err != nil {
			t.Errorf("%.80s: %v", more, err)
		}
	}
	for more, want := range map[string]string{
		extensions(cloudevent.MaxExtensions + 1):  "the event has more than 64 extensions",
		`, "subject": "` + longest + `a"`:         `attribute "subject": longer than 4096 bytes`,
		`, "x": "` + longest + `a"`:               `attribute "x": longer than 4096 bytes`,
		`, "datacontenttype": "` + longest + `a"`: `attribute "datacontenttype": longer than 4096 bytes`,
	} {
		if _, err := read(event(more)); err == nil || err.Error() != want {
			t.Errorf("%.80s: got %v, want %s", more, err, want)
		}
	}
}

func TestErrorsRepeatNoValues(t *testing.T) {
	for _, body := range []string{event(`, "time": "SECRET"`), event(`, "dataschema": "SECRET"`),
		event(`, "datacontenttype": "SECRET"`),
		event(`, "x": "SECRET\n"`), event(`, "data": "SECRET`), event(`, "data_base64": "SECRET!"`),
		event(`, "data": {"SECRET": 1, "SECRET": 2}`),
		strings.Replace(event(""), "1.0", "SECRET", 1), strings.Replace(event(""), "/shop", "//SECRET:x", 1)} {
		_, err := read(body)
		if err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: got %v", body, err)
		}
	}
}
