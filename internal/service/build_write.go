package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/git"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// Projects are the projects that can be built without a deployment. The zero value is none.
type Projects struct {
	All   func() map[string]config.Project // projects of the configuration in force
	Ready func() error                     // why no build can be started; nil: one can
	Keys  func() (build.BuilderKeys, error)
	// Engine returns the other build engine that starts a build, by the project and what was named; "": a worker of
	// Waybill does. nil: every name is unknown.
	Engine func(project, asked string) (string, error)
	// MayReport reports whether a token may report about builds of another build engine. nil: only the token with the engine's name may.
	MayReport func(engine, token string) bool
	// Engines lists the other build engines, sorted; nil: none.
	Engines func() []string
	// File reads the file that a build of a project would get; nil if it is missing or cannot be understood. A nil
	// function: it cannot be read.
	File func(ctx context.Context, project, branch, commit string) (*build.File, error)
}

// ProjectView is a project.
type ProjectView struct {
	Name         string `json:"projectId"`
	Repository   string `json:"repository"`
	Branch       string `json:"branch,omitempty"` // branch to build unless a build names one; "": the repository's own
	Subdirectory string `json:"subdirectory,omitempty"`
}

// NewBuild is a request for a build without a deployment.
type NewBuild struct {
	Project     string            `json:"project"`
	Branch      string            `json:"branch,omitempty"`
	Commit      string            `json:"commit,omitempty"` // "": what the branch is at when the build begins
	Environment string            `json:"environment,omitempty"`
	Stages      []string          `json:"stages,omitempty"` // none, or ALL: every stage
	Inputs      map[string]string `json:"inputs,omitempty"`
	Passwords   map[string]string `json:"-"`                // inputs that are passwords
	Engine      string            `json:"engine,omitempty"` // another build engine, or config.OwnEngine; "": as configured
	RerunOf     builds.ID         `json:"rerunOf,omitempty"`
	Resume      bool              `json:"resume,omitempty"` // steps of RerunOf that completed are reused

	By             string `json:"-"`
	IdempotencyKey string `json:"-"`
	DryRun         bool   `json:"-"` // check it, and store nothing
}

// mostInputs is the most bytes of the names and values of a build's inputs, passwords included. Lists have the inputs
// of hundreds of builds.
const mostInputs = 64 << 10

// allStages is the name that selects every stage.
const allStages = "ALL"

// Of the action of a build.
const (
	buildTimeout = 24 * time.Hour // bounds an attempt, which is the whole build once it has a worker
	buildRetries = 20             // retries of failures that keep a build from getting a worker, besides waiting for one
)

// Projects lists the projects that can be built without a deployment, by name.
func (s *Service) Projects() []ProjectView {
	views := []ProjectView{}
	if s.projects.All == nil {
		return views
	}
	all := s.projects.All()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		views = append(views, ProjectView{name, p.Repository, p.Branch, p.Subdirectory})
	}
	return views
}

// Engines lists what a build can name as its engine: the other build engines, with the workers of Waybill in front if
// there are any. It returns nil without another engine, when nothing can be chosen.
func (s *Service) Engines() []string {
	if s.projects.Engines == nil {
		return nil
	}
	engines := s.projects.Engines()
	if len(engines) > 0 && s.projects.Ready() == nil {
		return append([]string{config.OwnEngine}, engines...)
	}
	return engines
}

