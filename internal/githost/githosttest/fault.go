package githosttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Fault is a fault of a model host. The first requests that match suffer it.
type Fault struct {
	Match string // regular expression for method, path and query, such as "POST .*/pulls$"
	Times int    // number of requests; 0: one
	After bool   // the request takes effect first

	// At most one of these; none: the connection breaks.
	Status int  // this answer instead
	Half   bool // the first half of the answer
	Until  <-chan struct{}

	Header map[string]string // headers of the answer with Status
	Body   string            // its body

	match *regexp.Regexp
}

// Inject adds a fault.
func (h *Host) Inject(f Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.match, f.Times = regexp.MustCompile(f.Match), max(1, f.Times)
	h.faults = append(h.faults, &f)
}

// Calls returns the requests since the last call, as method and path.
func (h *Host) Calls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls
	h.calls = nil
	return calls
}

// Writes returns the requests since the last call of Calls that write.
func (h *Host) Writes() (writes []string) {
	for _, call := range h.Calls() {
		if !strings.HasPrefix(call, http.MethodGet) {
			writes = append(writes, call)
		}
	}
	return writes
}

// The ways in which a model differs from an ideal host.

// HideNewest makes so many lists lack the newest pull request.
func (h *Host) HideNewest(lists int) { h.set(func() { h.hidden = lists }) }

// SetPageSize limits pages, whatever a request wants.
func (h *Host) SetPageSize(size int) { h.set(func() { h.pageSize = size }) }

// MergeLater makes merges asynchronous.
func (h *Host) MergeLater() { h.set(func() { h.async = true }) }

// FailMerges makes asynchronous merges fail.
func (h *Host) FailMerges() { h.set(func() { h.async, h.stuck = true, true }) }

// RequireChecks makes the base branch refuse merges until all checks of the head have passed, and at least one has.
func (h *Host) RequireChecks() { h.set(func() { h.required = true }) }

// BeforeNextWrite calls a function before the next request that writes takes effect.
func (h *Host) BeforeNextWrite(f func()) { h.set(func() { h.before = f }) }

// Touch makes the newest pull request one that has just changed.
func (h *Host) Touch() { h.Edit(func(p *Pull) { p.updated = time.Now().UTC() }) }

func (h *Host) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// faultFor returns the fault that a request suffers.
func (h *Host) faultFor(call string) *Fault {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
	for _, f := range h.faults {
		if f.Times > 0 && f.match.MatchString(call) {
			f.Times--
			return f
		}
	}
	return nil
}

// intercept records requests, checks their credential, and injects faults.
func (h *Host) intercept(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := h.faultFor(r.Method + " " + r.URL.RequestURI())
		if !h.allowed(r) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"message":"Bad credentials"}`)
			return
		}
		if r.Method != http.MethodGet {
			var before func()
			h.set(func() { before, h.before = h.before, nil })
			if before != nil {
				before()
			}
		}
		if f == nil {
			h.serve(next, w, r)
			return
		}
		answer := httptest.NewRecorder()
		if f.After || f.Half {
			next.ServeHTTP(answer, r)
		}
		if f.Until != nil {
			select {
			case <-f.Until:
			case <-r.Context().Done():
			}
		}
		f.answer(w, answer)
	})
}

// ConfirmUnchanged makes the model answer conditional requests.
func (h *Host) ConfirmUnchanged() { h.set(func() { h.etags = true }) }

// NotModified returns the number of answers that confirmed an unchanged state.
func (h *Host) NotModified() (n int) {
	h.set(func() { n = h.unmodified })
	return n
}

// Report makes the model report a rate: so many requests until a time.
func (h *Host) Report(limit int, reset time.Time) { h.set(func() { h.limit, h.reset = limit, reset }) }

// serve answers a request without faults.
func (h *Host) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	next.ServeHTTP(answer, r)
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	if h.limit > 0 {
		h.used++
		w.Header().Set("X-Ratelimit-Limit", strconv.Itoa(h.limit))
		w.Header().Set("X-Ratelimit-Remaining", strconv.Itoa(max(1, h.limit-h.used)))
		w.Header().Set("X-Ratelimit-Reset", strconv.FormatInt(h.reset.Unix(), 10))
	}
	if h.etags && r.Method == http.MethodGet {
		sum := sha256.Sum256(answer.Body.Bytes())
		etag := fmt.Sprintf("%q", hex.EncodeToString(sum[:8]))
		w.Header().Set("Etag", etag)
		if r.Header.Get("If-None-Match") == etag {
			h.unmodified++
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(answer.Code)
	_, _ = answer.Body.WriteTo(w) // a client that left gets nothing
}

// answer sends the faulty answer.
func (f *Fault) answer(w http.ResponseWriter, real *httptest.ResponseRecorder) {
	switch {
	case f.Status != 0:
		w.Header().Set("Content-Type", "application/json")
		for name, value := range f.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(f.Status)
		fmt.Fprint(w, f.Body)
	case f.Half:
		body := real.Body.Bytes()
		for name, values := range real.Header() {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(real.Code)
		_, _ = bytes.NewReader(body[:len(body)/2]).WriteTo(w) // the client sees a broken connection
		panic(http.ErrAbortHandler)
	default:
		panic(http.ErrAbortHandler) // the connection breaks
	}
}

// allowed reports whether a request has the model's credential, in the vendor's form.
func (h *Host) allowed(r *http.Request) bool {
	_, password, _ := r.BasicAuth()
	switch got := r.Header.Get("Authorization"); {
	case got == "token "+Token, got == "Bearer "+Token, password == Token, r.Header.Get("Private-Token") == Token:
		return true
	case h.Vendor == "github":
		return h.allowedApp(r)
	}
	return false
}
