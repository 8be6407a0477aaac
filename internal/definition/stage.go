package definition

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

func (r *reader) stages(n *document.Node, base scope) []pipeline.Stage {
	var out []pipeline.Stage
	names, above, hosts, work := r.unique("stage"), "", 0, 0
	for i, item := range items(n) {
		at := document.Index("stages", i)
		s := r.stage(item, at, names.take(item, at), base)
		if item.Get("after") == nil && above != "" && above != s.Name {
			s.After = []string{above}
		}
		above = s.Name
		for _, g := range s.Groups {
			hosts += len(g.Hosts)
			work += len(g.Hosts) * len(s.Chain)
		}
		out = append(out, s)
	}
	if len(out) > maxStages {
		r.Add(n, "too-many", "stages", "the pipeline has %d stages, at most %d", len(out), maxStages)
	}
	if hosts > maxHosts {
		r.Add(n, "too-many", "stages", "the pipeline has %d hosts, at most %d", hosts, maxHosts)
	}
	if work > maxWork {
		r.Add(n, "too-many", "stages", "the pipeline has %d steps on its hosts, at most %d", work, maxWork)
	}
	return out
}

func (r *reader) stage(n *document.Node, at, name string, base scope) pipeline.Stage {
	s := pipeline.Stage{Name: name, Was: r.was(n, at), After: append([]string{}, n.Strs("after")...), Queue: queue(n),
		OnFailure: pipeline.OnFailure(orDefault(n.Str("onFailure"), string(pipeline.Release)))}
	s.Windows, s.Approval = r.windows(n.Get("windows"), at+".windows"), r.approval(n.Get("approval"), at+".approval")
	r.oneKind(n, at, name)
	if n.Get("build") != nil {
		s.Kind = pipeline.BuildStage
		s.Build = r.build(n, at)
		return s
	}
	s.Gates = r.gates(n.Get("gates"), at+".gates")
	s.Bake = r.bake(n.Get("bake"), at+".bake")
	if n.Get("environment") != nil {
		return r.environmentStage(s, n, at)
	}
	for i, gate := range items(n.Get("gates")) {
		if cel := gate.Get("cel"); cel != nil {
			r.Add(cel, "no-targets", document.Index(at+".gates", i)+".cel", "cel is about the targets of an environment, which stage %q does not have", name)
		}
	}
	if n.Get("hosts") == nil && n.Get("groups") == nil {
		s.Kind = pipeline.GateStage
		s.Vars = r.vars(n.Get("vars"), at+".vars")
		return s
	}
	s.Kind = pipeline.HostStage
	return r.hostStage(s, n, at, base)
}

// was reads the former names of a stage or a group. Package pipeline checks that no other has them.
func (r *reader) was(n *document.Node, at string) []string {
	node := n.Get("was")
	if node == nil {
		return nil
	}
	had := n.Strs("was")
	if len(had) > maxWas {
		r.Add(node, "too-many", at+".was", "was has %d names, at most %d", len(had), maxWas)
	}
	for _, name := range had {
		if !validName(name) {
			r.Add(node, "bad-name", at+".was", `name %q: letters, digits, "-" and "." only`, name)
		}
	}
	return had
}

// isGate reports whether a stage without build and hosts is meant as a gate: it has a key of a gate, or joins branches.
func isGate(n *document.Node) bool {
	return slices.ContainsFunc([]string{"gates", "approval", "windows", "bake", "after"}, func(key string) bool { return n.Get(key) != nil })
}

// oneKind reports a stage that is of no kind, or of several.
func (r *reader) oneKind(n *document.Node, at, name string) {
	var kinds []string
	for _, key := range []string{"build", "hosts", "groups", "environment"} {
		if n.Get(key) != nil {
			kinds = append(kinds, key)
		}
	}
	switch {
	case len(kinds) > 1:
		r.Add(n, "several-kinds", at, "stage %q has both %s", name, strings.Join(kinds, " and "))
	case len(kinds) == 0 && !isGate(n) && name != "":
		r.Add(n, "no-kind", at, "stage %q needs build, hosts, groups, environment or gates", name)
	case len(kinds) == 1 && kinds[0] != "build" && n.Get("artifacts") != nil:
		r.Add(n.Get("artifacts"), "misplaced", at, "stage %q has artifacts, but no build", name)
	}
	switch {
	case n.Get("build") != nil && len(kinds) == 1:
		r.misplaced(n, at, fmt.Sprintf("stage %q builds", name), "service", "vars", "steps", "test", "gates", "bake")
	case n.Get("environment") != nil && len(kinds) == 1:
		r.misplaced(n, at, fmt.Sprintf("stage %q promotes to an environment", name), "service", "steps", "test", "retry")
	case len(kinds) == 0:
		r.misplaced(n, at, fmt.Sprintf("stage %q is a gate", name), "service", "steps", "test", "retry", "queue", "artifacts")
	}
}

