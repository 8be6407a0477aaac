package pipeline

import (
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
)

// Environment is an application of Kubernetes that an environment stage promotes the revision to. The engine knows it as one step
// that takes an action, environment-promoted, between the gates of the stage. The role promoter judges the action by the observed
// state of the targets.
type Environment struct {
	App      App             `json:"app"`
	Targets  []Target        `json:"targets"`            // in file order, at least one
	Strategy Strategy        `json:"strategy,omitzero"`  // zero: the promotion is left to others, and the stage waits for it
	Source   Source          `json:"versionSource"`      // where the revision of an application is read
	MinReady Limit           `json:"minReady"`           // targets that must be ready at the revision; a percentage is rounded up
	Soak     action.Duration `json:"soak,omitempty"`     // how long the environment must stay ready
	Rollout  action.Duration `json:"rolloutTimeout"`     // how long a promoted revision may take to become ready; 0: it never times out
	Merge    *Merge          `json:"autoMerge,omitzero"` // nil: a person merges
	// Policy has no deadline unless the file sets one: a proposal may wait for a person.
	Policy action.Policy `json:"policy"`
}

// App names an application in each target.
type App struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// Target is one place of an application.
type Target struct {
	Cluster   string `json:"cluster"` // a name in promoter.clusters of server.yaml, or a context of kubectl's kubeconfig
	Namespace string `json:"namespace"`
}

// String returns the cluster and the namespace, as messages show them.
func (t Target) String() string { return t.Cluster + "/" + t.Namespace }

// Source selects the field of an application that is its revision.
type Source struct {
	Type      string `json:"type"`
	Key       string `json:"key,omitempty"` // name of the label or annotation
	KeepBuild bool   `json:"keepBuild,omitempty"`
}

// Strategy promotes by pull requests or by notifying others; at most one is set.
type Strategy struct {
	PullRequest  *PullRequest  `json:"pull-request,omitempty"`
	Notification *Notification `json:"notification,omitempty"`
}

// Notification announces the wanted revision to a receiver, which makes the change.
type Notification struct {
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"` // signs the requests
}

// PullRequest configures the repository that has the desired state of the targets.
type PullRequest struct {
	Type      string   `json:"type"` // kind of the Git host
	URL       string   `json:"url"`
	APIURL    string   `json:"apiURL,omitempty"`
	Base      string   `json:"baseBranch"`
	Branch    string   `json:"branch"` // the head branch
	Secret    string   `json:"secret,omitempty"`
	Paths     []string `json:"paths,omitempty"`
	Labels    []string `json:"labels,omitempty"`
	Reviewers []string `json:"reviewers,omitempty"`
	Assignees []string `json:"assignees,omitempty"`
	Draft     bool     `json:"draft,omitempty"`
	Close     bool     `json:"close,omitempty"` // supersede: Close
}

// Merge has Waybill merge the pull request.
type Merge struct {
	Method       string `json:"method,omitempty"`
	IgnoreChecks bool   `json:"ignoreChecks,omitempty"` // requireChecks: false
	Unguarded    bool   `json:"allowUnguarded,omitempty"`
	Queue        bool   `json:"queue,omitempty"`
}

// Need returns how many targets must be ready.
func (v *Environment) Need() int { return v.MinReady.Of(len(v.Targets), true) }

// Applications returns the applications in all targets as resources, if the stage promotes to them: one pipeline may do so. Those that
// it only observes may be others'.
func (v *Environment) Applications() []Resource {
	if v.Strategy == (Strategy{}) {
		return nil
	}
	group, _, _ := strings.Cut(v.App.APIVersion, "/")
	all := make([]Resource, len(v.Targets))
	for i, t := range v.Targets {
		all[i] = Resource{Address: environmentAddress + " " + t.String(), Service: v.App.Kind + "." + group + " " + v.App.Name}
	}
	return all
}

