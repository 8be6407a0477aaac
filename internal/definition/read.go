// Package definition reads waybill.yaml: from a document, whose every node knows
// its place, to a pipeline.Definition with every default and chain written out.
//
// It reports every fault at once, each at its position. Whether the stages make
// a pipeline is pipeline.Compile's to judge; Locate turns its field paths into positions.
package definition

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Most of everything that a definition may have.
const (
	maxStages = 1_000
	maxHosts  = 100_000
	maxWork   = 1_000_000 // steps on all hosts; a plan takes about a kilobyte for each
	maxChain  = 60
	maxWaves  = 100    // sizes of waves
	maxWas    = 20     // names that a stage or a group had
	maxRounds = 10_000 // rounds of a bake
)

// Read turns a document into a definition. It returns all problems, sorted, warnings included; the
// definition may be used when problems.Err() is nil. A node that is nil or not a mapping yields nothing: its
// parser has said why. expression returns the fault of an expression of CEL; nil: none is checked.
func Read(node *document.Node, expression func(text string) error) (pipeline.Definition, fault.Problems) {
	if node == nil || node.Kind != document.Map {
		return pipeline.Definition{}, nil
	}
	node = document.WithoutShared(node)
	r := newReader()
	r.expression = expression
	r.Check(node, document.Place{At: node.At}, file)
	d := r.definition(node)
	r.checkVars(node, &d)
	r.warn(node, &d)
	_, judged := pipeline.Compile(d)
	r.judge(node, judged)
	return d, r.sorted()
}

// ofGroup are the keys of a group that are sometimes written beside the short form hosts, and stagePath is where.
//
//nolint:gochecknoglobals // constant tables
var (
	ofGroup   = map[string]bool{"maxParallel": true, "maxFailed": true, "waves": true, "joining": true}
	stagePath = regexp.MustCompile(`^stages\[\d+\]$`)
)

// reader collects the faults of one document.
type reader struct {
	document.Reader
	ssh        account // account that URLs of hosts leave out
	expression func(text string) error
}

func newReader() *reader {
	r := &reader{}
	r.Unknown = func(p fault.Problem, path, key string) fault.Problem {
		if path != "" {
			p.Text = strings.Replace(p.Text, fmt.Sprintf("unknown key %q", key), fmt.Sprintf("unknown key %q in %s", key, path), 1)
		}
		if ofGroup[key] && stagePath.MatchString(path) {
			p.Suggestion = ""
			p.Text = fmt.Sprintf("%q belongs to a group: write groups: [{name: all, hosts: […], %s: …}] in place of hosts", key, key)
		}
		return p
	}
	r.Missing = func(p fault.Problem, path, key string) fault.Problem {
		p.Text = strings.Replace(p.Text, fmt.Sprintf("the field %q is missing", key), orFile(path)+" needs "+article(key), 1)
		return p
	}
	r.Unfit = func(p fault.Problem, path string, want document.Shape, found *document.Node) fault.Problem {
		if want == document.Scalars && found.Kind == document.String && argv(path) {
			p.Text = path[strings.LastIndexByte(path, '.')+1:] + " is an argument list, not a shell line"
		}
		return p
	}
	return r
}

