package flow_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/flow"
)

func specOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var spec map[string]any
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestFaultsOfSpecs(t *testing.T) {
	t.Parallel()
	const ref = `{"apiVersion":"v1","kind":"Service","name":"shop"}`
	for spec, want := range map[string]string{ // "": sound
		`{"source":{"application":"commerce"}}`: "",
		`{"source":{"ref":{"apiVersion":"messaging.knative.dev/v1","kind":"Channel","name":"c","namespace":"x"}}}`:              "",
		`{"source":{"ref":` + ref + `,"channelRef":{"name":"c","namespace":"x"}}}`:                                              "",
		`{"source":{"application":"a"},"sink":{"broker":{"name":"b","provisioning":"Existing","config":` + ref + `}}}`:          "",
		`{"source":{"application":"a"},"sink":{"ref":{"apiVersion":"v1","kind":"Service","name":"s","path":"/x?y=z"}}}`:         "",
		`{"source":{"application":"a"},"sink":{"uri":"https://shop.example"},"meshPolicy":"None"}`:                              "",
		`{"source":{"application":"a"},"meshPolicy":"PermissiveMetrics"}`:                                                       "",
		`{"source":{"application":"a"},"delivery":{"retry":0,"backoffPolicy":"linear","backoffDelay":"PT1S","timeout":"PT9S"}}`: "",
		`{"source":{"application":"a"},"delivery":{"deadLetterSink":{"ref":` + ref + `}}}`:                                      "",

		`{"source":{"application":"a"},"suspend":null}`:                                                                "suspend: want a value",
		`{"source":{"application":"a"},"delivery":{"timeout":""}}`:                                                     "delivery.timeout: want a value",
		`{"source":{"application":"a"},"sink":{"broker":{"class":""}}}`:                                                "sink.broker.class: want a value",
		`{"source":{"application":"a"},"sink":{"broker":{"class":"` + strings.Repeat("x", 254) + `"}}}`:                "sink.broker.class: want at most 253",
		`{"source":{"ref":{"apiVersion":"v1","kind":"` + strings.Repeat("x", 64) + `","name":"a"}}}`:                   "source.ref.kind: want at most 63",
		`{"source":{"ref":{"apiVersion":"` + strings.Repeat("x", 318) + `","kind":"A","name":"a"}}}`:                   "source.ref.apiVersion: want at most 317",
		`{"source":{"application":"a"},"sink":{"ref":{"apiVersion":"v1","kind":"Service","name":"s","path":"//x/y"}}}`: "begin it with one /",

		`{}`:                             "source: set exactly one",
		`{"source":{}}`:                  "source: set exactly one",
		`{"sourse":{}}`:                  `unknown field "sourse"`,
		`{"delivery":{"retry":"many"}}`:  `delivery.retry: want a whole number, found string`,
		`{"suspend":"x"}`:                `suspend: want a boolean, found string`,
		`{"meshPolicy":1}`:               `meshPolicy: want a text, found number`,
		`{"sink":{"broker":[]}}`:         `sink.broker: want an object, found array`,
		`{"source":{"Application":"a"}}`: `unknown field "source.Application"`,
		`{"source":{"application":1}}`:   "application",
		`{"source":{"application":"A"}}`: "source.application: want a name",
		`{"source":{"application":"` + strings.Repeat("a", 64) + `"}}`:                                             "at most 63",
		`{"source":{"application":"a","ref":` + ref + `}}`:                                                         "source: set exactly one",
		`{"source":{"application":"a","channelRef":{"name":"c"}}}`:                                                 "source.channelRef: set it only",
		`{"source":{"ref":{"apiVersion":"v1","name":"x"}}}`:                                                        "source.ref: apiVersion and kind",
		`{"source":{"ref":{"apiVersion":"v1","kind":"Service","name":"x_"}}}`:                                      "source.ref.name",
		`{"source":{"ref":` + ref + `,"channelRef":{"name":"c","namespace":"x.y"}}}`:                               "source.channelRef.namespace",
		`{"source":{"application":"a"},"sink":{}}`:                                                                 "sink: set exactly one",
		`{"source":{"application":"a"},"sink":{"broker":{},"uri":"http://x.example"}}`:                             "sink: set exactly one",
		`{"source":{"application":"a"},"sink":{"broker":{"name":"B"}}}`:                                            "sink.broker.name",
		`{"source":{"application":"a"},"sink":{"broker":{"provisioning":"x"}}}`:                                    "want Managed or Existing",
		`{"source":{"application":"a"},"sink":{"broker":{"deletionPolicy":"x"}}}`:                                  "want WhenUnused or Retain",
		`{"source":{"application":"a"},"sink":{"uri":"http://localhost"}}`:                                         "sink.uri: host localhost",
		`{"source":{"application":"a"},"sink":{"uri":"http://127.1"}}`:                                             "loopback",
		`{"source":{"application":"a"},"sink":{"ref":{"apiVersion":"x/v1","kind":"Y","name":"s","path":"/x"}}}`:    "sink.ref.path: set it only",
		`{"source":{"application":"a"},"sink":{"ref":{"apiVersion":"v1","kind":"Service","name":"s","path":"x"}}}`: "begin it with one /",
		`{"source":{"application":"a"},"sink":{"uri":"https://x.example"},"meshPolicy":"PermissiveMetrics"}`:       "meshPolicy: set it only",
		`{"source":{"application":"a"},"meshPolicy":"x"}`:                                                          "want None or PermissiveMetrics",
		`{"source":{"application":"a"},"delivery":{"retry":1001}}`:                                                 "delivery.retry",
		`{"source":{"application":"a"},"delivery":{"retry":"1"}}`:                                                  "retry",
		`{"source":{"application":"a"},"delivery":{"backoffPolicy":"linear"}}`:                                     "together",
		`{"source":{"application":"a"},"delivery":{"backoffPolicy":"x","backoffDelay":"PT1S"}}`:                    "want linear or exponential",
		`{"source":{"application":"a"},"delivery":{"backoffPolicy":"linear","backoffDelay":"1s"}}`:                 "ISO 8601",
		`{"source":{"application":"a"},"delivery":{"timeout":"PT"}}`:                                               "ISO 8601",
		`{"source":{"application":"a"},"delivery":{"timeout":"PT0S"}}`:                                             "more than zero",
		`{"source":{"application":"a"},"delivery":{"deadLetterSink":{}}}`:                                          "deadLetterSink: set exactly one",
		`{"source":{"application":"a"},"delivery":{"deadLetterSink":{"uri":"ftp://x.example"}}}`:                   "deadLetterSink.uri: the scheme",
	} {
		faults := strings.Join(flow.CheckSpec(specOf(t, spec), func(string) bool { return false }), "; ")
		if want == "" && faults != "" || !strings.Contains(faults, want) {
			t.Errorf("%s: got %q, want %q", spec, faults, want)
		}
	}
}