// RunBuild stores a build of a project and the action that has it run. created is false for the repeat of a request.
func (s *Service) RunBuild(ctx context.Context, o NewBuild) (made buildview.Summary, created bool, err error) {
	engine, err := s.checkBuild(&o)
	if err != nil {
		return made, false, err
	}
	if err := s.checkWithFile(ctx, o, engine); err != nil {
		return made, false, err
	}
	if o.DryRun {
		row := builds.Build{Project: o.Project, Branch: o.Branch, Commit: o.Commit, Environment: o.Environment,
			Stages: o.Stages, Inputs: o.Inputs, Engine: engine}
		return summaryOfDryRun(row, o.Passwords), false, nil
	}
	a, err := s.buildAction(ctx, o)
	if err != nil {
		return made, false, err
	}
	passwords := builds.Passwords{Names: slices.Sorted(maps.Keys(o.Passwords))}
	if len(o.Passwords) > 0 {
		keys, err := s.projects.Keys()
		if err != nil {
			return made, false, fault.New(fault.Refused, "a build with passwords needs a builder key: %w", err)
		}
		if passwords.Sealed, err = builds.Seal(keys, a.ID, o.Passwords); err != nil {
			return made, false, err
		}
	}
	once, err := s.onceBuilt(o, passwords.Names)
	if err != nil {
		return made, false, err
	}
	row := builds.Build{Project: o.Project, Branch: o.Branch, Commit: o.Commit, Environment: o.Environment, Stages: o.Stages, Inputs: o.Inputs,
		Engine: engine, RerunOf: o.RerunOf, Resume: o.Resume, Nonce: rand.Text(), CreatedBy: o.By}
	id, created, err := s.ledger.AddBuild(ctx, row, passwords, a, once)
	if err != nil {
		return made, false, err
	}
	_, state, err := s.BuildState(ctx, buildview.NameOf(id))
	return state.Summary, created, err
}

// onceBuilt returns what identifies a repeated request for a build; nil without an Idempotency-Key. The digest of
// inputs is made with the older builder key, which a rotation leaves: a password among them that is erased could be
// guessed by another digest.
func (s *Service) onceBuilt(o NewBuild, passwords []string) (*queue.Idempotency, error) {
	text, err := json.Marshal(struct {
		NewBuild
		Passwords []string // not their values, of which nothing is kept
	}{o, passwords})
	if err != nil {
		return nil, err
	}
	text = append([]byte("run-build\n"), text...)
	digest := sha256.Sum256(text)
	if o.IdempotencyKey != "" && len(o.Inputs) > 0 {
		keys, err := s.projects.Keys()
		if err != nil {
			return nil, fault.New(fault.Refused, "inputs with an Idempotency-Key need a builder key: %w", err)
		}
		digest = [sha256.Size]byte(Keyed(Keyed(keys[len(keys)-1].Secret, "waybill idempotency"), string(text)))
	}
	return IdempotencyOf(o.IdempotencyKey, o.By, digest)
}

// summaryOfDryRun returns a build as it would be stored.
func summaryOfDryRun(row builds.Build, passwords map[string]string) buildview.Summary {
	made := buildview.Summary{Status: build.Scheduling, Pipeline: row.Project, Branch: row.Branch, Commit: row.Commit,
		Environment: row.Environment,
		Engine:      row.Engine, Stages: append([]string{}, row.Stages...), Params: []buildview.Param{}}
	for name, value := range row.Inputs {
		made.Params = append(made.Params, buildview.Param{Name: name, Value: value})
	}
	for name := range passwords {
		made.Params = append(made.Params, buildview.Param{Name: name, Value: buildview.HiddenValue, Hidden: true})
	}
	slices.SortFunc(made.Params, func(a, b buildview.Param) int { return strings.Compare(a.Name, b.Name) })
	return made
}

// Bounds of reading the build file of a request.
const (
	fileReadLimit    = 10 * time.Second
	fileReadPatience = 2 * time.Second
	mostFileReads    = 4 // at a time
)

