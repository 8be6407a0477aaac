package server

import (
	"crypto/sha256"
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/waybill-dev/waybill/internal/fault"
)

//go:embed login.html
var loginHTML string

// loginPage is what the form shows.
type loginPage struct{ Next, Error string }

// codeAge is how long a one-time login code is good.
const codeAge = 15 * time.Minute

// loginCode logs one browser in.
type loginCode struct {
	visitor
	until time.Time
}

// newLoginCode makes a one-time login code.
func (a *access) newLoginCode(v visitor) string {
	code, now := randomHex(), time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for old, c := range a.codes {
		if now.After(c.until) {
			delete(a.codes, old)
		}
	}
	a.codes[code] = loginCode{v, now.Add(codeAge)}
	return code
}

// redeemCode takes a code, which is good once and for a while.
func (a *access) redeemCode(code string) (v visitor, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, ok := a.codes[code]
	delete(a.codes, code)
	return c.visitor, ok && time.Now().Before(c.until)
}

// serveLogin turns a one-time code, or a token typed into the form, into a cookie.
func (a *access) serveLogin(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	next := localPath(r.FormValue("next"))
	switch {
	case r.Method == http.MethodPost:
		v, err := a.byToken(r)
		if err != nil {
			a.writeLoginForm(w, fault.CodeOf(err).HTTP(), loginPage{next, "Not logged in: " + err.Error() + "."})
			return
		}
		a.startBrowserSession(w, r, v, next)
	case r.Method != http.MethodGet || r.FormValue("code") == "" || !a.site.isLogin(r.Host):
		a.writeLoginForm(w, http.StatusOK, loginPage{Next: next})
	case r.Header.Get("Sec-Purpose") != "":
		w.WriteHeader(http.StatusNoContent) // a browser looks ahead: that must not use the code up
	default:
		v, ok := a.redeemCode(r.FormValue("code"))
		if !ok {
			a.writeLoginForm(w, http.StatusUnauthorized, loginPage{next, "This address has been used, has expired, or is of an earlier start."})
			return
		}
		a.startBrowserSession(w, r, v, next)
	}
}

// serveLogout ends the browser's session, for good: its cookie is worth nothing elsewhere either.
func (a *access) serveLogout(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	cookie, err := a.sessions.endSession(r)
	if err != nil {
		WriteProblem(w, r, err)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// byToken finds who the token in the form belongs to.
func (a *access) byToken(r *http.Request) (visitor, error) {
	token := strings.TrimSpace(r.PostFormValue("token"))
	if sameSecret(token, a.token) {
		return visitor{by: "browser"}, nil
	}
	hash := sha256.Sum256([]byte(token))
	identity, err := a.lookUp(r.Context(), hash)
	return visitor{by: identity.Name, token: hash[:]}, err
}

// startBrowserSession gives the browser its cookie, under the name where cookies count: from another name it is sent there with a code.
func (a *access) startBrowserSession(w http.ResponseWriter, r *http.Request, v visitor, next string) {
	if !a.site.isLogin(r.Host) {
		there := a.site.loginOrigin(r.Host) + "/login?" + url.Values{"code": {a.newLoginCode(v)}, "next": {next}}.Encode()
		http.Redirect(w, r, there, http.StatusSeeOther)
		return
	}
	cookie, err := a.sessions.startSession(r.Context(), v, time.Now(), Encrypted(r))
	if err != nil {
		WriteProblem(w, r, err)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (a *access) writeLoginForm(w http.ResponseWriter, status int, page loginPage) {
	form := template.Must(template.New("login").Parse(loginHTML))
	action := "form-action 'self'" // browsers hold what the form's answer redirects to against it, too
	switch {
	case a.site.public != nil:
		action += " " + a.site.loginOrigin("")
	case a.site.loopback:
		action += " http://*.localhost:*"
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; "+action)
	w.WriteHeader(status)
	_ = form.Execute(w, page) // a browser that went away needs no page
}

// localPath keeps a redirect on this server. It refuses what browsers read as the start of another host.
func localPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.ContainsRune(text, '\\') || strings.ContainsFunc(text, unicode.IsControl) {
		return "/"
	}
	clean := path.Clean(u.EscapedPath())
	if u.RawQuery != "" {
		clean += "?" + u.RawQuery
	}
	return clean
}
