package osb

import (
	"fmt"
	"net/http"
	"strings"
)

// Codes of errors. The first three are those of the standard; platforms react to them.
const (
	CodeAsyncRequired   = "AsyncRequired"
	CodeConcurrency     = "ConcurrencyError"
	CodeMaintenanceInfo = "MaintenanceInfoConflict"

	CodeInvalid        = "InvalidRequest"     // 400
	CodeNotFound       = "NotFound"           // 404
	CodeConflict       = "Conflict"           // 409: the id is in use, with other attributes
	CodeGone           = "Gone"               // 410
	CodeVersion        = "UnsupportedVersion" // 412
	CodeNotProvisioned = "NotProvisioned"     // 422: the provision failed
	CodeBeingDeleted   = "BeingDeleted"       // 422: a deprovision failed
	CodeNotSupported   = "NotSupported"       // 422: a change that the plan does not offer
)

// Error answers a request with a status of 400 to 499, and has the JSON form of the standard's error body.
type Error struct {
	Status      int    `json:"-"`           // HTTP status
	Code        string `json:"error"`       // a word for programs, such as AsyncRequired
	Description string `json:"description"` // text for people, never empty
	// UpdateRepeatable is set in answers to an update only. InstanceUsable is for the failed update or deprovision
	// that an error reports.
	InstanceUsable   *bool `json:"instance_usable,omitempty"`
	UpdateRepeatable *bool `json:"update_repeatable,omitempty"`
}

// Error returns the code and the description.
func (e *Error) Error() string { return e.Code + ": " + e.Description }

// NewError returns an error whose description is cut to 1 KiB: it may quote other systems.
func NewError(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Description: describe(format, args...)}
}

// invalid returns a 400 for a field, a header or a parameter.
func invalid(format string, args ...any) *Error {
	return NewError(http.StatusBadRequest, CodeInvalid, format, args...)
}

func notFound(format string, args ...any) *Error {
	return NewError(http.StatusNotFound, CodeNotFound, format, args...)
}

func gone(format string, args ...any) *Error {
	return NewError(http.StatusGone, CodeGone, format, args...)
}

func conflict(format string, args ...any) *Error {
	return NewError(http.StatusConflict, CodeConflict, format, args...)
}

// refused returns a 422 with a code.
func refused(code, format string, args ...any) *Error {
	return NewError(http.StatusUnprocessableEntity, code, format, args...)
}

// Clients compare the descriptions of these two errors with the texts of the standard, too.

// asyncRequired refuses a client that cannot poll: every operation is asynchronous.
func asyncRequired() *Error {
	return refused(CodeAsyncRequired, "This service plan requires client support for asynchronous service operations.")
}

// Concurrency refuses a request that may be repeated once the other has ended.
func Concurrency() *Error {
	return refused(CodeConcurrency, "The Service Broker does not support concurrent requests that mutate the same resource.")
}

// mostText bounds the texts of answers in bytes: they may quote other systems.
const mostText = 1 << 10

func describe(format string, args ...any) string { return shorten(fmt.Sprintf(format, args...)) }

// shorten returns a valid text of at most mostText bytes.
func shorten(text string) string {
	const more = "…"
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= mostText {
		return text
	}
	return strings.ToValidUTF8(text[:mostText-len(more)], "") + more
}
