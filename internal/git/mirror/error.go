package mirror

import (
	"errors"
	"fmt"
	"strings"
)

// Class classifies errors by the response to them.
type Class string

// The classes.
const (
	Throttle Class = "throttle"    // the host is busy or cannot be reached
	Later    Class = "retry-after" // something is in use for a moment
	Retry    Class = "retry"       // try again with a back-off
	Fatal    Class = "fatal"       // nothing changes until the inputs do
)

// Reasons of errors that callers treat differently.
const (
	NoMarkers      = "NoMarkers"
	MarkerUnusable = "MarkerUnusable"
	InUse          = "InUse"
	BadSecret      = "BadSecret"
	PushRace       = "PushRace"
	TooLarge       = "RepositoryTooLarge"
)

// Error is the error of an operation.
type Error struct {
	Class  Class
	Reason string // one word; "": none
	Text   string
	damage bool  // the mirror may be broken
	err    error // git's end; nil: it has not run
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.err }

// ClassOf returns the class of an error; errors of this machine, such as a full disk, are tried again.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Retry
}

func fatal(reason, format string, args ...any) *Error {
	return &Error{Class: Fatal, Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// isDamage reports whether an error may be due to a broken mirror.
func isDamage(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.damage
}

// rule classifies an error by words of git.
type rule struct {
	words  string
	class  Class
	reason string
}

// rules are in the order in which they are tried; all words are in lower case.
var rules = []rule{
	{"file size limit exceeded", Fatal, TooLarge},
	{"stale info", Retry, PushRace},
	{"cannot lock ref", Retry, PushRace},
	{"incorrect old value", Retry, PushRace},
	{"reference already exists", Retry, PushRace},
	{"failed to update ref", Retry, PushRace},
	{"fetch first", Retry, PushRace},
	{"couldn't find remote ref", Retry, PushRace},
	{"not our ref", Fatal, "NotFound"},
	{"unadvertised object", Fatal, "NotFound"},
	{"rate limit", Throttle, ""},
	{"too many requests", Throttle, ""},
	{"returned error: 429", Throttle, ""},
	{"http 429", Throttle, ""},
	{"returned error: 502", Throttle, ""},
	{"returned error: 503", Throttle, ""},
	{"returned error: 504", Throttle, ""},
	{"http 502", Throttle, ""},
	{"http 503", Throttle, ""},
	{"http 504", Throttle, ""},
	{"returned error: 5", Retry, ""},
	{"http 500", Retry, ""},
	{"authentication failed", Fatal, "Unauthorized"},
	{"terminal prompts disabled", Fatal, "Unauthorized"},
	{"returned error: 401", Fatal, "Unauthorized"},
	{"permission denied", Fatal, "Unauthorized"},
	{"returned error: 403", Fatal, "Forbidden"},
	{"http 403", Fatal, "Forbidden"},
	{"host key verification failed", Fatal, BadSecret},
	{"returned error: 3", Fatal, "Redirected"},
	{"unable to update url base from redirection", Fatal, "Redirected"},
	{"returned error: 404", Fatal, "NotFound"},
	{"repository not found", Fatal, "NotFound"},
	{"not found", Fatal, "NotFound"},
	{"does not appear to be a git repository", Fatal, "NotFound"},
	{"hook declined", Fatal, "Refused"},
	{"protected branch", Fatal, "Refused"},
	{"returned error: 4", Fatal, ""},
	{"shallow update not allowed", Fatal, "Refused"},
	{"[remote rejected]", Fatal, "Refused"},
	{"[rejected]", Fatal, "Refused"},
	{"error setting certificate", Fatal, BadSecret},
	{"problem with the ssl ca cert", Fatal, BadSecret},
	{"could not resolve", Throttle, ""},
	{"failed to connect", Throttle, ""},
	{"couldn't connect", Throttle, ""},
	{"connection refused", Throttle, ""},
	{"timed out", Throttle, ""},
	{"no route to host", Throttle, ""},
	{"network is unreachable", Throttle, ""},
	{"ssl", Throttle, ""},
	{"tls", Throttle, ""},
	{"certificate", Throttle, ""},
	{"empty reply from server", Throttle, ""},
	{"too slow", Throttle, ""},
}

// classify returns the error of a git that has spoken with a host, by its error output.
func classify(command, text string, err error) *Error {
	lower := strings.ToLower(text + "\n" + err.Error())
	result := &Error{Class: Retry, Text: "git " + command + ": " + lastWords(text, err), err: err}
	for _, r := range rules {
		if strings.Contains(lower, r.words) {
			result.Class, result.Reason = r.class, r.reason
			return result
		}
	}
	result.damage = isLocal(lower)
	return result
}

// isLocal reports whether git complains about its own repository.
func isLocal(text string) bool {
	for _, words := range []string{
		"not a git repository", "file exists", "corrupt", "bad object", "is empty", "missing blob", "missing tree", "unable to read",
		"invalid object", "did not send all necessary objects", "bad revision", "unable to parse", "shallow file has changed", "broken",
		"unknown revision", "not a valid object", "could not read", "unable to create",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// mostText bounds the bytes of an error's text.
const mostText = 1 << 10

// lastWords returns git's error output on one line, cut at its start.
func lastWords(text string, err error) string {
	var words []string
	for line := range strings.Lines(strings.ToValidUTF8(text, "\ufffd")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "hint:") {
			words = append(words, line)
		}
	}
	joined := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.Join(words, "; "))
	if joined == "" {
		joined = err.Error()
	}
	if over := len(joined) - mostText; over > 0 {
		joined = "…" + strings.ToValidUTF8(joined[over:], "")
	}
	return joined
}
