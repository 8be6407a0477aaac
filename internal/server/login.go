package server

import (
	_ "embed"
	"html/template"
	"net/http"
	"strings"
	"time"
)

//go:embed login.html
var loginHTML string

// loginPage is what the form shows.
type loginPage struct{ Next, Error string }

// login turns a one-time code, or a token typed into the form, into a cookie.
func (a *access) login(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	next := localPath(r.FormValue("next"))
	switch {
	case r.Method == http.MethodPost:
		if !same(strings.TrimSpace(r.PostFormValue("token")), a.token) {
			a.form(w, http.StatusUnauthorized, loginPage{next, "This token is not valid."})
			return
		}
		a.enter(w, r, "browser", next)
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
		a.enter(w, r, by, next)
	}
}

func (a *access) enter(w http.ResponseWriter, r *http.Request, by, next string) {
	http.SetCookie(w, a.sessions.cookie(by, time.Now(), r.TLS != nil))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (a *access) form(w http.ResponseWriter, status int, page loginPage) {
	form := template.Must(template.New("login").Parse(loginHTML))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
	w.WriteHeader(status)
	form.Execute(w, page) // a browser that went away needs no page
}

// localPath keeps a redirect on this server.
func localPath(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.HasPrefix(path, `/\`) {
		return "/"
	}
	return path
}
