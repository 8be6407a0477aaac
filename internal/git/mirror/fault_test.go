package mirror

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/address"
	"github.com/waybill-dev/waybill/internal/git/gittest"
)

// answer returns a function that answers requests whose path contains a text with a status.
func answer(part string, status int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.String(), part) {
			return false
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
		return true
	}
}

func TestErrorsOfTheHostHaveTheirClass(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	for name, c := range map[string]struct {
		before func(http.ResponseWriter, *http.Request) bool
		change func(*Request)
		class  Class
		words  string
	}{
		"429":                 {answer("upload-pack", 429, ""), nil, Throttle, "429"},
		"502":                 {answer("upload-pack", 502, ""), nil, Throttle, "502"},
		"503":                 {answer("upload-pack", 503, ""), nil, Throttle, "503"},
		"504 while pushing":   {answer("git-receive-pack", 504, ""), nil, Throttle, "504"},
		"500":                 {answer("upload-pack", 500, ""), nil, Retry, "500"},
		"403":                 {answer("upload-pack", 403, ""), nil, Fatal, "403"},
		"403 while pushing":   {answer("git-receive-pack", 403, ""), nil, Fatal, "403"},
		"404":                 {answer("upload-pack", 404, ""), nil, Fatal, "not found"},
		"422":                 {answer("upload-pack", 422, ""), nil, Fatal, "422"},
		"wrong password":      {nil, func(r *Request) { r.Remote.Password = "wrong" }, Fatal, ""},
		"no password":         {nil, func(r *Request) { r.Remote.Password = "" }, Fatal, ""},
		"no such repository":  {nil, func(r *Request) { r.Remote.URL = strings.Replace(h.URL(), "fleet", "none", 1) }, Fatal, "not found"},
		"no such base":        {nil, func(r *Request) { r.Base = "trunk" }, Fatal, "no branch trunk"},
		"unknown certificate": {nil, func(r *Request) { r.Remote.CA = nil }, Throttle, "certificate"},
		"bad CA":              {nil, func(r *Request) { r.Remote.CA = []byte("none") }, Fatal, ""},
		"refused":             {nil, func(r *Request) { r.Remote.URL = "https://127.0.0.1:1/fleet.git" }, Throttle, ""},
		"unknown name":        {nil, func(r *Request) { r.Remote.URL = "https://host.invalid/fleet.git" }, Throttle, "resolve"},
		"plain HTTP":          {nil, func(r *Request) { r.Remote.URL = "http://127.0.0.1/fleet.git" }, Fatal, "plain HTTP"},
		"a file":              {nil, func(r *Request) { r.Remote.URL = h.Dir }, Fatal, "want one of https or ssh"},
		"a helper":            {nil, func(r *Request) { r.Remote.URL = "ext::sh -c id" }, Fatal, "URL"},
		"an option":           {nil, func(r *Request) { r.Remote.URL = "--upload-pack=id" }, Fatal, "URL"},
		"a password":          {nil, func(r *Request) { r.Remote.URL = "https://a:b@host/fleet.git" }, Fatal, "Secret"},
		"an odd branch":       {nil, func(r *Request) { r.Head = "a..b" }, Fatal, "branch"},
		"an odd revision":     {nil, func(r *Request) { r.Revision = "a\nb" }, Fatal, "printed"},
		"nothing answers": {func(http.ResponseWriter, *http.Request) bool {
			panic(http.ErrAbortHandler)
		}, nil, Throttle, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h.Intercept(c.before)
			defer h.Intercept(nil)
			request := h.request("6.6.0")
			if c.change != nil {
				c.change(&request)
			}
			_, err := open(t).Propose(t.Context(), request)
			if err == nil || ClassOf(err) != c.class || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %s: %v", ClassOf(err), err)
			}
			if err != nil && (strings.Contains(err.Error(), gittest.Password) || len(err.Error()) > 2*mostText) {
				t.Errorf("the text is %q", err)
			}
		})
	}
	if h.Tip(head) != "" {
		t.Error("a branch was pushed")
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect is followed") }))
	t.Cleanup(elsewhere.Close)
	h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, elsewhere.URL+r.URL.String(), http.StatusMovedPermanently)
		return true
	})
	_, err := open(t).Propose(t.Context(), h.request("6.6.0"))
	if ClassOf(err) != Fatal {
		t.Errorf("%v", err)
	}
}