// checkWithFile returns all faults of a request by the build's file: a password among the plain inputs, which would
// be stored and shown, and unless another engine builds it stages, an environment and inputs that the file does not
// have, and passwords that are missing. A repository that does not answer soon is not waited for, but in a dry run:
// the conductor checks passwords again before a worker has the build, and the worker checks everything.
func (s *Service) checkWithFile(ctx context.Context, o NewBuild, engine string) error {
	if s.projects.File == nil || engine != "" && len(o.Inputs) == 0 {
		return nil
	}
	release, err := s.fileReads.Acquire(ctx)
	if err != nil {
		return context.Cause(ctx)
	}
	defer release()
	reading, cancel := context.WithTimeout(ctx, fileReadLimit)
	defer cancel()
	file, err := s.projects.File(reading, o.Project, o.Branch, o.Commit)
	switch {
	case err != nil && o.DryRun:
		return fault.New(fault.Unavailable, "the build's file cannot be read, so it is not known what it has: %w", err)
	case err != nil:
		return context.Cause(ctx)
	case file == nil:
		return nil
	case engine != "":
		return file.CheckPlain(o.Inputs).Err()
	}
	return file.Check(build.Request{Stages: o.Stages, Environment: o.Environment, Inputs: o.Inputs, Passwords: o.Passwords}).Err()
}

// buildAction returns the action of a build, but for what AddBuild completes.
func (s *Service) buildAction(ctx context.Context, o NewBuild) (action.Action, error) {
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return action.Action{}, err
	}
	policy := action.DefaultPolicy()
	policy.AttemptTimeout, policy.Retries = action.Duration(buildTimeout), buildRetries
	return action.Action{ID: action.RandomID(now), Kind: builds.ActionKind, Handler: builds.ActionKind,
		Lane:   builds.ActionKind + "/" + o.Project,
		Policy: policy, Delivery: action.AtLeastOnce, CreatedBy: o.By, Trace: obs.Traceparent(ctx)}, nil
}

// engineOf returns the other build engine that starts a build; "": none does. Why it cannot be started there is an error.
func (s *Service) engineOf(o NewBuild) (engine string, err error) {
	find := config.Builds{}.EngineOf
	if s.projects.Engine != nil {
		find = s.projects.Engine
	}
	switch engine, err = find(o.Project, o.Engine); {
	case fault.Is(err, fault.NotFound):
		return "", fault.Problems{{Code: "value-invalid", Scope: "engine", Text: err.Error()}}
	case err != nil:
		return "", err
	case engine == "":
		return "", s.projects.Ready()
	case len(o.Passwords) > 0: // the request is kept, and who reads it there is not known here
		return "", fault.New(fault.Refused, "the build engine %s is given no passwords: Waybill gives them only to its own workers", engine).
			WithHint("keep them at %s, or start the build with the engine %s", engine, config.OwnEngine)
	}
	return engine, nil
}

// checkBuild completes a request and returns the other build engine that starts it, and all that is wrong with it.
func (s *Service) checkBuild(o *NewBuild) (engine string, err error) {
	projects := map[string]config.Project{}
	if s.projects.All != nil {
		projects = s.projects.All()
	}
	p, ok := projects[o.Project]
	if !ok {
		return "", noProject(o.Project, slices.Sorted(maps.Keys(projects)))
	}
	if engine, err = s.engineOf(*o); err != nil {
		return "", err
	}
	if slices.Contains(o.Stages, allStages) {
		o.Stages = nil
	}
	return engine, faultsOf(*o, p).Err()
}

// listedProjects bounds the names of projects in the answer to an unknown one.
const listedProjects = 20

// noProject reports that a project is not known, and which ones are.
func noProject(name string, known []string) error {
	missing := fault.New(fault.NotFound, "project %q not found", fault.Clip(name))
	switch {
	case len(known) == 0:
		return missing.WithHint(
			"projects are described in server.yaml: builds: {projects: {shop: {repository: \"https://git.example.org/shop.git\"}}}")
	case len(known) > listedProjects:
		missing = missing.WithHint("the projects of server.yaml are %s and %d more",
			strings.Join(known[:listedProjects], ", "), len(known)-listedProjects)
	default:
		missing = missing.WithHint("the projects of server.yaml are %s", strings.Join(known, ", "))
	}
	return missing.WithNearest(name, known)
}

