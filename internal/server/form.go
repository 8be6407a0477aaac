package server

import (
	"errors"
	"net/http"

	"github.com/waybill-dev/waybill/internal/fault"
)

// ReadForm reads the form in a request's body, of at most limit bytes. Errors: fault.TooLarge, and fault.Invalid for a body
// that is not a form or ends early.
func ReadForm(w http.ResponseWriter, r *http.Request, limit int64) error {
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	err := r.ParseForm()
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return fault.New(fault.TooLarge, "the form has more than %d bytes", limit)
	}
	if err != nil {
		return fault.New(fault.Invalid, "read the form: %w", err)
	}
	return nil
}
