package page

import (
	"net/http"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
)

// Confirm describes what a button does, on a page before the button is used. The description comes
// from the server, and the page is live.
type Confirm struct {
	Title    string
	Heading  string
	Pipeline string
	Ref      service.Ref // deployment of the page; no number: none
	Says     []string    // the consequences, in sentences
	Columns  []string    // headings of Rows
	Rows     [][]string  // changes, at most HostsPerPage
	More     int         // number of further rows
	Refused  string      // reason why the server would refuse now; "": it would not
	Hint     string      // advice after a refusal
	Choice   string      // address of the form that chooses a target; "": no choice
	Targets  []string    // stages and groups to choose from
	Target   string      // chosen target, without the pipeline
	To       string      // address of the form
	Fields   []Field     // hidden fields of the form
	Button   string
	Execute  bool // the button needs the scope execute, not operate
	Explain  bool // a reason is required
}

// Field is a hidden field of a form.
type Field struct{ Name, Value string }

// HandleConfirm serves a page that describes what a button does.
func (s *Site) HandleConfirm(pattern string, load func(r *http.Request) (Confirm, error)) {
	s.Handle(pattern, s.frame.Lookup("confirm"), func(r *http.Request) (Content, error) {
		page, err := load(r)
		return Content{Title: page.Title, Nav: "pipelines", Data: page}, err
	})
}

// Refuse shows a refusal of the server, or an unknown target, on the page. It returns any other
// error.
func (c *Confirm) Refuse(err error) error {
	if err != nil && !fault.Is(err, fault.Refused) && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err != nil {
		c.Refused, c.Hint = err.Error(), fault.HintOf(err)
	}
	return nil
}

// AddRow adds a row, or counts it if the page is full.
func (c *Confirm) AddRow(cells ...string) {
	if len(c.Rows) < HostsPerPage {
		c.Rows = append(c.Rows, cells)
	} else {
		c.More++
	}
}

// AddField adds a hidden field to the form.
func (c *Confirm) AddField(name, value string) { c.Fields = append(c.Fields, Field{name, value}) }

// Choose fills in the target of a request, and the stages and groups of hosts that the form at an
// address proposes.
func (c *Confirm) Choose(r *http.Request, service *service.Service, address string) error {
	version, err := service.Version(r.Context(), c.Pipeline, 0)
	if err != nil {
		return err
	}
	c.Choice, c.Target = address, strings.Trim(strings.TrimSpace(r.FormValue("target")), "/")
	for _, stage := range version.Definition.Stages {
		if len(stage.Groups) > 0 {
			c.Targets = append(c.Targets, stage.Name)
		}
		for _, group := range stage.Groups {
			if len(stage.Groups) > 1 {
				c.Targets = append(c.Targets, stage.Name+"/"+group.Name)
			}
		}
	}
	return nil
}