// faultsOf returns all that is wrong with a request for a build of a project.
func faultsOf(o NewBuild, p config.Project) (faults fault.Problems) {
	add := func(field, format string, arguments ...any) {
		faults.Add(fault.Problem{Code: "value-invalid", Scope: field, Text: fmt.Sprintf(format, arguments...)})
	}
	place := git.Clone{URL: p.Repository, Branch: o.Branch, Commit: o.Commit}
	if err := place.CheckPlace(); err != nil {
		add("branch", "%v", err)
	} else if err := place.Check(); o.Commit != "" && err != nil {
		add("commit", "%v", err)
	}
	for field, names := range map[string][]string{"branch": {o.Branch}, "environment": {o.Environment}, "stage": o.Stages,
		"inputs": slices.Collect(maps.Keys(o.Inputs)), "passwords": slices.Collect(maps.Keys(o.Passwords))} {
		if i := slices.IndexFunc(names, func(name string) bool { return strings.ContainsFunc(name, Obeyed) }); i >= 0 {
			add(field, "%+.100q: want a name without control characters and those that turn the direction of text", names[i])
		}
	}
	inputs := maps.Clone(o.Inputs)
	for name, value := range o.Passwords {
		if _, twice := inputs[name]; twice {
			add("passwords", "%q is an input already", fault.Clip(name))
		}
		if inputs == nil {
			inputs = map[string]string{}
		}
		inputs[name] = value
	}
	if size := sizeOf(inputs); size > mostInputs {
		add("inputs", "inputs and passwords come to %d bytes, and %d are allowed: keep large values in the repository", size, mostInputs)
	}
	// What the provisioner would refuse, is refused here.
	asked := provisionerv1.CreateWorker{BuildID: 1, Project: o.Project, Instance: "waybill", Nonce: strings.Repeat("x", 26),
		Repository: &provisionerv1.Repository{URL: p.Repository, Subdirectory: p.Subdirectory, Credential: p.Credential},
		Stages:     o.Stages, Environment: o.Environment, Inputs: inputs}
	if refused, ok := errors.AsType[fault.Problems](asked.Check()); ok {
		faults.Add(refused...)
	}
	return faults
}

// sizeOf returns the size of names and values, in bytes.
func sizeOf(values map[string]string) (size int) {
	for name, value := range values {
		size += len(name) + len(value)
	}
	return size
}

// rowOf returns the build of the database that an id names; ok is false for one of a folder.
func (s *Service) rowOf(ctx context.Context, id string) (row builds.Build, ok bool, err error) {
	number, ok := buildview.NumberOf(id)
	if !ok {
		return row, false, nil
	}
	row, err = s.ledger.Builds.Build(ctx, number)
	return row, err == nil, err
}

// notInDatabase refuses what can only be done to builds in the database.
func (s *Service) notInDatabase(ctx context.Context, id, verb string) error {
	if _, err := s.Build(ctx, id); err != nil {
		return err
	}
	return fault.New(fault.Refused, "build %s ran as a child of its conductor, and cannot be %s", fault.Clip(id), verb)
}

// CancelBuild stores that a build is to be canceled. One without a worker ends at once, any other soon. A build that ran as a child of a
// conductor is canceled with its action.
func (s *Service) CancelBuild(ctx context.Context, id, by string) (buildview.Summary, error) {
	row, ok, err := s.rowOf(ctx, id)
	if err != nil {
		return buildview.Summary{}, err
	}
	if !ok {
		return s.cancelFolder(ctx, id)
	}
	if _, err := s.ledger.Builds.Cancel(ctx, row.ID, by); err != nil {
		return buildview.Summary{}, err
	}
	if row.Engine != "" && !row.ActionID.IsZero() { // it waits for the engine, and may do so between two attempts
		if err := s.ledger.Cancel(ctx, row.ActionID, queue.CancelNow); err != nil && !fault.Is(err, fault.Terminal) {
			return buildview.Summary{}, err
		}
	}
	_, state, err := s.BuildState(ctx, id)
	return state.Summary, err
}

