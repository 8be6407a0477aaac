package osb

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
)

func TestErrorsInJSON(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]*Error{
		`{"error":"AsyncRequired","description":"This service plan requires client support for asynchronous service operations."}`:            asyncRequired(),
		`{"error":"ConcurrencyError","description":"The Service Broker does not support concurrent requests that mutate the same resource."}`: Concurrency(),
		`{"error":"InvalidRequest","description":"x","update_repeatable":false}`:                                                              {Code: CodeInvalid, Description: "x", UpdateRepeatable: new(false)},
		`{"error":"A","description":"x","instance_usable":true}`:                                                                              {Code: "A", Description: "x", InstanceUsable: new(true)},
	} {
		if got, fault := json.Marshal(err); fault != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, fault, want)
		}
	}
	if got := invalid("%s", strings.Repeat("x", 2000)).Description; len(got) != 1024 {
		t.Errorf("a description of %d bytes", len(got))
	}
}

func TestOperationsAreNamedByIDOrVerb(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Named{
		"01000000-0000-7000-8000-000000000001": {ID: action.ID{0: 0x01, 6: 0x70, 8: 0x80, 15: 1}},
		"provision":                            {Verb: VerbProvision}, "update": {Verb: VerbUpdate}, "deprovision": {Verb: VerbDeprovision},
		"": {}, "Provision": {}, "task_10": {}, "01000000-0000-7000-8000-000000000001" + "0": {}, strings.Repeat("x", 10_000): {},
	} {
		if got := ParseNamed(text); got != want {
			t.Errorf("%.40q: got %+v, want %+v", text, got, want)
		}
	}
}
