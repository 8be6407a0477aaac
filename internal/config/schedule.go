package config

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Schedule is one entry of schedules: an action that is made again and again.
type Schedule struct {
	Name     string
	Cron     string // as it is written
	Timezone string // name in the database of time zones; default UTC
	Handler  string // who does it; or
	Process  string // what is executed
	Window   cron.Schedule
	Action   action.Action // what each tick makes, without its id
}

// scheduleKeys returns the keys of one schedule.
func scheduleKeys() []document.Key {
	return []document.Key{
		{Name: "cron", Shape: document.Text, Required: true, Help: "minute hour day month weekday, such as 0 3 * * mon-fri"},
		{Name: "timezone", Shape: document.Text, Default: "UTC", Help: "such as Europe/Stockholm"},
		{Name: "handler", Shape: document.Text, Help: "what does it"},
		{Name: "process", Shape: document.Text, Help: "what is executed, instead of handler"},
		{Name: "parameters", Shape: document.Object, Help: "of the handler, or the inputs of the process"},
		{Name: "overlap", Shape: document.Text, Values: []string{string(cron.Skip), string(cron.Queue), string(cron.Replace)},
			Default: string(cron.Skip), Help: "if the previous one has not ended"},
		{Name: "catchUp", Shape: document.Text, Values: []string{string(cron.CatchLast), string(cron.CatchNone), string(cron.CatchAll)},
			Default: string(cron.CatchLast), Help: "missed times that are made up for"},
	}
}

// schedules reads every schedule of the file, after its handlers and processes.
func (r *reader) schedules(n *document.Node, c *Config) {
	if !fits(n, document.Object) {
		return
	}
	c.Schedules = map[string]Schedule{}
	for _, f := range n.Fields {
		if !handlerName.MatchString(f.Key) {
			r.Add(&document.Node{At: f.At}, "value-invalid", "",
				"schedule %q: want a name of letters, digits, -, _ and . with at most 63 characters", f.Key)
			continue
		}
		path := r.Join("schedules", f.Key)
		if r.Check(f.Value, document.Place{Path: path, At: f.At}, scheduleKeys()) {
			c.Schedules[f.Key] = r.schedule(f, path, c)
		}
	}
}

func (r *reader) schedule(f document.Field, path string, c *Config) Schedule {
	n := f.Value
	s := Schedule{Name: f.Key, Cron: n.Str("cron"), Timezone: cmp.Or(n.Str("timezone"), "UTC"), Handler: n.Str("handler"),
		Process: n.Str("process"),
		Window: cron.Schedule{Overlap: cron.Overlap(cmp.Or(n.Str("overlap"), string(cron.Skip))),
			CatchUp: cron.CatchUp(cmp.Or(n.Str("catchUp"), string(cron.CatchLast)))}}
	var err error
	if v := n.Get("cron"); fits(v, document.Text) {
		if s.Window.Cron, err = cron.Parse(v.Text); err != nil {
			r.Add(v, "value-invalid", path+".cron", "%s", err)
		}
	}
	if s.Window.Zone, err = cron.LoadZone(s.Timezone); err != nil {
		r.Add(n.Get("timezone"), "value-unknown", path+".timezone", "%s", err)
		s.Window.Zone = time.UTC
	}
	if s.Window.CatchUp == cron.CatchAll && s.Window.Overlap != cron.Queue {
		r.Problems.Add(fault.Problem{Position: n.Get("catchUp").At, Code: "schedule-overlap", Scope: path, Warning: true,
			Text: "times that were missed would overlap: without overlap: queue only the last one is made up for"})
	}
	s.Action = r.ticking(f, path, s, c)
	return s
}

// ticking returns the action of a tick. A job is made even if the payload cache has an answer.
func (r *reader) ticking(f document.Field, path string, s Schedule, c *Config) (a action.Action) {
	n := f.Value
	if (s.Handler == "") == (s.Process == "") {
		r.Add(&document.Node{At: f.At}, "field-missing", path, `want either "handler" or "process"`)
		return a
	}
	var parameters json.RawMessage
	if v := n.Get("parameters"); fits(v, document.Object) {
		parameters, _ = json.Marshal(document.Plain(v)) // what was read as YAML without other types can be written as JSON
	}
	prepare, ok := r.ticker(n, path, s, c)
	if !ok {
		return a
	}
	a, err := prepare(parameters)
	if err != nil {
		r.locate(n, path, err)
	}
	if s.Handler != "" {
		a.Name = s.Name
	}
	a.CacheKey, a.CreatedBy = action.ID{}, "schedule:"+s.Name
	return a
}

// ticker returns the maker of a schedule's actions. Faults of the handler or process itself are reported at its own
// place.
func (r *reader) ticker(n *document.Node, path string, s Schedule, c *Config) (func(json.RawMessage) (action.Action, error), bool) {
	if s.Process != "" {
		w, ok := c.Processes[s.Process]
		if !ok {
			r.unknownName(n.Get("process"), path+".process", "process", slices.Sorted(maps.Keys(c.Processes)))
		}
		return w.Prepare, ok && w.handler.Name != ""
	}
	h, ok := c.Handlers[s.Handler]
	if !ok && s.Handler == TypeNoop {
		h, ok = Handler{Name: TypeNoop, Type: TypeNoop, Policy: c.Defaults, Delivery: action.AtLeastOnce}, true
	}
	if !ok {
		r.unknownName(n.Get("handler"), path+".handler", "handler", append(slices.Sorted(maps.Keys(c.Handlers)), TypeNoop))
	}
	return h.Prepare, ok
}

// unknownName reports a name that was not found, with the nearest known one. kind is a word such as
// handler.
func (r *reader) unknownName(n *document.Node, path, kind string, known []string) {
	r.Problems.Add(fault.Problem{Position: n.At, Code: "value-unknown", Scope: path,
		Text: kind + " " + strconv.Quote(n.Text) + " not found", Suggestion: fault.Nearest(n.Text, known)})
}

// locate reports the faults of a schedule's parameters at the parameters.
func (r *reader) locate(n *document.Node, path string, err error) {
	at := n.Get("parameters")
	if at == nil {
		at = &document.Node{At: n.At}
	}
	problems, ok := err.(fault.Problems) //nolint:errorlint // Prepare returns it bare
	if !ok {
		r.Add(at, "value-invalid", path+".parameters", "%s", err)
	}
	for _, p := range problems {
		where := at
		if name, _, _ := strings.Cut(p.Scope, "/"); name != "" && at.Get(name) != nil {
			where = at.Get(name)
		}
		p.Position = where.At
		p.Scope = strings.TrimSuffix(path+".parameters."+strings.ReplaceAll(p.Scope, "/", "."), ".")
		r.Problems.Add(p)
	}
}