func (s *Service) cancelFolder(ctx context.Context, id string) (buildview.Summary, error) {
	_, state, err := s.BuildState(ctx, id)
	if err != nil {
		return buildview.Summary{}, err
	}
	if state.Ended() {
		return buildview.Summary{}, fault.New(fault.Terminal, "build %s has ended: %s", fault.Clip(id), state.Status)
	}
	of, err := action.ParseID(state.Action)
	if err != nil {
		return buildview.Summary{}, s.notInDatabase(ctx, id, "canceled from here")
	}
	_, err = s.CancelAction(ctx, of)
	return state.Summary, err
}

// BuildRerun is a request to run a build again, as another.
type BuildRerun struct {
	ID             string
	Passwords      map[string]string // those that the build had: they are not kept
	Resume         bool              // steps that completed, and are still the same, do not run again
	By             string
	IdempotencyKey string
}

// RerunBuild stores a build of the same commit, stages, environment and inputs as one that has ended.
func (s *Service) RerunBuild(ctx context.Context, o BuildRerun) (made buildview.Summary, created bool, err error) {
	row, ok, err := s.rowOf(ctx, o.ID)
	switch {
	case err != nil:
		return made, false, err
	case !ok:
		return made, false, s.notInDatabase(ctx, o.ID, "run again; its deployment can retry the step")
	case row.Revision != "":
		return made, false, fault.New(fault.Refused, "build %d belongs to revision %s of %s", row.ID, row.Revision, row.Project).
			WithHint("its deployment can retry the step: waybill deployment retry")
	case !row.Status.Ended():
		return made, false, fault.New(fault.Refused, "build %d is %s; cancel it first, or wait for its end", row.ID, row.Status)
	case o.Resume && row.Engine != "":
		return made, false, fault.New(fault.Refused,
			"build %d was run by the build engine %s, whose steps Waybill cannot reuse", row.ID, row.Engine).
			WithHint("leave resume out: the engine runs every step again")
	}
	had, err := s.ledger.Builds.Passwords(ctx, row.ID)
	if err != nil {
		return made, false, err
	}
	if err := samePasswords(row.ID, had[row.ID].Names, o.Passwords); err != nil {
		return made, false, err
	}
	return s.RunBuild(ctx, NewBuild{Project: row.Project, Branch: row.Branch, Commit: row.Commit,
		Environment: row.Environment, Stages: row.Stages,
		Inputs: row.Inputs, Passwords: o.Passwords, Engine: cmp.Or(row.Engine, config.OwnEngine), RerunOf: row.ID,
		Resume: o.Resume, By: o.By, IdempotencyKey: o.IdempotencyKey})
}

// samePasswords returns an error unless the passwords are given that a build had. Further ones may be why it failed: it lacked them.
func samePasswords(id builds.ID, had []string, given map[string]string) error {
	var faults fault.Problems
	for _, name := range had {
		if _, ok := given[name]; !ok {
			faults.Add(fault.Problem{Code: "password-missing", Scope: "passwords." + name,
				Text: fmt.Sprintf("build %d had it, and passwords are not kept: give it again (waybill build rerun %d -p %s)", id, id, name)})
		}
	}
	faults.Sort()
	return faults.Err()
}

// DeleteBuild deletes what is stored of a build that has ended. What its worker may still send is refused.
func (s *Service) DeleteBuild(ctx context.Context, id string) error {
	number, ok := buildview.NumberOf(id)
	if !ok {
		return s.notInDatabase(ctx, id, "deleted; it goes after a week")
	}
	if err := s.ledger.Builds.Delete(ctx, number); err != nil {
		return err
	}
	return s.blobs.Clear(ctx, builds.Folder(number))
}
