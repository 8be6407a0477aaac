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
var changes = []change{}

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
