package promotion

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of texts.
const (
	maxMessage  = 256 // bytes of a message
	maxRevision = 256 // bytes of a revision
)

// recheckGrace is how long a target keeps its class while its controller checks the applied revision again.
const recheckGrace = 5 * time.Minute

// UnknownTarget returns the state of a target that cannot be read.
func UnknownTarget(why Unseen, message string) Seen {
	return Seen{Class: Unknown, Why: why, Message: cutMessage(message)}
}

// Observe returns the state of a target by its application's object. previous is the last result for the target, or
// the zero Seen: a re-check keeps the class and the start of it.
func Observe(app AppState, source Source, previous Seen, now time.Time) Seen {
	if why, message := unreadable(app); why != "" {
		return UnknownTarget(why, message)
	}
	read := readRevisions(app, source)
	if read.wrong != "" {
		return UnknownTarget(NoRevision, read.wrong)
	}
	s := Seen{Applied: read.applied, Attempted: read.attempted}
	s.Class, s.Message, s.Rechecking = classify(app, read)
	if s.Class == Ready && s.Applied == "" && !read.nothingApplied {
		return UnknownTarget(NoRevision, "the object is ready and has no revision of this source")
	}
	if s.Rechecking {
		s.Last, s.RecheckSince = recheck(s, previous, now)
	}
	return s
}

// unreadable returns why the status of an object cannot be relied on; "": it can.
func unreadable(app AppState) (why Unseen, message string) {
	observed, known := observedGeneration(app)
	switch {
	case app.Deleting:
		return Deleting, "the object is being deleted"
	case app.Suspended:
		return SuspendedTarget, "spec.suspend is true, so its status may be old"
	case app.NotReconciledYet != "":
		return NotReconciled, app.NotReconciledYet
	case app.Malformed != "":
		return NoRevision, app.Malformed
	case known && observed < app.Generation:
		return Stale, "its controller has not seen the newest spec"
	case !known && app.Ready.Status == "":
		return NotReconciled, "its controller has reported neither a generation nor a Ready condition"
	}
	return "", ""
}

// observedGeneration returns the generation that the status is about. Some kinds report none.
func observedGeneration(app AppState) (generation int64, known bool) {
	if app.Observed >= 0 {
		return app.Observed, true
	}
	return app.Ready.Observed, app.Ready.Observed > 0
}

// classify returns the class of a readable object by its conditions and, of a HelmRelease, by its history.
func classify(app AppState, read revisions) (c Class, message string, rechecking bool) {
	isFailed := app.Ready.Status == "False" || app.Stalled.Status == "True"
	switch {
	case isFailed || read.failed:
		return Failed, failure(app), false
	case app.Ready.Status != "True" || app.Reconciling:
		return Progressing, cutMessage(app.Ready.Message), app.HasAttempted && read.isSettled
	}
	return Ready, cutMessage(app.Ready.Message), false
}

// failure returns the reason and the message of the condition that reports a failure.
func failure(app AppState) string {
	of := app.Ready
	if of.Status != "False" && app.Stalled.Status == "True" {
		of = app.Stalled
	}
	text := of.Reason
	if of.Message != "" {
		text += ": " + of.Message
	}
	return cutMessage(cmp.Or(strings.TrimPrefix(text, ": "), "the newest release has failed"))
}

// recheck returns the class that a target had before its re-check, and the start of it. A class belongs to the
// revision that is applied: a target that has just changed it has proved nothing.
func recheck(s, previous Seen, now time.Time) (last Class, since time.Time) {
	switch {
	case previous.Class == "" || previous.Class == Unknown || previous.Applied != s.Applied:
		return "", now
	case previous.Rechecking:
		return previous.Last, previous.RecheckSince
	}
	return previous.Class, now
}

// At returns the class of a target at a time. kept reports that it is the class before a re-check, which proves
// nothing new, and until when it is kept.
func (s Seen) At(now time.Time) (c Class, kept bool, until time.Time) {
	switch {
	case s.Class == "":
		return Unknown, false, time.Time{}
	case !s.Rechecking || s.Last == "":
		return s.Class, false, time.Time{}
	}
	if until = s.RecheckSince.Add(recheckGrace); now.Before(until) {
		return s.Last, true, until
	}
	return s.Class, false, time.Time{}
}

// cutMessage cuts a message to its bound, at the end of a character.
func cutMessage(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	end := maxMessage
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end]
}
