package config

import (
	"maps"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/document"
)

// DefaultConductor is the conductor of a process for which no other is configured.
const DefaultConductor = "default"

// AllHandlers means every handler in a conductor's list.
const AllHandlers = "*"

// Conductor sets the handlers that one process serves, and the size of its work at a time.
type Conductor struct {
	Handlers     []string      // handlers that it serves; default AllHandlers
	Workers      int           // attempts at a time; default 200
	Drain        time.Duration // how long running attempts may continue when the process ends; default 25s
	PriorityStep time.Duration // by how much a point of priority puts an action of these handlers back; default 1s
	TurnRows     int           // most rows that one turn claims, and records; default 1,000
	NotifyWait   time.Duration // delay between a notification and the search for its work; default 0
}

func standardConductor() Conductor {
	return Conductor{Handlers: []string{AllHandlers}, Workers: 200, Drain: 25 * time.Second, PriorityStep: time.Second, TurnRows: 1000}
}

// Serves reports whether the conductor serves a handler.
func (c Conductor) Serves(handler string) bool {
	return slices.Contains(c.Handlers, AllHandlers) || slices.Contains(c.Handlers, handler)
}

// PriorityStep returns how long a point of priority delays an action of a handler: the step of the
// conductor that names the handler, else of the first one that serves all, the default one before
// others.
func (c Config) PriorityStep(handler string) time.Duration {
	names := slices.Sorted(maps.Keys(c.Conductors))
	for _, wanted := range []string{handler, AllHandlers} {
		if some := c.Conductors[DefaultConductor]; slices.Contains(some.Handlers, wanted) {
			return some.PriorityStep
		}
		for _, name := range names {
			if some := c.Conductors[name]; slices.Contains(some.Handlers, wanted) {
				return some.PriorityStep
			}
		}
	}
	return standardConductor().PriorityStep
}

// conductorKeys returns the keys of one conductor.
func conductorKeys() []document.Key {
	return []document.Key{
		{Name: "handlers", Shape: document.Texts, Help: `the handlers that it serves; "*": all`},
		{Name: "workers", Shape: document.Number, Default: "200", Help: "attempts at a time"},
		{Name: "drain", Shape: document.Scalar, Default: "25s", Help: "how long running attempts may continue at shutdown"},
		{Name: "priorityStep", Shape: document.Scalar, Default: "1s", Help: "by how much a point of priority puts an action back"},
		{Name: "turnRows", Shape: document.Number, Default: "1000", Help: "most rows that one turn claims, and records"},
		{Name: "notifyWait", Shape: document.Scalar, Default: "0s", Help: "wait after a notification, so that more arrives in one turn"},
	}
}

const (
	longestStep       = time.Minute     // keeps a thousand points of priority within a day
	longestNotifyWait = 5 * time.Second // keeps a notification from being slower than a poll
)

// conductors reads every conductor of the file, after its handlers.
func (r *reader) conductors(n *document.Node, c *Config) {
	if !fits(n, document.Object) {
		return
	}
	for _, f := range n.Fields {
		path := r.Join("conductors", f.Key)
		if !r.Check(f.Value, document.Place{Path: path, At: f.At}, conductorKeys()) {
			continue
		}
		one := standardConductor()
		if v := f.Value.Get("handlers"); fits(v, document.Texts) {
			one.Handlers = r.served(v, path+".handlers", c)
		}
		if v := f.Value.Get("workers"); fits(v, document.Number) {
			one.Workers = r.workers(v, path+".workers")
		}
		if v := f.Value.Get("drain"); fits(v, document.Scalar) {
			one.Drain = r.span(v, path+".drain")
		}
		if v := f.Value.Get("priorityStep"); fits(v, document.Scalar) {
			if one.PriorityStep = r.span(v, path+".priorityStep"); one.PriorityStep > longestStep {
				r.Add(v, "value-invalid", path+".priorityStep", "want at most 1m, found %q", v.Text)
			}
		}
		if v := f.Value.Get("turnRows"); fits(v, document.Number) {
			one.TurnRows = r.workers(v, path+".turnRows")
		}
		if v := f.Value.Get("notifyWait"); fits(v, document.Scalar) {
			if one.NotifyWait = r.span(v, path+".notifyWait"); one.NotifyWait > longestNotifyWait {
				r.Add(v, "value-invalid", path+".notifyWait", "want at most 5s, found %q", v.Text)
			}
		}
		c.Conductors[f.Key] = one
	}
}

// served reads the handlers that a conductor serves.
func (r *reader) served(n *document.Node, path string, c *Config) []string {
	known := append([]string{AllHandlers, TypeNoop, SubscriberHandler}, reserved...)
	known = append(known, slices.Sorted(maps.Keys(c.Handlers))...)
	var names []string
	for i, item := range n.Items {
		if !slices.Contains(known, item.Text) {
			r.unknownName(item, document.Index(path, i), "handler", known)
		}
		names = append(names, item.Text)
	}
	return names
}
