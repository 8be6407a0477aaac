package page

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/service"
)

// Bounds of a form and of one field, in bytes.
const (
	formLimit  = 64 << 10
	fieldLimit = 1000
)

// Submit executes a form for the reader who sent it, and returns the address of the next page.
type Submit func(r *http.Request, by string) (next string, err error)

// HandleForm serves a form that needs a scope. Forms on pages of other sites never get here:
// server.Server refuses them.
func (s *Site) HandleForm(pattern string, scope service.Scope, do Submit) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		next, err := submit(w, r, scope, do)
		if err != nil {
			s.WriteError(w, r, err)
			return
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	})
}

// submit checks the scope and the size of a form, and executes it.
func submit(w http.ResponseWriter, r *http.Request, scope service.Scope, do Submit) (next string, err error) {
	me, err := service.Require(r.Context(), scope)
	if err != nil {
		return "", err
	}
	if err := server.ReadForm(w, r, formLimit); err != nil {
		return "", err
	}
	for name, values := range r.PostForm {
		for _, value := range values {
			if len(value) > fieldLimit {
				return "", fault.New(fault.Invalid, "%s: %d bytes, want at most %d", name, len(value), fieldLimit)
			}
		}
	}
	return do(r, me.Name)
}
