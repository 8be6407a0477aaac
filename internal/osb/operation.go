package osb

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Operation is an operation that a client may poll, as its action shows it.
type Operation struct {
	ID       action.ID
	Instance string // id of its service instance
	Verb     Verb
	Thread   Thread
}

// Words of the state of an operation.
const (
	progressing = "in progress"
	succeeded   = "succeeded"
	failed      = "failed"
)

type operationState struct {
	State            string `json:"state"`
	Description      string `json:"description"`
	InstanceUsable   *bool  `json:"instance_usable,omitempty"`
	UpdateRepeatable *bool  `json:"update_repeatable,omitempty"`
}

// LastOperation decides about a poll. found is the operation that the client's Named means: the one with the id, of
// whichever service instance, or the newest one of this service instance with the verb. It is nil if its action is not
// kept; then the client polls the last operation. A deletion is reported as succeeded for the time tombstone, and then
// as 410. So is one of a former service instance with the id, which may have been another user's; its other operations mean nothing.
func (s Subject) LastOperation(found *Operation, tombstone time.Duration) Decision {
	row, state := s.find()
	if s.isFormer(found) {
		if found.Verb == VerbDeprovision && found.Thread.Status == action.Successful {
			return fail(gone("the service instance is deleted"))
		}
		found = nil
	}
	if state == None {
		return fail(notFound("the service instance is %s", state))
	}
	if found != nil && found.Instance != row.ID {
		return fail(invalid("operation: it belongs to another service instance"))
	}
	if found != nil && found.ID != row.Operation {
		return s.report(found.Verb, found.Thread.Status, &found.Thread, row.Verb == VerbDeprovision)
	}
	if state == Gone && !s.Now.Before(row.GoneAt.Add(tombstone)) {
		return fail(gone("the service instance is %s", state))
	}
	return s.report(row.Verb, row.status(s.Thread), s.Thread, false)
}

// isFormer reports whether an operation is of a service instance that had the id before that of the row, or before another user's.
func (s Subject) isFormer(o *Operation) bool {
	if o == nil || s.Row == nil || o.Instance != s.Row.ID || s.Row.Purged(s.Now) {
		return false
	}
	return s.Row.User != s.User || s.Row.Precedes(o.ID)
}

// report answers with the state of an operation. deleted reports that a deprovision followed it.
func (s Subject) report(verb Verb, status action.Status, thread *Thread, deleted bool) Decision {
	if thread == nil {
		thread = &Thread{}
	}
	if !status.Ended() {
		body := operationState{State: progressing, Description: thread.progress(s.Now)}
		return Decision{Status: http.StatusOK, Body: body, RetryAfter: thread.pause(s.Now)}
	}
	if status == action.Successful {
		body := operationState{State: succeeded, Description: shorten(cmp.Or(thread.Text, string(verb)+" succeeded"))}
		return Decision{Status: http.StatusOK, Body: body}
	}
	body := operationState{State: failed, Description: shorten(thread.failure(verb, status, deleted))}
	usable := verb == VerbUpdate && !deleted
	if verb != VerbProvision {
		body.InstanceUsable = &usable
	}
	if verb == VerbUpdate {
		body.UpdateRepeatable = &usable
	}
	return Decision{Status: http.StatusOK, Body: body}
}

// progress describes a live operation: the last text of its attempt, or the error of a failed one and when the next is.
func (t *Thread) progress(now time.Time) string {
	if t.Error == "" && (t.Text != "" || t.Status != action.Running) {
		return shorten(cmp.Or(t.Text, "waits for its turn"))
	}
	text := fmt.Sprintf("attempt %d", t.Attempt)
	if t.Attempts > 0 {
		text = fmt.Sprintf("%s of %d", text, t.Attempts)
	}
	if t.Error == "" {
		return text + " runs"
	}
	if t.Status == action.Backoff {
		text = fmt.Sprintf("%s, next in %d s", text, seconds(t.Next.Sub(now)))
	}
	return shorten(text + ": " + t.Error)
}

// longestPause bounds the time between two polls that an answer suggests.
const longestPause = 15 * time.Second

// pause returns the time until it is worth to poll again.
func (t *Thread) pause(now time.Time) time.Duration {
	if t.Status != action.Backoff {
		return time.Second
	}
	return min(longestPause, max(time.Second, time.Duration(seconds(t.Next.Sub(now)))*time.Second))
}

// seconds rounds up, and never below zero.
func seconds(d time.Duration) int { return int(max(0, math.Ceil(d.Seconds()))) }

// failure describes an end without success. A deprovision cancels the operation before it; other cancellations come from
// people.
func (t *Thread) failure(verb Verb, status action.Status, deleted bool) string {
	switch {
	case status == action.Canceled && deleted:
		return "cancelled by delete"
	case t.Error != "":
		return t.Error
	case status == action.Canceled:
		return string(verb) + " was cancelled"
	case status == action.TimedOut:
		return string(verb) + " did not end in time"
	}
	return string(verb) + " failed"
}
