package build

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// passwordField begins the names of the fields of passwords.
const passwordField = "password-"

// form is the data of the form that starts a build of a project.
type form struct {
	Projects []service.ProjectView
	Engines  []string // engines to choose from; nil: none
	Newest   string   // id of the newest build at the time of the page
}

// Stored reports whether the build is in the database, where it can be changed from here.
func (p buildPage) Stored() bool {
	_, err := strconv.ParseInt(p.ID, 10, 64)
	return err == nil
}

// CanRerun reports whether the build can be run again, as a new build.
func (p buildPage) CanRerun() bool { return p.Stored() && p.Ended() && p.Deployment == 0 }

// CanResume reports whether it can be run again with its completed steps. A completed build has no
// step left.
func (p buildPage) CanResume() bool {
	return p.CanRerun() && p.Engine == "" && p.ExpiredOn.IsZero() &&
		p.Status != build.Completed && p.Status != build.Skipped
}

// Passwords lists the inputs that a rerun needs again.
func (p buildPage) Passwords() (names []string) {
	for _, param := range p.Params {
		if param.Hidden {
			names = append(names, param.Name)
		}
	}
	return names
}

// buildPath returns the address of a build's page.
func buildPath(id string) string { return "/builds/" + url.PathEscape(id) }

// run starts a build and leads to it.
func (p *pages) run(r *http.Request, by string) (next string, err error) {
	o := service.NewBuild{
		Project: r.PostFormValue("project"), Branch: strings.TrimSpace(r.PostFormValue("branch")),
		Environment: strings.TrimSpace(r.PostFormValue("environment")), Stages: strings.Fields(r.PostFormValue("stages")),
		Engine: r.PostFormValue("engine"), By: by, IdempotencyKey: pressKey(r),
	}
	if o.Inputs, err = inputLines(r.PostFormValue("inputs")); err != nil {
		return "", err
	}
	made, _, err := p.service.RunBuild(r.Context(), o)
	return buildPath(made.ID), err
}

// inputLines reads a line NAME=VALUE for each input.
func inputLines(text string) (map[string]string, error) {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fault.New(fault.Invalid, "inputs: want a line such as log-level=debug for each")
		}
		values[strings.TrimSpace(name)] = value
	}
	return values, nil
}

// pressKey returns a key that is the same when the same form is sent twice: a button that is
// pressed twice makes one build.
func pressKey(r *http.Request) string {
	form := url.Values{}
	for field, values := range r.PostForm {
		if !strings.HasPrefix(field, passwordField) { // the key must not depend on a password
			form[field] = values
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(r.URL.Path+"\x00"+form.Encode())))
}

// newestBuild returns the id of the newest build. It is a field of forms, so that they differ after
// each new build.
func (p *pages) newestBuild(r *http.Request) (string, error) {
	list, err := p.service.Builds(r.Context(), buildview.Query{Limit: 1})
	if err != nil || len(list.Builds) == 0 {
		return "", err
	}
	return list.Builds[0].ID, nil
}

// rerun runs a build again and leads to the new one.
func (p *pages) rerun(r *http.Request, by string) (next string, err error) {
	o := service.BuildRerun{
		ID: r.PathValue("build"), Resume: r.PostFormValue("resume") != "", Passwords: map[string]string{},
		By: by, IdempotencyKey: pressKey(r),
	}
	for field := range r.PostForm {
		if name, ok := strings.CutPrefix(field, passwordField); ok {
			o.Passwords[name] = r.PostFormValue(field)
		}
	}
	made, _, err := p.service.RerunBuild(r.Context(), o)
	return buildPath(made.ID), err
}

func (p *pages) cancel(r *http.Request, by string) (next string, err error) {
	id := r.PathValue("build")
	_, err = p.service.CancelBuild(r.Context(), id, by)
	return buildPath(id), err
}

func (p *pages) delete(r *http.Request, _ string) (next string, err error) {
	return "/builds", p.service.DeleteBuild(r.Context(), r.PathValue("build"))
}
