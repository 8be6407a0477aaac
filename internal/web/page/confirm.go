package page

import (
	"net/http"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
)

// Confirm is the data of a page that says what a button does before it is used. What it says comes
// from the server at that moment, and the page is live.
type Confirm struct {
	Title    string
	Heading  string
	Pipeline string
	Ref      server.Ref // of the deployment that the page is about; no number: of none
	Says     []string   // the consequences, in sentences
	Columns  []string   // of Rows
	Rows     [][]string // what is changed, at most HostsPerPage rows
	More     int        // rows that are left out
	Refused  string     // why it cannot be done now; "": it can
	Hint     string     // what to do instead
	Choice   string     // address of the form that chooses a target; "": there is nothing to choose
	Targets  []string   // that may be chosen
	Target   string     // that is chosen, without the pipeline
	To       string     // address of the form
	Fields   []Field    // that the form repeats
	Button   string
	Execute  bool // it needs the scope execute and not operate
	Explain  bool // a reason is required
}

// Field is a field of a form that its reader does not see.
type Field struct{ Name, Value string }

// HandleConfirm serves a page that says what a button does.
func (s *Site) HandleConfirm(pattern string, load func(r *http.Request) (Confirm, error)) {
	s.Handle(pattern, s.frame.Lookup("confirm"), func(r *http.Request) (Content, error) {
		page, err := load(r)
		return Content{Title: page.Title, Nav: "pipelines", Data: page}, err
	})
}

// Refuse shows why the server would refuse. It returns the errors that are not about what was
// asked.
func (c *Confirm) Refuse(err error) error {
	if err != nil && !fault.Is(err, fault.Refused) && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err != nil {
		c.Refused, c.Hint = err.Error(), fault.HintOf(err)
	}
	return nil
}

// AddRow adds a row, of which only the first ones are shown.
func (c *Confirm) AddRow(cells ...string) {
	if len(c.Rows) < HostsPerPage {
		c.Rows = append(c.Rows, cells)
	} else {
		c.More++
	}
}

// AddField adds a field that the form repeats.
func (c *Confirm) AddField(name, value string) { c.Fields = append(c.Fields, Field{name, value}) }

// Choose fills in the target that a request names, and the stages and groups of hosts that the form
// at an address proposes.
func (c *Confirm) Choose(r *http.Request, service *server.Service, address string) error {
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
