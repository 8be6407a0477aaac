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

// loginPage is the data of the login form.
type loginPage struct{ Next, Error string }

// codeAge is the lifetime of a one-time login code.
const codeAge = 15 * time.Minute

// largestLogin bounds the form of a login, in bytes.
const largestLogin = 64 << 10

// loginCode logs in one browser.
type loginCode struct {
	visitor
	until time.Time
}

// newLoginCode returns a one-time login code for a visitor, and removes expired codes.
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

// redeemCode returns the visitor of a code and removes the code. ok is false if the code is unknown or has expired.
func (a *access) redeemCode(code string) (v visitor, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, ok := a.codes[code]
	delete(a.codes, code)
	return c.visitor, ok && time.Now().Before(c.until)
}

// serveLogin logs a browser in by a one-time code, or by a token typed into the form.
func (a *access) serveLogin(w http.ResponseWriter, r *http.Request) {
	err := ReadForm(w, r, largestLogin)
	next := localPath(r.FormValue("next"))
	switch {
	case err != nil:
		a.writeLoginForm(w, fault.CodeOf(err).HTTP(), loginPage{next, "Not logged in: " + err.Error() + "."})
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
		w.WriteHeader(http.StatusNoContent) // a prefetch by the browser must not use up the code
	default:
		v, ok := a.redeemCode(r.FormValue("code"))
		if !ok {
			a.writeLoginForm(w, http.StatusUnauthorized,
				loginPage{next, "This address was used before, has expired, or is of an earlier start of the server."})
			return
		}
		a.startBrowserSession(w, r, v, next)
	}
}

// serveLogout ends the browser's session. Copies of its cookie become invalid too.
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

// byToken returns the visitor whose token is in the form.
func (a *access) byToken(r *http.Request) (visitor, error) {
	token := strings.TrimSpace(r.PostFormValue("token"))
	if sameSecret(token, a.token) {
		return visitor{by: "browser"}, nil
	}
	hash := sha256.Sum256([]byte(token))
	identity, err := a.lookUp(r.Context(), hash)
	return visitor{by: identity.Name, token: hash[:]}, err
}

// startBrowserSession gives the browser its cookie. Cookies are only accepted under the login host: a browser that used
// another name is redirected there with a code.
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

// writeLoginForm answers with the login form.
func (a *access) writeLoginForm(w http.ResponseWriter, status int, page loginPage) {
	form := template.Must(template.New("login").Parse(loginHTML))
	action := "form-action 'self'" // browsers also apply this to the redirect in the form's answer
	switch {
	case a.site.public != nil:
		action += " " + a.site.loginOrigin("")
	case a.site.loopback:
		action += " http://*.localhost:*"
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; "+action)
	w.WriteHeader(status)
	_ = form.Execute(w, page) // a browser that has gone needs no page
}

// localPath returns the path of a redirect, or "/" for an address that a browser may read as another host.
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
