package web

import (
	"net/http"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
)

// confirmPage is the data of a page that says what a button does before it is used. What it says
// comes from the server at that moment, and the page is live.
type confirmPage struct {
	Heading  string
	Pipeline string
	Ref      server.Ref     // of the deployment that the page is about; no number: of none
	Says     []string       // the consequences, in sentences
	Columns  []string       // of Rows
	Rows     [][]string     // what is changed, at most hostsPerPage rows
	More     int            // rows that are left out
	Refused  string         // why it cannot be done now; "": it can
	Hint     string         // what to do instead
	Choice   string         // address of the form that chooses a target; "": there is nothing to choose
	Targets  []string       // that may be chosen
	Target   string         // that is chosen, without the pipeline
	To       string         // address of the form
	Fields   []confirmField // that the form repeats
	Button   string
	Execute  bool // it needs the scope execute and not operate
	Explain  bool // a reason is required
}

// confirmField is a field of a form that its reader does not see.
type confirmField struct{ Name, Value string }

// refuse shows why the server would refuse. It returns the errors that are not about what was
// asked.
func (c *confirmPage) refuse(err error) error {
	if err != nil && !fault.Is(err, fault.Refused) && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err != nil {
		c.Refused, c.Hint = err.Error(), fault.HintOf(err)
	}
	return nil
}

// addRow adds a row, of which only the first ones are shown.
func (c *confirmPage) addRow(cells ...string) {
	if len(c.Rows) < hostsPerPage {
		c.Rows = append(c.Rows, cells)
	} else {
		c.More++
	}
}

// confirmed returns the content of a page that says what a button does.
func confirmed(title string, page confirmPage) content {
	return content{Title: title, Template: "confirm", Nav: "pipelines", Data: page}
}

// choose fills in the target that a request names, and the stages and groups of hosts that the form
// at an address proposes.
func (p *Pages) choose(r *http.Request, page *confirmPage, address string) error {
	version, err := p.service.Version(r.Context(), page.Pipeline, 0)
	if err != nil {
		return err
	}
	page.Choice, page.Target = address, strings.Trim(strings.TrimSpace(r.FormValue("target")), "/")
	for _, stage := range version.Definition.Stages {
		if len(stage.Groups) > 0 {
			page.Targets = append(page.Targets, stage.Name)
		}
		for _, group := range stage.Groups {
			if len(stage.Groups) > 1 {
				page.Targets = append(page.Targets, stage.Name+"/"+group.Name)
			}
		}
	}
	return nil
}