func TestOpenPartsOfSpecsAreCheckedByTheirNamesAndKinds(t *testing.T) {
	t.Parallel()
	open := func(field string) bool { return field == "source" || field == "delivery" }
	for spec, want := range map[string]string{
		`{"source":{},"delivery":{"backoffPolicy":"linear"}}`: "",
		`{"source":{"x":1}}`:      `unknown field "source.x"`,
		`{"source":{},"sink":{}}`: "sink: set exactly one",
	} {
		if got := strings.Join(flow.CheckSpec(specOf(t, spec), open), "; "); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", spec, got, want)
		}
	}
}

func TestFixedPartsLeaveOutWhatUpdatesMayChange(t *testing.T) {
	t.Parallel()
	same := []string{
		`{"source":{"application":"a"}}`,
		`{"source":{"application":"a"},"sink":{"broker":{}},"delivery":{"retry":2}}`,
		`{"source":{"application":"a"},"sink":{"broker":{"name":"default","deletionPolicy":"Retain","provisioning":"Managed"}},"suspend":true}`,
	}
	want := flow.Fixed(specOf(t, same[0]))
	for _, spec := range same[1:] {
		if diff := cmp.Diff(want, flow.Fixed(specOf(t, spec))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
	for _, spec := range []string{`{"source":{"application":"b"}}`, `{"source":{"application":"a"},"sink":{"uri":"https://x.example"}}`,
		`{"source":{"application":"a"},"sink":{"broker":{"name":"x"}}}`, `{"source":{"application":"a"},"sink":{"broker":{"class":"x"}}}`} {
		if cmp.Equal(want, flow.Fixed(specOf(t, spec))) {
			t.Errorf("%s has the fixed parts of %s", spec, same[0])
		}
	}
}

// TestSpecsHaveTheBoundsOfTheSchema: a request is refused for them, instead of an operation that fails later.
func TestSpecsHaveTheBoundsOfTheSchema(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2049)
	dead := func(ref string) string {
		return `{"source":{"application":"a"},"delivery":{"deadLetterSink":{"ref":{` + ref + `}}}}`
	}
	sink := func(sink string) string { return `{"source":{"application":"a"},"sink":{` + sink + `}}` }
	for spec, want := range map[string]string{
		dead(`"apiVersion":"` + long + `","kind":"K","name":"n"`):                               "apiVersion: want at most 317",
		dead(`"apiVersion":"v1","kind":"` + long + `","name":"n"`):                              "kind: want at most 63",
		dead(`"apiVersion":"v1","kind":"K","name":"n","namespace":""`):                          "delivery.deadLetterSink.ref.namespace: want a value",
		dead(`"apiVersion":"v1","kind":"K","name":""`):                                          "ref.name: want a value",
		`{"source":{"application":"a"},"meshPolicy":""}`:                                        "meshPolicy: want a value",
		sink(`"broker":{"class":"` + long + `"}`):                                               "sink.broker.class: want at most 253",
		sink(`"broker":{"class":""}`):                                                           "sink.broker.class: want a value",
		sink(`"ref":{"apiVersion":"v1","kind":"Service","name":"s","path":"//evil.example/x"}`): "begin it with one /",
		sink(`"ref":{"apiVersion":"v1","kind":"Service","name":"s","path":"/` + long + `"}`):    "path: want at most 2048",
		sink(`"ref":{"apiVersion":"v1","kind":"Service","name":"s","address":"` + long + `"}`):  "address: want at most 253",
		sink(`"ref":{"apiVersion":"v1","kind":"Service","name":"s","address":""}`):              "sink.ref.address: want a value",
		sink(`"uri":"http://x.example/` + long + `"`):                                           "sink.uri: want at most 2048",
	} {
		faults := strings.Join(flow.CheckSpec(specOf(t, spec), func(string) bool { return false }), "; ")
		if !strings.Contains(faults, want) || len(faults) > 200 {
			t.Errorf("%.100s: got %q, want %q", spec, faults, want)
		}
	}
}
