package web_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/web"
)

// site is a world with its pages served.
type site struct {
	*servertest.World
	*httptest.Server
	api *server.Server
}

func serve(t *testing.T) *site {
	t.Helper()
	w := servertest.Start(t)
	return listen(t, w, web.New(w.Service))
}

// listen serves the pages of a world until the test ends.
func listen(t *testing.T, w *servertest.World, pages http.Handler) *site {
	t.Helper()
	api := server.New(w.Service, server.Options{Token: "a-token-of-the-home", Pages: pages, Version: "test"})
	s := httptest.NewServer(api.Handler())
	t.Cleanup(func() {
		s.CloseClientConnections() // live pages never end on their own
		s.Close()
	})
	at := &site{w, s, api}
	login, err := url.Parse(at.login())
	if err != nil {
		t.Fatal(err)
	}
	s.URL = "http://" + login.Host // the home's own name: cookies are only accepted there
	return at
}

// login returns an address that logs in one browser.
func (s *site) login() string {
	login, err := url.Parse(s.api.LoginURL("ana"))
	if err != nil {
		panic(err)
	}
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	login.Host = net.JoinHostPort(login.Hostname(), port)
	return login.String()
}

// A failure's error is on its deployment's page once: not again beside the step, nor at the end of the
// log.
func TestDeploymentSaysAnErrorOnce(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Apply(t, servertest.Definition)
	s.Script.End("prod/west/yew host-deployed", action.Outcome{Kind: action.Fatal, Error: "not healthy\npanic: no such bucket"})
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "fails", servertest.Ended)
	response, err := http.Get("http://" + s.Listener.Addr().String() + fmt.Sprintf("/deployments/greeter/%d", ref.Number))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if got := strings.Count(string(page), "no such bucket"); err != nil || got != 1 {
		t.Errorf("%v: the page says the error %d times", err, got)
	}
}
