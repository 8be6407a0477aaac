package callback

import (
	"encoding/json"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// subscribed returns the address for the notification of an end; "" if the subscriber wants none.
func subscribed(s *action.Subscriber, end action.Status) string {
	switch {
	case s == nil:
		return ""
	case end == action.Successful:
		return s.SuccessURI
	}
	return s.FailedURI
}

// subscribers returns all subscribers of a job. The one of its own request comes first and has no
// id; later requests have added the rest.
func subscribers(a action.Action, added []queue.Subscriber) []queue.Subscriber {
	if a.Subscriber == nil {
		return added
	}
	return append([]queue.Subscriber{{Subscriber: *a.Subscriber}}, added...)
}

// The types of subscribers' documents.
const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
)

// notify plans the request to a subscriber (OGC API – Processes 1.0, 7.13): results of a success,
// the problem of a failure, the status of a job that runs.
func (j Job) notify(book Book, about string, subscriber action.ID, uri string) Planned {
	said := map[string]any{"uri": uri, "contentType": typeJSON}
	switch {
	case j.Status == action.Running:
		said["body"] = map[string]any{"processID": j.Action.Name, "jobID": j.Action.ID, "type": "process", "status": "running",
			"created": moment(j.Action.CreatedAt), "started": moment(j.StartedAt)}
	case j.Status != action.Successful:
		said["contentType"], said["body"] = typeProblem, j.problem()
	default:
		said["body"] = book.Results(j.Action, j.Output)
	}
	p := planner{job: j, callback: &Callback{Name: "subscriber " + about, Target: Target{Handler: "subscriber"}}, subscriber: subscriber}
	raw, err := json.Marshal(said)
	if err == nil && j.Lost != nil {
		err = j.Lost
	}
	if err != nil {
		p.fail(0, CodeDocument, err)
		return p.planned[0]
	}
	a, err := book.SubscriberRequest(raw)
	if err != nil {
		p.fail(0, CodeParameters, err)
		return p.planned[0]
	}
	a.Kind, a.Name = Kind, p.callback.Name
	p.add(0, a, "", "")
	return p.planned[0]
}

// problem returns a failure as RFC 7807 and the job's results have it.
func (j Job) problem() map[string]any {
	status, kind := Problem(j.Status, j.Code)
	return map[string]any{"type": kind, "title": "the job ended as " + j.Status.String(), "status": status, "detail": j.Error,
		"jobID": j.Action.ID, "processID": j.Action.Name, "jobStatus": strings.ToLower(j.Status.String())}
}