// sorted returns every problem without its scope: the position and the text suffice.
func (r *reader) sorted() fault.Problems {
	seen := map[fault.Problem]bool{}
	var out fault.Problems
	for _, p := range r.Problems {
		p.Scope = ""
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	out.Sort()
	return out
}

// judge adds the faults that Compile found, unless its place has a fault already, of which it would be the shadow.
func (r *reader) judge(node *document.Node, judged fault.Problems) {
	taken := map[fault.Position]bool{}
	for _, p := range r.Problems {
		if !p.Warning {
			taken[p.Position] = true
		}
	}
	for _, p := range judged {
		p.Position = Locate(node, p.Scope)
		if p.Warning || !taken[p.Position] {
			r.Problems.Add(p)
		}
	}
}

func (r *reader) warnAt(at fault.Position, format string, args ...any) {
	r.Problems.Add(fault.Problem{Position: at, Code: "doubtful", Text: fmt.Sprintf(format, args...), Warning: true})
}

func (r *reader) definition(n *document.Node) pipeline.Definition {
	d := pipeline.Definition{
		Pipeline: n.Str("pipeline"),
		Order:    pipeline.Order(orDefault(n.Str("order"), string(pipeline.Runnable))),
		Pin:      isTrue(n.Get("pin")),
		Keep:     r.keep(n.Get("keep")),
		SSH:      r.reach(n.Get("ssh")),
		Vars:     r.vars(n.Get("vars"), "vars"),
	}
	if at := n.Get("pipeline"); at != nil && at.Kind == document.String && !pipelineName.MatchString(d.Pipeline) {
		r.Add(at, "bad-name", "pipeline", `pipeline name %q: a-z, 0-9 and "-" only, at most 63`, d.Pipeline)
	}
	base := scope{service: pipeline.Service{Name: d.Pipeline, Restart: "restart", Ready: defaultReady},
		policy: stepPolicy, testing: testPolicy}
	base = r.inherit(base, n, "")
	d.Service = base.service
	d.Stages = r.stages(n.Get("stages"), base)
	d.Batches = r.batches(n.Get("batches"))
	return d
}

func (r *reader) keep(n *document.Node) pipeline.Keep {
	k := pipeline.Keep{Releases: r.whole(n.Get("releases"), "keep.releases", 5, 1, 1000), Entries: action.Duration(400 * 24 * time.Hour)}
	if entries := n.Get("entries"); entries != nil && entries.Kind == document.String {
		d, err := ParseDuration(entries.Text)
		if err != nil || d < time.Hour {
			r.Add(entries, "out-of-range", "keep.entries", "keep.entries: want at least 1h and at most 65535d, such as 400d")
		}
		k.Entries = action.Duration(d)
	}
	return k
}

func (r *reader) batches(n *document.Node) []pipeline.Batch {
	var out []pipeline.Batch
	names := r.unique("batch")
	for i, item := range items(n) {
		path := document.Index("batches", i)
		out = append(out, pipeline.Batch{Name: names.take(item, path), Stages: item.Strs("stages"), Queue: queue(item)})
	}
	return out
}

// scope holds the values that a stage, group or host inherits.
type scope struct {
	service    pipeline.Service
	managerSet bool
	policy     action.Policy
	testing    action.Policy  // policy of the step test
	steps      *document.Node // the list in force, and its place in the document
	stepsPath  string
	test       *document.Node
	testPath   string
}

// inherit returns the scope below n, which may override service, retry, steps and test.
func (r *reader) inherit(s scope, n *document.Node, path string) scope {
	s = r.overrideService(s, n, path)
	s.policy = r.policy(n.Get("retry"), r.Join(path, "retry"), s.policy)
	s.testing = r.policy(n.Get("retry"), r.Join(path, "retry"), s.testing)
	if steps := n.Get("steps"); steps != nil {
		s.steps, s.stepsPath = steps, r.Join(path, "steps")
	}
	if test := n.Get("test"); test != nil {
		s.test, s.testPath = test, r.Join(path, "test")
	}
	return s
}

func orDefault(text, standard string) string {
	if text == "" {
		return standard
	}
	return text
}

func orFile(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// article returns the key as an error names the missing part, such as "a name".
func article(key string) string {
	switch {
	case key == "stages" || key == "sizes":
		return key
	case key != "url" && strings.ContainsRune("aeiou", rune(key[0])):
		return "an " + key
	}
	return "a " + key
}

// argv reports whether the path names an argument list.
func argv(path string) bool {
	return slices.Contains([]string{"exec", "before", "after", "run"}, path[strings.LastIndexByte(path, '.')+1:])
}

func items(n *document.Node) []*document.Node {
	if n == nil {
		return nil
	}
	var maps []*document.Node
	for _, item := range n.Items {
		if item.Kind == document.Map {
			maps = append(maps, item)
		} else {
			maps = append(maps, &document.Node{At: item.At}) // reported; keeps the indexes
		}
	}
	return maps
}

func isTrue(n *document.Node) bool {
	return n != nil && n.Kind == document.Bool && strings.EqualFold(n.Text, "true")
}
