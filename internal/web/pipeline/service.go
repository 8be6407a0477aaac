package pipeline

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// serviceAddress is the pattern of the address of a service's page.
const serviceAddress = "/pipelines/{pipeline}/services/{stage}/{group}/{host}"

// outputShown bounds the bytes of a service's output on its page: the last ones. A live page reads
// them again and again.
const outputShown = 32 << 10

// servicePage is the data of the page of a host's service.
type servicePage struct {
	service.ServiceStatusView
	Pipeline   string
	Host       string // path below the pipeline: beta/all/oak
	Supervised bool   // Waybill starts the service and reads its output
	Path       string // address of the page; its forms are below
	Files      *files // nil: not compared
	Output     string
	Cut        bool   // Output lacks its beginning
	Unread     string // reason why Output is left out
}

// serviceOf returns the pipeline and the host in a request's path.
func serviceOf(r *http.Request) (name, host string) {
	parts := []string{r.PathValue("stage"), r.PathValue("group"), r.PathValue("host")}
	return r.PathValue("pipeline"), strings.Join(parts, "/")
}

// servicePath returns the address of a service's page.
func servicePath(r *http.Request) string {
	return page.PipelinePath(r.PathValue("pipeline")) + "/services/" + url.PathEscape(r.PathValue("stage")) + "/" +
		url.PathEscape(r.PathValue("group")) + "/" + url.PathEscape(r.PathValue("host"))
}

// hostService returns the page of the service of a host.
func (p *pages) hostService(r *http.Request) (page.Content, error) {
	name, host := serviceOf(r)
	data := servicePage{Pipeline: name, Host: host, Path: servicePath(r)}
	var err error
	data.ServiceStatusView, err = p.service.ServiceStatus(r.Context(), name, pipeline.Path(name, host), false)
	if err != nil {
		return page.Content{}, err
	}
	data.Supervised = data.Manager == pipeline.ManagerProcess || data.Manager == pipeline.ManagerSystemd
	if data.Supervised {
		p.readOutput(r, &data)
	}
	if data.ServiceStatusView.Host != nil {
		data.Files = p.verified.of(data.Path, data.ServiceStatusView.Host.Release)
	}
	return page.Content{Title: host + " of " + name, Nav: "pipelines", Data: data}, nil
}

// readOutput fills in the end of the service's output, or the reason why it cannot be shown. Output
// may be confidential: it needs a token even on the server's machine.
func (p *pages) readOutput(r *http.Request, data *servicePage) {
	if _, err := service.Require(r.Context(), service.ScopeRead); err != nil {
		data.Unread = "Log in to read the output: it may be confidential."
		return
	}
	if data.State != nil && data.State.Error != "" {
		data.Unread = "The host does not answer." // reading its output would only take longer
		return
	}
	q := service.ServiceLogQuery{Pipeline: data.Pipeline, Target: data.Target, Most: outputShown}
	view, err := p.service.ServiceLog(r.Context(), q)
	if err != nil {
		data.Unread = err.Error()
		return
	}
	data.Output, data.Cut = withoutControls(view.Text), view.Cut
}

// withoutControls returns text without the control characters that a browser would show as boxes or
// not at all.
func withoutControls(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, text)
}

// files is a host's comparison of the files of its release with the artifact's.
type files struct {
	Release string
	At      time.Time
	Changed []string // at most 20
}

// verified keeps the newest comparison of each host, since a live page must not repeat it. The zero
// value is ready for use.
type verified struct {
	mu    sync.Mutex
	pages map[string]files // keys are addresses of pages
}

// mostVerified bounds the comparisons that are kept.
const mostVerified = 1000

func (v *verified) keep(path string, f files) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pages == nil || len(v.pages) >= mostVerified {
		v.pages = map[string]files{}
	}
	v.pages[path] = f
}

// of returns the comparison of a release on a host, or nil.
func (v *verified) of(path, release string) *files {
	v.mu.Lock()
	defer v.mu.Unlock()
	if f, ok := v.pages[path]; ok && f.Release == release {
		return &f
	}
	return nil
}

// verifyService has a host compare the files of its release with the artifact's.
func (p *pages) verifyService(r *http.Request, _ string) (next string, err error) {
	name, host := serviceOf(r)
	view, err := p.service.ServiceStatus(r.Context(), name, pipeline.Path(name, host), true)
	if err == nil && view.Host != nil {
		p.verified.keep(servicePath(r), files{view.Host.Release, time.Now(), view.Changed})
	}
	return servicePath(r), err
}

// restartService enqueues a restart of the service of a host.
func (p *pages) restartService(r *http.Request, by string) (next string, err error) {
	name, host := serviceOf(r)
	_, err = p.service.RestartService(r.Context(), service.ServiceRestart{Pipeline: name, Target: pipeline.Path(name, host),
		Reason: r.PostFormValue("reason"), Verify: r.PostFormValue("verify") != "", By: by})
	return servicePath(r), err
}

// serviceTone returns the tone of a service's state.
func serviceTone(s *service.Services) page.Tone {
	switch s.State {
	case service.ServiceUp:
		if s.Restarts == 0 {
			return page.Finished
		}
		return page.Backoff
	case service.ServiceDown:
		return page.Failed
	case service.ServiceStopped:
		return page.Ended
	}
	return page.Backoff
}
