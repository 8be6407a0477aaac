// Package web is Waybill's pages: what runs where, what waits and why, and buttons for readers with
// the scopes execute, operate and approve. The pages are HTML that the server renders, and they
// work without script. With a small script they follow the log live: the server renders the page's
// content again after a change and sends it as an event.
package web

import (
	"embed"
	"html/template"
	"net/http"

	"github.com/waybill-dev/waybill/internal/server"
)

//go:embed templates/*.html
var templateFiles embed.FS

// Pages answers browsers. A server.Server in front of it enforces the access rules.
type Pages struct {
	service   *server.Service
	templates *template.Template
	mux       *http.ServeMux
	verified  verified
	colours   string // style sheet of the colours of logs
	assets    string // digest of the assets; it is in their addresses, so that browsers may cache them forever
}

// New returns the pages of a service.
func New(s *server.Service) *Pages {
	p := &Pages{service: s, mux: http.NewServeMux(), colours: ansiStyle()}
	p.assets = digest(assetFiles, p.colours)
	p.templates = template.Must(template.New("").Funcs(templateFunctions()).ParseFS(templateFiles, "templates/*.html"))
	p.handlePage("GET /{$}", p.pipelines)
	p.handlePage("GET /pipelines/{pipeline}", p.pipeline)
	p.handlePage("GET /pipelines/{pipeline}/log", p.log)
	p.handlePage("GET /pipelines/{pipeline}/services/{stage}/{group}/{host}", p.hostService)
	p.handlePage("GET /pipelines/{pipeline}/history", p.history)
	p.handlePage("GET /pipelines/{pipeline}/metrics", p.metrics)
	p.handlePage("GET /pipelines/{pipeline}/plan", p.plan)
	p.handlePage("GET /pipelines/{pipeline}/rollback", p.confirmRollback)
	p.handlePage("GET /pipelines/{pipeline}/catch-up", p.confirmCatchUp)
	p.handlePage("GET /deployments/{pipeline}/{number}", p.deployment)
	p.handlePage("GET /deployments/{pipeline}/{number}/skip", p.confirmSkip)
	p.handlePage("GET /deployments/{pipeline}/{number}/again", p.confirmAgain)
	p.handlePage("GET /builds", p.builds)
	p.handlePage("GET /builds/{build}", p.build)
	p.mux.HandleFunc("GET /builds/{build}/rows", p.buildRows)
	p.handlePage("GET /status", p.status)
	p.handlePage("GET /actions", p.actions)
	p.handlePage("GET /actions/{id}", p.action)
	p.handlePage("GET /actions/replay", p.replay)
	p.handlePage("GET /lanes", p.lanes)
	p.handlePage("GET /schedules", p.schedules)
	p.handleForm("POST /deployments/{pipeline}/{number}/{command}", server.ScopeOperate, p.commandDeployment)
	p.handleForm("POST /deployments/{pipeline}/{number}/accept", server.ScopeOperate, p.acceptRevision)
	p.handleForm("POST /deployments/{pipeline}/{number}/again", server.ScopeExecute, p.deployAgain)
	p.handleForm("POST /deployments/{pipeline}/{number}/stages/{stage}/approve", server.ScopeApprove, p.approve(false))
	p.handleForm("POST /deployments/{pipeline}/{number}/stages/{stage}/reject", server.ScopeApprove, p.approve(true))
	p.handleForm("POST /pipelines/{pipeline}/services/{stage}/{group}/{host}/restart", server.ScopeOperate, p.restartService)
	p.handleForm("POST /pipelines/{pipeline}/services/{stage}/{group}/{host}/verify", server.ScopeOperate, p.verifyService)
	p.handleForm("POST /pipelines/{pipeline}/rollback", server.ScopeOperate, p.rollback)
	p.handleForm("POST /pipelines/{pipeline}/catch-up", server.ScopeExecute, p.catchUp)
	p.handleForm("POST /pipelines/{pipeline}/freeze", server.ScopeOperate, p.freeze)
	p.handleForm("POST /pipelines/{pipeline}/thaw", server.ScopeOperate, p.thaw)
	p.handleForm("POST /builds", server.ScopeExecute, p.runBuild)
	p.handleForm("POST /builds/{build}/rerun", server.ScopeExecute, p.rerunBuild)
	p.handleForm("POST /builds/{build}/cancel", server.ScopeOperate, p.cancelBuild)
	p.handleForm("POST /builds/{build}/delete", server.ScopeOperate, p.deleteBuild)
	p.handleForm("POST /actions/{id}/retry", server.ScopeOperate, p.retryAction)
	p.handleForm("POST /actions/{id}/cancel", server.ScopeOperate, p.cancelAction)
	p.handleForm("POST /actions/{id}/snooze", server.ScopeOperate, p.snoozeAction)
	p.handleForm("POST /actions/replay", server.ScopeOperate, p.replayActions)
	p.handleForm("POST /lanes/{command}", server.ScopeOperate, p.commandLane)
	p.mux.HandleFunc("GET /assets/{digest}/{file}", p.asset)
	p.mux.HandleFunc("/", p.writeNotFound)
	return p
}

func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setPageHeaders(w)
	p.mux.ServeHTTP(w, r)
}