// misplaced reports keys that a stage without hosts does not have.
func (r *reader) misplaced(n *document.Node, at, what string, keys ...string) {
	for _, key := range keys {
		if field := n.Get(key); field != nil {
			r.Add(field, "misplaced", at, "%s: %s belongs to stages with hosts", what, key)
		}
	}
}

func (r *reader) build(n *document.Node, at string) *pipeline.Build {
	b := &pipeline.Build{File: ".wharf-ci.yml", Policy: r.policy(n.Get("retry"), at+".retry", buildPolicy), Artifacts: []pipeline.Artifact{}}
	switch node := n.Get("build"); {
	case node.Kind == document.Map:
		b.File, b.Stage = orDefault(node.Str("file"), b.File), node.Str("stage")
	case node.Text == "external":
		b.External, b.File = true, ""
	case node.Kind == document.String:
		b.File = node.Text
	}
	if !b.External && (path.IsAbs(b.File) || !inside(path.Clean(b.File)) || hasControl(b.File)) {
		r.Add(n.Get("build"), "bad-path", at, "build file %q leaves the folder of waybill.yaml", b.File)
	}
	b.Artifacts = append(b.Artifacts, r.artifacts(n.Get("artifacts"), at)...)
	return b
}

func (r *reader) artifacts(n *document.Node, at string) []pipeline.Artifact {
	if n == nil {
		return nil
	}
	var out []pipeline.Artifact
	seen := map[string]bool{}
	for _, f := range n.Fields {
		text := f.Value.Text
		switch {
		case !validName(f.Key):
			r.Add(&document.Node{At: f.At}, "bad-name", at, `artifact label %q: letters, digits, "-" and "." only`, f.Key)
		case text == "" || path.IsAbs(text) || !inside(path.Clean(text)) || hasControl(text):
			r.Add(f.Value, "bad-path", at, "artifact %q leaves the folder of waybill.yaml", text)
		case seen[path.Clean(text)]:
			r.Add(f.Value, "name-repeated", at, "artifact %q is named twice", text)
		}
		if err := pipeline.CheckArtifactName(text); err != nil {
			r.Add(f.Value, "bad-archive", at, "%v", err)
		}
		seen[path.Clean(text)] = true
		out = append(out, pipeline.Artifact{Label: f.Key, Path: text})
	}
	return out
}

func (r *reader) hostStage(s pipeline.Stage, n *document.Node, at string, base scope) pipeline.Stage {
	own := r.inherit(base, n, at)
	if n.Get("service") != nil {
		s.Service = &own.service
	}
	s.Vars = r.vars(n.Get("vars"), r.Join(at, "vars"))
	s.Test = r.checks(own.test, own.testPath, testTry)
	own.testing.AttemptTimeout = testTimeout(own.testing, s.Test)
	s.Chain = r.chain(own, len(s.Test) > 0)
	if hosts := n.Get("hosts"); hosts != nil {
		s.Groups = []pipeline.Group{{Name: "all", Hosts: r.hosts(hosts, at+".hosts", own),
			MaxParallel: pipeline.Limit{N: 25, Percent: true}}}
		return s
	}
	names := r.unique("group")
	for i, item := range items(n.Get("groups")) {
		at := document.Index(at+".groups", i)
		s.Groups = append(s.Groups, r.group(item, at, names.take(item, at), own))
	}
	return s
}

