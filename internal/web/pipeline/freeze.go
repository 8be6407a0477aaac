package pipeline

import (
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// freeze keeps back every start in a pipeline, for a limited time if the form has one.
func (p *pages) freeze(r *http.Request, by string) (next string, err error) {
	name, freeze := r.PathValue("pipeline"), admission.Freeze{By: by, Reason: r.PostFormValue("reason")}
	if r.PostFormValue("for") != "" {
		pause, err := page.Duration(r, "for")
		if err != nil {
			return "", err
		}
		freeze.Until = time.Now().Add(pause)
	}
	_, err = p.service.Freeze(r.Context(), name, freeze)
	return page.PipelinePath(name), err
}

// thaw ends the freeze of a pipeline.
func (p *pages) thaw(r *http.Request, by string) (next string, err error) {
	name := r.PathValue("pipeline")
	_, err = p.service.Thaw(r.Context(), name, by, r.PostFormValue("reason"))
	return page.PipelinePath(name), err
}

// FreezeSays returns the effect of the button that freezes.
func (p pipelinePage) FreezeSays() string {
	return "No stage, group or host starts until it is thawed; what has started on a host runs to its end. " +
		p.underWay("waits", "wait") + " Rollbacks wait too."
}

// ThawSays returns the effect of the button that thaws.
func (p pipelinePage) ThawSays() string {
	return "What the freeze keeps back starts as soon as its turn comes. " + p.underWay("resumes", "resume")
}

// underWay returns a sentence about the deployments on the way, with one verb or the other.
func (p pipelinePage) underWay(one, many string) string {
	if len(p.Active) == 0 {
		return "No deployment is on the way now."
	}
	return page.Plural(len(p.Active), "deployment on the way "+one, "deployments on the way "+many) + "."
}
