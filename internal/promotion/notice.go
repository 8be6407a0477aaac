package promotion

import "time"

// NoticeKind is the kind of the actions that notify the sinks of a pipeline.
const NoticeKind = "promotion-notice"

// HandlerNotice is the handler of such actions.
const HandlerNotice = "promotion-notice"

// Announced is the first part of the events of announcements: announced/Started, announced/Failed/GateFailed. Such a fact records that
// the sinks of the pipeline are notified. No decision depends on it.
const Announced Event = "announced"

// AnnouncedEvent returns the event of an announcement; reason is "" unless an occasion has several.
func AnnouncedEvent(occasion, reason string) Event {
	event := Announced + "/" + Event(occasion)
	if reason != "" {
		event += "/" + Event(reason)
	}
	return event
}

// Notice notifies one sink of an occasion in a run. Its JSON is the parameters of an action.
type Notice struct {
	Namespace string    `json:"namespace"` // namespace of the pipeline
	Pipeline  string    `json:"pipeline"`  // its name, without the namespace
	UID       string    `json:"uid"`
	Run       int64     `json:"run"`
	Cause     RunCause  `json:"cause"`
	Revision  Revision  `json:"revision"`
	Was       Revision  `json:"was,omitempty"`
	Env       EnvName   `json:"environment,omitempty"` // "": the pipeline
	Occasion  string    `json:"occasion"`              // such as Started
	Reason    string    `json:"reason,omitempty"`      // a reason of a verdict, of Failed
	Message   string    `json:"message,omitempty"`
	By        string    `json:"by,omitempty"`  // who approved or merged
	URL       string    `json:"url,omitempty"` // page of the pull request
	Link      string    `json:"link,omitempty"`
	At        time.Time `json:"at"`
	Sink      Sink      `json:"sink"`
}
