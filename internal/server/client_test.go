package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
)

const homesToken = "wb_the-token-of-the-home"

// receiver notes the tokens that a program receives.
type receiver struct {
	mu     sync.Mutex
	tokens []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, ask *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = append(r.tokens, ask.Header.Get("Authorization"))
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "[]")
}

func (r *receiver) got() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.tokens, ",")
}

// TestTheHomesTokenIsSentOnceTheServerHasProvedThatItHasIt: a program that has taken the port gets no token, whatever it answers, and
// also when it passes the question on to the server. One that takes the port later gets none either.
func TestTheHomesTokenIsSentOnceTheServerHasProvedThatItHasIt(t *testing.T) {
	t.Parallel()
	var real receiver
	own := httptest.NewServer(newAccess(homesToken, nil, "127.0.0.1:0", nil, &real))
	defer own.Close()
	c := client.NewHome(own.URL, homesToken, "ana")
	for range 2 {
		if _, err := operation.ListPipelines.Call(t.Context(), c, operation.Nothing{}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.TrimLeft(real.got(), ","), "Bearer "+homesToken+",Bearer "+homesToken; got != want {
		t.Errorf("the home's server got %q, want %q", got, want)
	}
	for name, answer := range map[string]func(*receiver) http.Handler{
		"another program": func(r *receiver) http.Handler { return r },
		"another home": func(r *receiver) http.Handler {
			return newAccess("wb_another-home-s-token", nil, "127.0.0.1:0", nil, r)
		},
		"one that passes the question on": func(r *receiver) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, ask *http.Request) {
				if ask.URL.Path != "/healthz" {
					r.ServeHTTP(w, ask)
					return
				}
				next, err := http.NewRequestWithContext(ask.Context(), ask.Method, own.URL+"/healthz", nil)
				if err != nil {
					t.Error(err)
					return
				}
				next.Header, next.Host = ask.Header.Clone(), ask.Host
				got, err := http.DefaultClient.Do(next)
				if err != nil {
					t.Error(err)
					return
				}
				defer got.Body.Close()
				w.Header().Set(operation.ProofHeader, got.Header.Get(operation.ProofHeader))
			})
		},
	} {
		var fake receiver
		server := httptest.NewServer(answer(&fake))
		_, err := operation.ListPipelines.Call(t.Context(), client.NewHome(server.URL, homesToken, "ana"), operation.Nothing{})
		server.Close()
		if got := strings.Trim(fake.got(), ","); err != nil || got != "" {
			t.Errorf("%s got %q, %v", name, got, err)
		}
	}
}

// TestATokenIsNotSentToATakenPort: the server ends, and another program takes its port.
func TestATokenIsNotSentToATakenPort(t *testing.T) {
	t.Parallel()
	own := httptest.NewServer(newAccess(homesToken, nil, "127.0.0.1:0", nil, new(receiver)))
	c := client.NewHome(own.URL, homesToken, "ana")
	if _, err := operation.ListPipelines.Call(t.Context(), c, operation.Nothing{}); err != nil {
		t.Fatal(err)
	}
	own.Close()
	taken, err := net.Listen("tcp", own.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var fake receiver
	program := &httptest.Server{Listener: taken, Config: &http.Server{Handler: &fake}}
	program.Start()
	defer program.Close()
	if _, err := operation.ListPipelines.Call(t.Context(), c, operation.Nothing{}); !fault.Is(err, fault.Unavailable) ||
		!errors.Is(err, client.ErrUnproven) {
		t.Errorf("got %v", err)
	}
	if got := strings.Trim(fake.got(), ","); got != "" {
		t.Errorf("the program got %q", got)
	}
}

// TestRedirectsStayAtTheServer: a redirect to another port would take the token along.
func TestRedirectsStayAtTheServer(t *testing.T) {
	t.Parallel()
	var fake receiver
	other := httptest.NewServer(&fake)
	defer other.Close()
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/pipelines":
			http.Redirect(w, r, "/here", http.StatusFound)
		case "/here":
			_, _ = io.WriteString(w, "[]")
		default:
			http.Redirect(w, r, other.URL+"/there", http.StatusFound)
		}
	}))
	defer own.Close()
	c := client.New(own.URL, "wb_given", "ana")
	if _, err := operation.ListPipelines.Call(t.Context(), c, operation.Nothing{}); err != nil {
		t.Errorf("a redirect to the same place: %v", err)
	}
	if _, err := operation.GetStatus.Call(t.Context(), c, operation.Nothing{}); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "it redirects to http://127.0.0.1:") {
		t.Errorf("a redirect to another port: %v", err)
	}
	if got := fake.got(); got != "" {
		t.Errorf("the other port got %q", got)
	}
}
