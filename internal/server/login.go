package server

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

//go:embed login.html
var loginHTML string

// loginPage is what the form shows.
type loginPage struct{ Next, Error string }

// login turns a one-time code, or a token typed into the form, into a cookie.
func (a *access) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	w.Header().Set("Cache-Control", "no-store")
	next := localPath(r.FormValue("next"))
	switch {
	case r.Method == http.MethodPost:
		opened, err := a.byToken(r)
		if err != nil {
			a.form(w, fault.CodeOf(err).HTTP(), loginPage{next, "Not logged in: " + err.Error() + "."})
			return
		}
		a.enter(w, r, opened, next)
	case r.Method != http.MethodGet || r.FormValue("code") == "":
		a.form(w, http.StatusOK, loginPage{Next: next})
	case r.Header.Get("Sec-Purpose") != "":
		w.WriteHeader(http.StatusNoContent) // a browser looks ahead: that must not use the code up
	default:
		by, ok := a.redeem(r.FormValue("code"))
		if !ok {
			a.form(w, http.StatusUnauthorized, loginPage{next, "This address has been used, or is of an earlier start."})
			return
		}
		a.enter(w, r, session{By: by}, next)
	}
}

// byToken is the session for the token in the form.
func (a *access) byToken(r *http.Request) (session, error) {
	token := strings.TrimSpace(r.PostFormValue("token"))
	if same(token, a.token) {
		return session{By: "browser"}, nil
	}
	hash := sha256.Sum256([]byte(token))
	identity, err := a.lookUp(r.Context(), hash)
	return session{By: identity.Name, Token: hex.EncodeToString(hash[:])}, err
}

func (a *access) enter(w http.ResponseWriter, r *http.Request, opened session, next string) {
	http.SetCookie(w, a.sessions.cookie(opened, time.Now(), Encrypted(r)))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (a *access) form(w http.ResponseWriter, status int, page loginPage) {
	form := template.Must(template.New("login").Parse(loginHTML))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_ = form.Execute(w, page) // a browser that went away needs no page
}

// localPath keeps a redirect on this server.
func localPath(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.HasPrefix(path, `/\`) {
		return "/"
	}
	return path
}