func TestTheHostRefusesThePush(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	h.Hook("pre-receive", "echo 'GitHost: the branch is protected' >&2; exit 1\n")
	_, err := open(t).Propose(t.Context(), h.request("6.6.0"))
	if e, ok := errors.AsType[*Error](err); !ok || e.Class != Fatal || e.Reason != "Refused" ||
		!strings.Contains(e.Text, "the branch is protected") {
		t.Errorf("%v", err)
	}
}

func TestALostResponseOfThePushIsFoundAgain(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	h.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "git-receive-pack") {
			return false
		}
		h.Intercept(nil)
		h.Handler().ServeHTTP(httptest.NewRecorder(), r) // the push happens, and its response is lost
		panic(http.ErrAbortHandler)
	})
	first, err := s.Propose(t.Context(), h.request("6.6.0"))
	tip := h.Tip(head)
	if err == nil && (first.Races == 0 || first.Head != tip) { // curl sends it again, and that loses a race against itself
		t.Errorf("the push has an answer: %+v", first)
	}
	if r := propose(t, s, h.request("6.6.0")); r.Pushed || r.Head != tip || tip == "" {
		t.Errorf("%+v, the branch is at %q", r, tip)
	}
}

func TestAPersonPushesAtTheSameTime(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	times := 0
	h.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.Contains(r.URL.RawQuery, "git-receive-pack") && times < 2 {
			times++
			h.Write(map[string]string{"by-a-person": strings.Repeat("x", times)})
			h.Commit(head)
		}
		return false
	})
	r := propose(t, s, h.request("6.6.0"))
	if !r.Pushed || !r.Foreign || r.Races != 2 || h.Read(head, "by-a-person") != "xx" {
		t.Errorf("%+v", r)
	}
}

func TestAnEndlessRaceEnds(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	h.Hook("update", "echo 'fatal: cannot lock ref refs/heads/x: is at a but expected b' >&2; exit 1\n")
	r, err := open(t).Propose(t.Context(), h.request("6.6.0"))
	if e, ok := errors.AsType[*Error](err); !ok || e.Reason != PushRace || e.Class != Retry || r.Races != mostRaces-1 {
		t.Errorf("%v after %d races", err, r.Races)
	}
}

func TestTwoInstancesProposeAtTheSameTime(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	results := make(chan Result, 4)
	for range cap(results) {
		s := open(t)
		go func() {
			r, err := s.Propose(t.Context(), h.request("6.6.0"))
			if err != nil {
				t.Error(err)
			}
			results <- r
		}()
	}
	pushed := 0
	for range cap(results) {
		r := <-results
		if r.Head != h.Tip(head) {
			t.Errorf("one has %s", r.Head)
		}
		if r.Pushed {
			pushed++
		}
	}
	if pushed < 1 {
		t.Error("none has pushed")
	}
}

func TestAnOperationEndsInTime(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	release := make(chan struct{})
	h.Intercept(func(http.ResponseWriter, *http.Request) bool {
		<-release
		return true
	})
	t.Cleanup(func() { close(release) })
	s, err := Open(Options{Dir: t.TempDir(), Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Propose(t.Context(), h.request("6.6.0"))
	if e, ok := errors.AsType[*Error](err); !ok || e.Reason != "Timeout" || e.Class != Throttle {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	if _, err := s.Propose(ctx, h.request("6.6.0")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestRefusedAddressesAreNotReached(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	for _, allow := range [][]netip.Prefix{nil, {netip.MustParsePrefix("127.0.0.0/8")}} {
		s, err := Open(Options{Dir: t.TempDir(), Check: func(at netip.Addr) error { return address.Check(at, allow) }})
		if err != nil {
			t.Fatal(err)
		}
		h.Intercept(nil)
		r, err := s.Propose(t.Context(), h.request("6.6.0"))
		if allow == nil {
			if ClassOf(err) != Fatal || !strings.Contains(err.Error(), "loopback") || len(h.Called()) > 0 {
				t.Errorf("%v, calls %v", err, h.Called())
			}
		} else if err != nil || r.Head == "" {
			t.Errorf("%v", err)
		}
	}
}

func TestCredentialsDoNotStayOnDisk(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	propose(t, s, h.request("6.6.0"))
	err := filepath.WalkDir(s.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && strings.HasSuffix(path, ".keys") {
				t.Errorf("%s is left", path)
			}
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), gittest.Password) {
			t.Errorf("%s has the password", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
