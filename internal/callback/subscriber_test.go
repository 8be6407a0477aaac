package callback

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
)

// book prepares every request to a subscriber, but for those that go to a bad address.
type book struct{}

func (book) Callbacks(action.Action) []Callback { return nil }

func (book) SubscriberRequest(parameters json.RawMessage) (action.Action, error) {
	if strings.Contains(string(parameters), "://bad") {
		return action.Action{}, errors.New("uri: want an address")
	}
	return action.Action{Handler: "subscriber", Parameters: parameters}, nil
}

func (book) Results(_ action.Action, output json.RawMessage) map[string]json.RawMessage {
	return map[string]json.RawMessage{"made": output}
}

// TestSubscribersAreToldOfEnds: with the results of the job, with the same status.
func TestSubscribersAreToldOfEnds(t *testing.T) {
	t.Parallel()
	const problem = "application/problem+json"
	for _, test := range []struct {
		end              action.Status
		code             string
		uri, contentType string
		status           int
		kind             string
	}{
		{action.Successful, "", "done", "application/json", 0, ""},
		{action.Failed, "http_404", "failed", problem, 404, "waybill:http_404"},
		{action.RetriesExhausted, "http_500", "failed", problem, 500, "waybill:http_500"},
		{action.Failed, "http_302", "failed", problem, 500, "waybill:http_302"}, // no status of an error
		{action.Failed, "exit_status", "failed", problem, 500, "waybill:exit_status"},
		{action.Invalid, "invalid_parameters", "failed", problem, 400, "waybill:invalid_parameters"},
		{action.TimedOut, "", "failed", problem, 504, "waybill:timed_out"},
		{action.Canceled, "", "failed", problem, 410, "waybill:canceled"},
	} {
		job := mirror(`{}`, `{"n": 1}`)
		job.Status, job.Code, job.Error = test.end, test.code, "no luck"
		job.Action.Subscriber = &action.Subscriber{SuccessURI: "https://a.example.org/done", FailedURI: "https://a.example.org/failed"}
		uri := subscribed(job.Action.Subscriber, job.Status)
		planned := job.notify(book{}, "end", action.ID{}, uri)
		if planned.Fault != "" || !strings.HasSuffix(uri, test.uri) {
			t.Fatalf("%s: called %s: %+v", test.end, uri, planned)
		}
		var said struct {
			URI, ContentType string
			Body             map[string]any
		}
		if err := json.Unmarshal(planned.Action.Parameters, &said); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"made": map[string]any{"n": float64(1)}}
		if test.status > 0 {
			want = map[string]any{"type": test.kind, "title": "the job ended as " + test.end.String(), "status": float64(test.status),
				"detail": "no luck", "jobID": job.Action.ID.String(), "processID": "mirror", "jobStatus": strings.ToLower(test.end.String())}
		}
		if diff := cmp.Diff(want, said.Body); diff != "" || said.ContentType != test.contentType || said.URI != uri {
			t.Errorf("%s: %s %s (-want +got):\n%s", test.end, said.URI, said.ContentType, diff)
		}
	}
}

// TestASubscriberThatCannotBeToldIsAFailedAction: nothing of a subscriber holds its job back.
func TestASubscriberThatCannotBeToldIsAFailedAction(t *testing.T) {
	t.Parallel()
	job := mirror(`{}`, `{}`)
	if planned := job.notify(book{}, "end", action.ID{}, "https://bad"); planned.Code != CodeParameters ||
		!strings.Contains(planned.Fault, "want an address") {
		t.Errorf("%+v", planned)
	}
	job.Lost = errors.New("blob output not found")
	if planned := job.notify(book{}, "end", action.ID{}, "https://a.example.org/done"); planned.Code != CodeDocument ||
		planned.Action.ID.IsZero() {
		t.Errorf("%+v", planned)
	}
}