// identity returns the application and the targets as one text. Both must stay the same while a deployment is inside, since its
// promotion would otherwise be judged by other objects. The order of the targets and the version of the kind mean nothing.
func (v *Environment) identity() string {
	targets := make([]string, len(v.Targets))
	for i, t := range v.Targets {
		targets[i] = t.String()
	}
	slices.Sort(targets)
	group, _, _ := strings.Cut(v.App.APIVersion, "/")
	return strings.Join(append([]string{group, v.App.Kind, v.App.Name}, targets...), " ")
}

// environmentAddress is the address of all environments as resources. They are named by the paths of their stages, so that an
// edit of targets does not let an older revision go over a newer one.
const environmentAddress = "environment"

// IsApplication reports whether the resource is an application in a target, as Environment.Applications returns them.
func (r Resource) IsApplication() bool { return strings.HasPrefix(r.Address, environmentAddress+" ") }

// environmentResource returns the resource that the promotion of a stage changes.
func environmentResource(path string) Resource { return Resource{environmentAddress, path} }

// promotion returns the step of a stage that promotes; -1 without one.
func (p *Graph) promotion(stage int32) int32 {
	for _, n := range p.stages[stage].nodes {
		if p.nodes[n].kind == environmentStep {
			return n
		}
	}
	return -1
}

// resourceOf returns the number of the resource that a step changes; -1 for none.
func (t *deployment) resourceOf(n int32) int32 {
	switch at := &t.plan.nodes[n]; {
	case at.host >= 0:
		return t.ids.resources[at.host]
	case at.kind == environmentStep:
		return t.ids.environments[at.stage]
	}
	return -1
}

// isToPromote reports whether the promotion of a stage is still to be done.
func (t *deployment) isToPromote(stage int32) bool {
	n := t.plan.promotion(stage)
	return n >= 0 && !t.is(n, resolved) && !t.isElided(n)
}

// startEnvironment claims a promotion and supersedes the older deployments that are still to promote to the environment, as
// startHost does.
func (p *pass) startEnvironment(t *deployment, n int32) error {
	if err := p.claim(t, n); err != nil {
		return err
	}
	stage := t.plan.nodes[n].stage
	for _, older := range p.e.behind(t, t.ids.environments[stage]) {
		if err := p.supersede(older, t, "started to promote to "+t.plan.short(t.plan.stages[stage].path)); err != nil {
			return err
		}
	}
	return nil
}

// enterEnvironment records that a deployment promotes to an environment. It asserts I3 and I4.
func (e *Engine) enterEnvironment(t *deployment, n int32, l *liveStep) error {
	path := t.plan.target(n)
	l.resource = t.resourceOf(n)
	r := &e.resources[l.resource]
	switch last := r.started; {
	case r.busy.deployment != nil:
		return e.violation("I4", "%s promotes to %s while %s does", e.label(t), t.plan.short(path), e.label(r.busy.deployment))
	case last != nil && t.isOlder(last):
		return e.violation("I3", "%s promotes to %s after %s", e.label(t), t.plan.short(path), e.label(last))
	}
	r.busy = occupant{t, l}
	e.start(t, r)
	t.entered[path] = t.plan.def.Stages[t.plan.nodes[n].stage].Environment.identity()
	return nil
}

// environment refuses another application or other targets for an environment that the deployment is inside.
func (r *refusing) environment(t *deployment, stage int) {
	s := &r.next.def.Stages[stage]
	was, entered := t.entered[r.next.stages[stage].path]
	if s.Environment == nil || !entered || was == s.Environment.identity() {
		return
	}
	wait := "wait until it has ended, or cancel it"
	if t.status == StatusFailed {
		wait = "cancel it, or retry it first"
	}
	r.refuse("environment-moved", stageScope(stage)+".environment", "app and targets of %s cannot change while %s: %s", s.Name, r.state(t), wait)
}

// environmentAt returns the environment of a promotion.
func (p *Graph) environmentAt(n int32) *Environment {
	return p.def.Stages[p.nodes[n].stage].Environment
}

// deploys reports whether a stage brings revisions to where they run.
func (s *Stage) deploys() bool { return s.Kind == HostStage || s.Kind == EnvironmentStage }
