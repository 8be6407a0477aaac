package main

import (
	"fmt"
	"strings"
)

// change is a rule that has changed on purpose since the other commit. It is changed in the engine of
// that commit too, in the simplest way, so that the engines can still be compared in everything else.
type change struct {
	rule     string
	file     string // of the engine's package
	from, to string // from occurs once in the file
}

// changes are in the order in which the rules have changed.
var changes = []change{
	{"a host that is finished wakes what order strict kept from it", "fold.go",
		"if place.host < 0 {\n\t\te.offerAll(orderKey)",
		"if place.host < 0 || place.event == HostFinished {\n\t\te.offerAll(orderKey)"},
	{"a host whose batch another deployment has taken is not in flight", "flight.go",
		"return !t.isStopped(host.stage) &&",
		"if h := e.holder[batchID(host.path)].deployment; h != nil && h != t {\n\t\treturn false\n\t}\n\treturn !t.isStopped(host.stage) &&"},
	{"hosts in flight are counted again when the batch of a host is taken or free", "flight.go",
		"if id.isHost() {\n\t\treturn\n",
		"if id.isHost() {\n\t\tfor _, t := range e.order {\n\t\t\tif t.inFlight != nil {\n\t\t\t\te.recountFlight(t)\n\t\t\t}\n\t\t}\n\t\treturn\n"},
	{"a batch that a deployment was led through is released at once", "batch.go",
		"for _, b := range t.plan.around(n) {\n\t\tif t.holds[b.id] && e.mayRelease(t, b) {",
		"e.settleAll(t)\n\tfor _, b := range t.plan.around(n) {\n\t\tif t.holds[b.id] && e.mayRelease(t, b) {"},
	{"a deployment that holds a batch within is inside for order strict too", "condition.go",
		"if i == len(around)-1 {\n\t\t\tif older",
		"inside := false\n\t\tfor _, b := range around[:i] {\n\t\t\tinside = inside || e.holder[b.id].deployment == t\n\t\t}\n\t\tif i == len(around)-1 && !inside {\n\t\t\tif older"},
}

// change changes the rules in the other commit's engine.
func (o overlay) change(changes []change) error {
	for _, c := range changes {
		name := movedTo(engine + "/" + c.file)
		if n := strings.Count(string(o[name]), c.from); n != 1 {
			return fmt.Errorf("change the rule %q: %s of the commit has %d places %q, want 1", c.rule, c.file, n, c.from)
		}
		o[name] = []byte(strings.Replace(string(o[name]), c.from, c.to, 1))
	}
	return nil
}
