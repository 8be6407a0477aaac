package testresult

import (
	"encoding/xml"
	"strings"
)

// trx reads the results of .NET's test platform and of MSTest. The class of a
// test is known only after its result, in the definitions that follow.
type trx struct {
	*parser
	path  []string         // the names of the open elements
	open  []openUnit       // results that are open; those of data rows are inside that of their test
	kept  map[string][]int // results by the id of their test
	id    string           // id of the test whose definition is open
	into  *excerpt         // where texts go; nil: nowhere
	texts struct{ message, stack, stdout excerpt }
}

// openUnit is a result that is open.
type openUnit struct {
	result Result
	id     string
	outer  bool // it holds the results of its data rows, which are counted instead
	depth  int
}

func (t *trx) start(e xml.StartElement) {
	parent := ""
	if len(t.path) > 0 {
		parent = t.path[len(t.path)-1]
	}
	name := e.Name.Local
	t.path = append(t.path, name)
	switch {
	case parent == "Results", parent == "InnerResults":
		t.startResult(e)
	case name == "UnitTest":
		t.id = attribute(e, "id")
	case name == "TestMethod":
		t.define(attribute(e, "className"))
	case len(t.open) == 0:
	case name == "Message" && parent == "ErrorInfo":
		t.into = &t.texts.message
	case name == "StackTrace" && parent == "ErrorInfo":
		t.into = &t.texts.stack
	case name == "StdOut" && parent == "Output":
		t.into = &t.texts.stdout
	}
}

func (t *trx) startResult(e xml.StartElement) {
	if len(t.open) > 0 {
		t.open[len(t.open)-1].outer = true
	}
	t.texts.message, t.texts.stack, t.texts.stdout = excerpt{}, excerpt{}, excerpt{}
	t.open = append(t.open, openUnit{id: clip(attribute(e, "testId"), maxName), depth: t.depth, result: Result{
		Name: clip(attribute(e, "testName"), maxName), Outcome: trxOutcome(attribute(e, "outcome")), Duration: clock(attribute(e, "duration"))}})
}

// trxOutcome returns the outcome of a test. What is neither a success nor a failure did not run.
func trxOutcome(word string) Outcome {
	switch word {
	case "Passed", "Completed", "Warning":
		return Passed
	case "Failed", "Error", "Timeout", "Aborted", "Disconnected":
		return Failed
	}
	return Skipped
}

func (t *trx) text(text []byte) {
	if t.into != nil {
		t.into.add(text)
	}
}

func (t *trx) end(string) {
	t.path = t.path[:len(t.path)-1]
	t.into = nil
	if n := len(t.open); n > 0 && t.open[n-1].depth == t.depth {
		unit := t.open[n-1]
		t.open = t.open[:n-1]
		t.endResult(unit)
	}
}

func (t *trx) endResult(unit openUnit) {
	if unit.outer {
		return
	}
	message := strings.TrimSpace(t.texts.message.String())
	switch unit.result.Outcome {
	case Failed:
		t.explain(&unit.result, message, t.texts.stack.String(), method(unit.result.Name))
	case Skipped:
		if message == "" {
			message = strings.TrimSpace(t.texts.stdout.String()) // where the reason is
		}
		unit.result.Message = clip(message, maxMessage)
	case Passed, Flaky:
	}
	if i := t.add(unit.result); i >= 0 && unit.id != "" {
		t.kept[unit.id] = append(t.kept[unit.id], i)
	}
}

// method returns the name by which the method of a test is in a stack: .Total(
func method(name string) string {
	name, _, _ = strings.Cut(name, "(")
	return "." + name[strings.LastIndexByte(name, '.')+1:] + "("
}

// define gives the results of a test their class. The assembly may follow it, after a comma.
func (t *trx) define(class string) {
	class, _, _ = strings.Cut(class, ",")
	class = clip(strings.TrimSpace(class), maxName)
	for _, i := range t.kept[t.id] {
		r := &t.report.Results[i]
		name := strings.TrimPrefix(r.Name, class+".")
		if grows := len(class) + len(name) - len(r.Name) - len(r.Suite); grows <= t.room.bytes {
			t.room.bytes -= grows
			r.Suite, r.Name = class, name
		}
	}
	delete(t.kept, t.id) // a file that defines a test again and again costs nothing
}