func (r *reader) group(n *document.Node, at, name string, base scope) pipeline.Group {
	own := r.overrideService(base, n, at)
	g := pipeline.Group{Name: name, Was: r.was(n, at), Vars: r.vars(n.Get("vars"), at+".vars"),
		MaxParallel: r.limit(n.Get("maxParallel"), at+".maxParallel", pipeline.Limit{N: 25, Percent: true}, 1),
		MaxFailed:   r.limit(n.Get("maxFailed"), at+".maxFailed", pipeline.Limit{}, 0)}
	g.Waves = r.waves(n.Get("waves"), at+".waves")
	if n.Get("service") != nil {
		g.Service = &own.service
	}
	g.CatchUp = n.Str("joining") == "catch-up"
	g.Hosts = r.hosts(n.Get("hosts"), at+".hosts", own)
	return g
}

// waves reads how a group is divided; nil if it is not.
func (r *reader) waves(n *document.Node, at string) *pipeline.Waves {
	if n == nil || n.Kind != document.Map {
		return nil
	}
	sizes := n.Get("sizes")
	if sizes == nil || sizes.Kind != document.List || len(sizes.Items) == 0 {
		return nil // reported
	}
	w := &pipeline.Waves{}
	for i, item := range sizes.Items {
		w.Sizes = append(w.Sizes, r.limit(item, document.Index(at+".sizes", i), pipeline.Limit{N: 1}, 1))
	}
	if n.Get("bake") != nil {
		w.Bake = r.baking(r.positive(n.Get("bake"), at+".bake", defaultEvery), defaultEvery)
	}
	if len(w.Sizes) > maxWaves {
		r.Add(sizes, "too-many", at, "waves has %d sizes, at most %d", len(w.Sizes), maxWaves)
	}
	return w
}

// bake reads how long a stage bakes; nil if it does not.
func (r *reader) bake(n *document.Node, at string) *pipeline.Bake {
	if n == nil || n.Kind != document.Map {
		return nil
	}
	every := r.positive(n.Get("every"), at+".every", defaultEvery)
	if every < action.Duration(time.Second) || every > action.Duration(time.Hour) {
		r.Add(n.Get("every"), "out-of-range", at, "%s.every: want a duration from 1s to 1h", at)
		every = defaultEvery
	}
	b := r.baking(r.positive(n.Get("for"), at+".for", defaultEvery), every)
	if b.For > maxRounds*b.Every {
		r.Add(n.Get("for"), "out-of-range", at, "%s.for (%s) is more than %d times every (%s)", at, time.Duration(b.For),
			maxRounds, time.Duration(b.Every))
	}
	return b
}

// baking returns a bake with its policy. Whatever delays a round, such as a host that is away, spends
// no attempt, so the deadline leaves days for it.
func (r *reader) baking(total, every action.Duration) *pipeline.Bake {
	policy := stepPolicy
	policy.Deadline = total + action.Duration(7*day)
	return &pipeline.Bake{For: total, Every: every, Policy: policy}
}

// chain reads the steps in force; without any: replicate, deploy, and test when there is something to test.
func (r *reader) chain(s scope, tested bool) []pipeline.Step {
	if s.steps == nil || s.steps.Kind != document.List {
		if s.steps != nil {
			r.Add(s.steps, "wrong-kind", s.stepsPath, "want a list of steps, found %s", s.steps.Kind)
		}
		return standardChain(s, tested)
	}
	c := chain{r: r, policy: s.policy, testing: s.testing, at: s.stepsPath, seen: map[string]*document.Node{}}
	for i, item := range s.steps.Items {
		c.add(item, document.Index(s.stepsPath, i))
	}
	if len(c.steps) > maxChain {
		r.Add(s.steps, "too-many", s.stepsPath, "chain has %d steps, at most %d", len(c.steps), maxChain)
	}
	if len(s.steps.Items) == 0 {
		r.Add(s.steps, "field-empty", s.stepsPath, "steps must not be empty")
	}
	return c.steps
}

func standardChain(s scope, tested bool) []pipeline.Step {
	steps := []pipeline.Step{
		{Name: pipeline.Replicate, Event: pipeline.HostReplicated, Policy: s.policy},
		{Name: pipeline.Deploy, Event: pipeline.HostDeployed, Policy: s.policy},
	}
	if tested {
		steps = append(steps, pipeline.Step{Name: pipeline.Test, Event: pipeline.HostTested, Policy: s.testing})
	}
	return steps
}
