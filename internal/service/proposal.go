package service

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Proposal is a definition that a caller wants to apply.
type Proposal struct {
	Definition pipeline.Definition
	Source     string // the text of the file
	File       string // name of the file, for positions in problems
	IfVersion  *int   // apply only while this version, or the same definition, is in force (0: none yet); nil: in any case
	By         string
	Yes        bool // apply even if an active deployment skips or loses work
}

// EditView is the effect of applying a Proposal, planned or done.
type EditView struct {
	Pipeline  string            `json:"pipeline"`
	Version   int               `json:"version"`   // the version that the definition gets, or has
	Unchanged bool              `json:"unchanged"` // the definition equals the version in force: nothing to apply
	Applied   bool              `json:"applied"`
	Words     []string          `json:"words"`   // the difference, such as "+ host prod/east/ivy"
	Effects   []pipeline.Effect `json:"effects"` // on deployments that are active or may come back
	Warnings  fault.Problems    `json:"warnings,omitempty"`
}

// Loses reports whether the edit skips or loses work in some deployment.
func (e EditView) Loses() bool {
	return slices.ContainsFunc(e.Effects, pipeline.Effect.Loses)
}

// PlanEdit returns what applying would do, and changes nothing. Faults of the definition, and edits that an active
// deployment forbids, are fault.Problems.
func (s *Service) PlanEdit(ctx context.Context, p Proposal) (EditView, error) {
	plan, view, err := s.compile(p)
	if err != nil {
		return view, err
	}
	head, f, err := s.foldOrNew(ctx, view.Pipeline)
	if err != nil {
		return view, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err = s.planEdit(f, plan, p, head, &view, s.ownersBut(ctx, view.Pipeline))
	return view, err
}

// ownersBut returns a function that reads the resources of all pipelines but one.
func (s *Service) ownersBut(ctx context.Context, name string) owners {
	return func() (map[pipeline.Resource]journal.Owner, error) { return s.ledger.Owners(ctx, name) }
}

// owners reads the resources of other pipelines.
type owners func() (map[pipeline.Resource]journal.Owner, error)

// Apply stores a definition as the next version, unless it equals the one in force. The error is fault.Conflict if
// another version than IfVersion is in force and differs, and fault.Refused if the edit would lose work and Yes is
// not set; then the view has the effects.
func (s *Service) Apply(ctx context.Context, p Proposal) (EditView, error) {
	plan, compiled, err := s.compile(p)
	if err != nil {
		return compiled, err
	}
	view := compiled
	encoded, err := json.Marshal(plan.Definition()) // for 10,000 hosts it takes longer than writers should wait for the lock
	if err != nil {
		return compiled, err
	}
	f := s.folds.foldOf(view.Pipeline)
	decide := func(locked journal.Locked) (journal.Change, error) {
		view = compiled
		if err := f.applyLocked(ctx, locked); err != nil {
			return journal.Change{}, err
		}
		change, err := s.decideApply(f, plan, p, locked, &view)
		change.Encoded = encoded
		return change, err
	}
	err = s.decideOnFold(ctx, f, func() error {
		defer func() { f.edit, f.compared = computedEdit{}, comparison{} }()
		// The edit of a pipeline with many deployments inside takes longer than its writers should wait for the lock.
		if head, err := s.ledger.Head(ctx, view.Pipeline); err == nil {
			if _, same := f.isInForce(plan); !same {
				f.editTo(plan, head)
			}
		}
		_, err := s.ledger.Define(ctx, view.Pipeline, f.engine.Seq(), decide)
		return err
	})
	view.Applied = err == nil && !view.Unchanged
	return view, err
}

// decideApply returns the change that Apply stores. The caller has applied the rows of locked to the fold.
func (s *Service) decideApply(f *fold, plan *pipeline.Graph, p Proposal, locked journal.Locked, view *EditView) (journal.Change, error) {
	if _, same := f.isInForce(plan); !same && p.IfVersion != nil && *p.IfVersion != locked.Version {
		return journal.Change{}, fault.New(fault.Conflict, "definition %d of %s is in force, not %d",
			locked.Version, view.Pipeline, *p.IfVersion).
			WithHint("look at the definition that was applied meanwhile: waybill pipeline show %s", view.Pipeline)
	}
	edit, err := s.planEdit(f, plan, p, locked.Head, view, locked.Owners)
	if err != nil {
		return journal.Change{}, err
	}
	if view.Unchanged {
		return journal.Change{}, nil
	}
	if view.Loses() && !p.Yes {
		return journal.Change{}, fault.New(fault.Refused, "definition %d of %s would skip or lose work of deployments inside",
			view.Version, view.Pipeline).WithHint("look at it with waybill plan, then apply it with --yes")
	}
	return journal.Change{Definition: plan.Definition(), Source: p.Source, By: p.By, Entries: edit.Entries}, nil
}

// planEdit asks the engine for the effects of a definition and fills the view. It also refuses an edit that takes a
// resource of another pipeline, of which the engine knows nothing.
func (s *Service) planEdit(f *fold, plan *pipeline.Graph, p Proposal, head journal.Head, view *EditView,
	others owners) (pipeline.Edit, error) {
	if version, same := f.isInForce(plan); same {
		view.Version, view.Unchanged = version, true
		return pipeline.Edit{}, nil
	}
	edit := f.editTo(plan, head)
	view.Version = head.Version + 1
	view.Words = append(view.Words, edit.Words...)
	view.Words = append(view.Words, f.leavesWords(plan.Definition())...)
	view.Effects = append(view.Effects, edit.Effects...)
	owned, err := others()
	if err != nil {
		return edit, err
	}
	refused := append(edit.Refused, ownedTwice(plan.Definition(), owned)...)
	return edit, locateProblems(p, refused).Err()
}

// ownedTwice returns a problem for each host and application of a definition whose resource another pipeline owns.
func ownedTwice(d *pipeline.Definition, owned map[pipeline.Resource]journal.Owner) (problems fault.Problems) {
	for i := range d.Stages {
		stage := &d.Stages[i]
		if v := stage.Environment; v != nil {
			for k, r := range v.Applications() {
				if owner, found := owned[r]; found {
					problems = append(problems, fault.Problem{Code: "resource-owned", Scope: fmt.Sprintf("stages[%d].environment.targets[%d]", i, k),
						Text: fmt.Sprintf("pipeline %q promotes to %s %s in %s too: take the target from one of the two, or leave out the strategy here",
							owner.Pipeline, v.App.Kind, v.App.Name, v.Targets[k])})
				}
			}
		}
		for g := range stage.Groups {
			for h := range stage.Groups[g].Hosts {
				r := d.ResourceOf(stage, &stage.Groups[g], &stage.Groups[g].Hosts[h])
				if owner, found := owned[r]; found {
					problems = append(problems, fault.Problem{Code: "resource-owned", Scope: fmt.Sprintf("stages[%d].groups[%d].hosts[%d].url", i, g, h),
						Text: fmt.Sprintf("%s runs %q for %s", r.Address, r.Service, ownerWords(owner))})
				}
			}
		}
	}
	return problems
}

// ownerWords returns which pipeline owns a resource, and what to do about it.
func ownerWords(o journal.Owner) string {
	switch o.Status {
	case pipeline.StatusActive:
		return fmt.Sprintf("%s#%d, which is active: wait until it has ended, or set service.name", o.Pipeline, o.Deployment)
	case pipeline.StatusFailed:
		return fmt.Sprintf("%s#%d, which has failed and may be retried: cancel it, or set service.name", o.Pipeline, o.Deployment)
	}
	return fmt.Sprintf("pipeline %q too: set service.name", o.Pipeline)
}

// compile returns the graph of a proposal and a view with its warnings. The error is all of its faults.
func (s *Service) compile(p Proposal) (*pipeline.Graph, EditView, error) {
	view := EditView{Pipeline: p.Definition.Pipeline, Words: []string{}, Effects: []pipeline.Effect{}}
	plan, problems := pipeline.Compile(p.Definition)
	problems = locateProblems(p, slices.Concat(problems, s.unknownHandlers(p.Definition), s.unknownGroups(p.Definition), s.unknownClusters(p.Definition)))
	view.Warnings = problems.Warnings()
	return plan, view, problems.Err()
}

// unknownHandlers reports handlers of gates that the configuration does not have: their actions would
// wait for a conductor until the gate has failed.
func (s *Service) unknownHandlers(d pipeline.Definition) (problems fault.Problems) {
	var handlers Handlers // read once, and only for a definition that names one
	for i := range d.Stages {
		for g := range d.Stages[i].Gates {
			h := d.Stages[i].Gates[g].Handler
			if h == nil {
				continue
			}
			if handlers == nil {
				handlers = s.offers.Handlers()
			}
			if handlers[h.Name] == nil {
				problems = append(problems, fault.Problem{Scope: fmt.Sprintf("stages[%d].gates[%d].handler.name", i, g), Code: "value-unknown",
					Suggestion: fault.Nearest(h.Name, slices.Sorted(maps.Keys(handlers))),
					Text:       fmt.Sprintf("handler %q not found: handlers are described in server.yaml", h.Name)})
			}
		}
	}
	return problems
}

// unknownClusters reports clusters and secrets of environments that the configuration does not have: a promotion would never end.
func (s *Service) unknownClusters(d pipeline.Definition) (problems fault.Problems) {
	if s.offers.Environments == nil || !slices.ContainsFunc(d.Stages, func(s pipeline.Stage) bool { return s.Environment != nil }) {
		return nil
	}
	clusters, secrets, ok := s.offers.Environments()
	check := func(scope, kind, name string, known []string) {
		if !slices.Contains(known, name) {
			problems = append(problems, fault.Problem{Scope: scope, Code: "value-unknown", Suggestion: fault.Nearest(name, known),
				Text: fmt.Sprintf("%s %q not found: they are described in promoter.%ss of server.yaml", kind, name, kind)})
		}
	}
	for i := range d.Stages {
		v := d.Stages[i].Environment
		scope := fmt.Sprintf("stages[%d].environment", i)
		switch {
		case v == nil:
			continue
		case !ok:
			problems = append(problems, fault.Problem{Scope: scope, Code: "value-unknown",
				Text: "server.yaml does not have the section promoter, without which nothing promotes to an environment; " +
					"its key clusters names clusters, such as clusters: {leaf: {kubeconfig: leaf.yaml}}"})
			continue
		}
		for k, t := range v.Targets {
			check(fmt.Sprintf("%s.targets[%d].cluster", scope, k), "cluster", t.Cluster, clusters)
		}
		if p := v.Strategy.PullRequest; p != nil && p.Secret != "" {
			check(scope+".strategy.pull-request.secretRef.name", "secret", p.Secret, secrets)
		}
		if n := v.Strategy.Notification; n != nil && n.Secret != "" {
			check(scope+".strategy.notification.webhook.secretRef.name", "secret", n.Secret, secrets)
		}
	}
	return problems
}

// unknownGroups reports groups in approval.by that the configuration does not have, and counts of approvals that are larger than
// the number of people in these groups and beside them.
func (s *Service) unknownGroups(d pipeline.Definition) (problems fault.Problems) {
	groups := map[string][]string{}
	if s.offers.Groups != nil {
		groups = s.offers.Groups()
	}
	for i := range d.Stages {
		want := d.Stages[i].Approval
		if want == nil || !slices.ContainsFunc(want.By, isGroup) {
			continue
		}
		people := map[string]bool{}
		before := len(problems)
		for k, name := range want.By {
			group, is := admission.GroupOf(name)
			members, known := groups[group]
			if is && !known {
				problems = append(problems, fault.Problem{Scope: fmt.Sprintf("stages[%d].approval.by[%d]", i, k), Code: "value-unknown",
					Suggestion: fault.Nearest(group, slices.Sorted(maps.Keys(groups))),
					Text:       fmt.Sprintf("group %q not found: groups of people are described in server.yaml", group)})
			}
			if !is {
				members = []string{name}
			}
			for _, member := range members {
				people[member] = true
			}
		}
		if len(problems) == before && want.Count > len(people) {
			problems = append(problems, fault.Problem{Scope: fmt.Sprintf("stages[%d].approval.count", i), Code: "approvals-missing",
				Text: fmt.Sprintf("%d approvals wanted, %d people may give them", want.Count, len(people))})
		}
	}
	return problems
}

func isGroup(name string) bool {
	_, is := admission.GroupOf(name)
	return is
}

// foldOrNew returns a pipeline's head and fold, or empty ones if the pipeline does not exist yet.
func (s *Service) foldOrNew(ctx context.Context, name string) (journal.Head, *fold, error) {
	head, err := s.ledger.Head(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return journal.Head{Pipeline: name}, newFold(name), nil
	}
	if err != nil {
		return head, nil, err
	}
	err = s.withFold(ctx, name, func(*fold) error { return nil })
	return head, s.folds.foldOf(name), err
}
