package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// output holds the output of a site's services.
type output struct {
	mu   sync.Mutex
	text string
}

// add appends lines to the output.
func (o *output) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text += fmt.Sprintf(format+"\n", args...)
}

// services starts a site whose host oak is up, elm restarts again and again, and yew does not answer.
func services(t *testing.T) (*site, *output) {
	t.Helper()
	s, printed := serve(t), &output{}
	s.Service.Inspect = func(_ context.Context, at pipeline.Place, _ string) (step.State, bool, error) {
		switch at.Host.Name {
		case "oak":
			return step.State{Supervisor: 7, Service: 8, Started: time.Now().Add(-time.Hour), Release: "3f2c9a1-9b1e07d29b1e",
				Running: "3f2c9a1-9b1e07d29b1e", Deployment: "greeter#1"}, true, nil
		case "elm":
			return step.State{Supervisor: 7, Restarts: 12, Exit: "3", Release: "3f2c9a1-9b1e07d29b1e", Previous: "5b01c3e-000000000000"}, true, nil
		}
		return step.State{}, true, errors.New("no answer within 10s")
	}
	s.Service.ReadLog = func(_ context.Context, _ pipeline.Place, _ *pipeline.Service, q step.LogQuery) (step.ServiceLog, bool, error) {
		printed.mu.Lock()
		defer printed.mu.Unlock()
		from := max(0, int64(len(printed.text))-q.Most)
		return step.ServiceLog{Text: []byte(printed.text[from:]), Cut: from > 0}, true, nil
	}
	s.Apply(t, servertest.Definition)
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	return s, printed
}

// The page of a service shows the host's report, and the newest output to readers with a token.
func TestServicePageShowsStateAndOutput(t *testing.T) {
	t.Parallel()
	s, printed := services(t)
	printed.add("a line before %s", strings.Repeat("x", 64<<10))
	printed.add("\x1b[31mlistening <here>\x07")
	const token = "a-token-of-the-home"
	for _, c := range []struct {
		host, token string
		want, not   []string
	}{
		{"beta/all/oak", token, []string{`t-finished">up</span>`, "3f2c9a1-9b1e07d29b1e", "[31mlistening &lt;here&gt;\n",
			"prints more", "/services/beta/all/oak/restart"}, []string{"greeter of<", "a line before", "\x1b", "\x07"}},
		{"beta/all/oak", "", []string{`t-finished">up</span>`, "Log in to read the output"}, []string{"listening", "/restart"}},
		{"prod/east/elm", token, []string{"restarting</span>", "12 <span", "last exit status 3", "5b01c3e-000000000000"}, nil},
		{"prod/west/yew", token, []string{"unknown</span>", "no answer within 10s", "The host does not answer.",
			"not known"}, []string{"listening"}},
		{"prod/west/oak", token, []string{`pipeline greeter has no host &#34;greeter/prod/west/oak&#34;`}, nil},
	} {
		page := s.page(t, "/pipelines/greeter/services/"+c.host, c.token)
		for _, text := range c.want {
			if !strings.Contains(page, text) {
				t.Errorf("%s, token %q: the page lacks %q:\n%s", c.host, c.token, text, page)
			}
		}
		for _, text := range c.not {
			if strings.Contains(page, text) {
				t.Errorf("%s, token %q: the page has %q", c.host, c.token, text)
			}
		}
	}
	if page := s.page(t, "/pipelines/greeter", token); !strings.Contains(page, `href="/pipelines/greeter/services/prod/east/elm"`) {
		t.Error("the page of the pipeline does not lead to the service of elm")
	}
}

// The button that restarts a service needs the scope operate, and stores an action by its reader.
func TestServicePageRestarts(t *testing.T) {
	t.Parallel()
	s, _ := services(t)
	const path = "/pipelines/greeter/services/beta/all/oak/restart"
	if got := s.post(t, path, "", "", nil); got != http.StatusUnauthorized && got != http.StatusForbidden {
		t.Errorf("without a token: %d", got)
	}
	if got := s.post(t, path, "a-token-of-the-home", "", url.Values{"reason": {"slow"}}); got != http.StatusSeeOther {
		t.Errorf("with the home's token: %d", got)
	}
	actions, err := s.Service.Actions(t.Context(), queue.ActionQuery{Handler: step.RestartHandler})
	if err != nil || len(actions) != 1 || !strings.Contains(string(actions[0].Parameters), `"reason":"slow"`) {
		t.Errorf("actions %+v, %v; want one restart", actions, err)
	}
}

// The files of a release are compared when a reader requests it, and not again by the live page; a
// release that has changed can be built again.
func TestServicePageVerifies(t *testing.T) {
	t.Parallel()
	s, _ := services(t)
	asked, changed := 0, []string{"data/<words>.txt"}
	s.Service.Verify = func(context.Context, pipeline.Place, string) ([]string, error) {
		asked++
		return changed, nil
	}
	const path, token = "/pipelines/greeter/services/beta/all/oak", "a-token-of-the-home"
	if page := s.page(t, path, token); strings.Contains(page, `id="files"`) || !strings.Contains(page, path+"/verify") || asked != 0 {
		t.Errorf("before a reader asks:\n%s", page)
	}
	if got := s.post(t, path+"/verify", "", "", nil); got != http.StatusUnauthorized && got != http.StatusForbidden {
		t.Errorf("without a token: %d", got)
	}
	if got := s.post(t, path+"/verify", token, "", nil); got != http.StatusSeeOther {
		t.Errorf("with the home's token: %d", got)
	}
	for range 2 {
		page := s.page(t, path, token)
		has(t, page, "changed</span> <code>data/&lt;words&gt;.txt</code>", "Build beside", `<input type="hidden" name="verify" value="true">`)
		if asked != 1 {
			t.Errorf("a changed file, asked %d times:\n%s", asked, page)
		}
	}
	if got := s.post(t, path+"/restart", token, "", url.Values{"verify": {"true"}}); got != http.StatusSeeOther {
		t.Errorf("the button that builds it again: %d", got)
	}
	actions, err := s.Service.Actions(t.Context(), queue.ActionQuery{Handler: step.RestartHandler})
	if err != nil || len(actions) != 1 || !strings.Contains(string(actions[0].Parameters), `"verify":true`) {
		t.Errorf("actions %+v, %v; want one restart that verifies", actions, err)
	}
	changed = nil
	if got := s.post(t, path+"/verify", token, "", nil); got != http.StatusSeeOther ||
		!strings.Contains(s.page(t, path, token), "those of the artifact") {
		t.Errorf("a whole release: %d", got)
	}
}
