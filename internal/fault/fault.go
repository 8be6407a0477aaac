// Package fault gives errors the few properties that callers act on: a code, a hint for the reader, and the reaction
// of a loop to the error.
//
// One table maps codes to HTTP and exit statuses (see codes.go). Everything else about an error is its text, wrapped with %w as
// usual.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Error is an error with a code and, where the reader can do something about it, a hint.
type Error struct {
	Code Code
	Text string // what was being done, or what is wrong; lower case, no full stop
	Hint string // what the reader can do; may be empty
	Err  error  // the cause; may be nil
}

// Error returns the text and its cause. The code that prints the error shows the hint separately.
func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return e.Text
	case e.Text == "":
		return e.Err.Error()
	default:
		return e.Text + ": " + e.Err.Error()
	}
}

func (e *Error) Unwrap() error { return e.Err }

// New returns an error with a code. The format may use %w.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Wrap returns err with a code and the same text.
func Wrap(code Code, err error) *Error {
	return &Error{Code: code, Err: err}
}

// WithHint returns e with the hint set.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// WithNearest sets the hint to the known name that is nearest to name. Without one near enough it keeps the hint.
func (e *Error) WithNearest(name string, known []string) *Error {
	if near := Nearest(name, known); near != "" {
		return e.WithHint("did you mean %q?", near)
	}
	return e
}

// CodeOf returns the code of the outermost coded error in err's chain: Invalid for Problems without a code, Internal for any
// other error without one, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if coded, ok := errors.AsType[*Error](err); ok {
		return coded.Code
	}
	if problems, ok := errors.AsType[Problems](err); ok && len(problems) > 0 {
		return Invalid
	}
	return Internal
}

// Is reports whether err carries the code.
func Is(err error, code Code) bool { return CodeOf(err) == code }

// HintOf returns the hint of the outermost error in err's chain that has one.
func HintOf(err error) string {
	for err != nil {
		if coded, ok := errors.AsType[*Error](err); ok {
			if coded.Hint != "" {
				return coded.Hint
			}
			err = coded.Err
			continue
		}
		return ""
	}
	return ""
}

// permanent is an error that another attempt does not fix.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent returns err marked as one that a loop must not retry.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// IsPermanent reports whether a loop should give up on err.
func IsPermanent(err error) bool {
	_, ok := errors.AsType[permanent](err)
	return ok
}

// retryAfter is an error with the time at which to retry.
type retryAfter struct {
	error
	at time.Time
}

func (r retryAfter) Unwrap() error { return r.error }

// RetryAfter returns err marked with the time at which to retry.
func RetryAfter(err error, at time.Time) error {
	if err == nil {
		return nil
	}
	return retryAfter{err, at}
}

// RetryAt returns the time that RetryAfter put into err's chain. Without one, and unless IsPermanent, the loop backs off by its
// own policy.
func RetryAt(err error) (time.Time, bool) {
	r, ok := errors.AsType[retryAfter](err)
	return r.at, ok
}
