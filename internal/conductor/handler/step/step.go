package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/secret"
)

// Ledger is the part of the log that a step reads, and the note that it writes.
type Ledger interface {
	// Definition reads a definition version; 0: the one in force. Errors: fault.NotFound.
	Definition(ctx context.Context, pipeline string, version int) (pipeline.Definition, error)
	// Revision finds a revision by its label, or by its rev_seq if label is "". It returns
	// fault.NotFound for an unknown one.
	Revision(ctx context.Context, pipeline, label string, seq int64) (pipeline.RegisteredRevision, error)
	// Era returns how often the log was restored from a backup: 0 is a log that never was.
	Era(ctx context.Context) (int64, error)
	// EntriesUnder reads the entries of a deployment at a target and below it, in their order.
	EntriesUnder(ctx context.Context, pipeline string, deployment int64, target string) ([]pipeline.Entry, error)
	Notes
}

// Blobs is the source of artifacts.
type Blobs interface {
	// Get opens an object and returns its size in bytes. It returns fault.NotFound for an unknown
	// key.
	Get(ctx context.Context, key string) (io.ReadCloser, int64, error)
}

// Config configures a Handler.
type Config struct {
	Hosts                     // how hosts are reached; relative files of secrets count from its Dir
	Ledger   Ledger           // definitions and revisions
	Blobs    Blobs            // artifacts
	LedgerID string           // names the log in a host's fence; one without spaces
	Evidence evidence.Archive // where the output of own steps is kept; without Blobs it is not
	Log      *slog.Logger     // nil: none
	Homes    Homes            // homes of local hosts, where other processes have other homes; nil: all hosts are in Home
	Here     queue.HostHome   // Home as Homes knows it
}

// Homes keeps each local host for one home.
type Homes interface {
	// BindHost keeps an address for a home unless another home has it, and returns the one that has
	// it.
	BindHost(ctx context.Context, address string, home queue.HostHome) (queue.HostHome, error)
}

// Handler performs the steps of hosts. Safe for concurrent use.
type Handler struct {
	config Config
	ours   sync.Map // addresses of hosts that are kept for this home
	laps   laps
}

// New makes the handler.
func New(config Config) *Handler {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Handler{config: config}
}

// Do makes one attempt at the step that the action names.
func (h *Handler) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	output, err := h.try(ctx, a)
	if err != nil {
		return outcomeOf(ctx, err)
	}
	encoded, err := json.Marshal(output)
	if err != nil {
		return outcomeOf(ctx, fault.Permanent(err))
	}
	o := action.Outcome{Kind: action.Done, Output: encoded}
	if output.Kept {
		o.Ref = evidence.Exchange(a.Action.ID, a.Number)
	}
	return o
}

// Output is the report of a completed step. It becomes the detail of the step's entry.
type Output struct {
	Text    string `json:"text,omitempty"`    // text for people
	Release string `json:"release,omitempty"` // name of the release's folder on the host
	Size    int64  `json:"size,omitempty"`    // bytes of the whole release
	Sent    int64  `json:"sent,omitempty"`    // bytes that went to the host
	Already bool   `json:"already,omitempty"` // nothing was left to do
	Kept    bool   `json:"kept,omitempty"`    // a StepOutput was stored as what the attempt saw
}

// StepOutput is the printed output of an own step, as evidence keeps it.
type StepOutput struct {
	Host  string   `json:"host"`
	Run   []string `json:"run"`
	Lines []string `json:"lines"` // the last ones, without secrets
}

func (h *Handler) try(ctx context.Context, a conductor.Attempt) (Output, error) {
	if s := a.Action.Step; s != nil && (s.Event == pipeline.StageBaked || s.Event == pipeline.WaveBaked) {
		return h.bake(ctx, a)
	}
	t, err := h.load(ctx, a)
	if err != nil {
		return Output{}, err
	}
	defer t.host.Close()
	output, err := t.perform(ctx)
	t.sayPassed(ctx, &output, err)
	return output, t.redact(err)
}

// perform does the work of the step.
func (t *attempt) perform(ctx context.Context) (Output, error) {
	switch t.step.Name {
	case pipeline.Replicate:
		return t.replicate(ctx)
	case pipeline.Deploy:
		return t.deploy(ctx)
	case pipeline.Test:
		return t.test(ctx)
	}
	return t.run(ctx)
}

// attempt is one try at one step of one host.
type attempt struct {
	definition.Target
	config   *Config
	id       action.ID
	number   int
	last     bool // no other attempt follows one that fails
	facts    action.StepRef
	era      int64 // era of the log
	rank     int64 // below which the host refuses what comes
	fence    fences
	owner    string // deployment that the host's fence will name, such as greeter#9
	keep     int
	ssh      *pipeline.SSH // how ssh hosts are reached by the version of the action
	inForce  func() (pipeline.Definition, error)
	step     pipeline.Step
	revision pipeline.RegisteredRevision
	artifact pipeline.RevisionArtifact
	release  string // name of its folder on the host
	host     Host
	folder   string        // folder of the service on the host
	secrets  secret.Values // secrets of the service, as this attempt has read them
}

// load finds everything that the action of a host's step names.
func (h *Handler) load(ctx context.Context, a conductor.Attempt) (*attempt, error) {
	t, definition, err := h.read(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := t.resolve(definition); err != nil {
		return nil, fault.Permanent(err)
	}
	if err := t.findStep(); err != nil {
		return nil, fault.Permanent(err)
	}
	if err := h.reach(ctx, t); err != nil {
		return nil, err
	}
	if t.step.Name == pipeline.Replicate {
		return t, nil // replicate itself names the folder
	}
	err = t.findFolder(ctx, definition)
	if t.step.Name == pipeline.Deploy && t.isOver(ctx) {
		return t, nil // it starts nothing: the host is asked to go back, for which the folder counts for nothing
	}
	if err != nil {
		return nil, errors.Join(t.redact(err), t.host.Close())
	}
	return t, nil
}

// findFolder resolves the target again if it names the folder of the release, and that is another on the host, since
// the files of the first one have changed while it was in use.
func (t *attempt) findFolder(ctx context.Context, d *pipeline.Definition) error {
	other, err := t.resolved(d, t.release+".2")
	other.Vars = t.Vars // they always name the folder
	if err != nil || reflect.DeepEqual(other, t.Target) {
		return err
	}
	if there, err := t.program().deployed(ctx); err != nil || !there {
		return err
	}
	answer, err := t.program().call(ctx, nil, "status", pair("release", t.release))
	if err != nil || answer.first("folder") == "" {
		return err
	}
	t.Target, err = t.resolved(d, answer.first("folder"))
	return err
}

// reach connects to the host of an attempt. A step's work is fixed when it is claimed; an ssh host is reached by the
// version in force, so that a host which waits for another way is reached once an edit names that.
func (h *Handler) reach(ctx context.Context, t *attempt) (err error) {
	if !t.Host.Remote() {
		if err := h.bind(ctx, t.Host, t.number); err != nil {
			return err
		}
	}
	at := pipeline.Place{Target: t.facts.Target, Host: &t.Host, SSH: t.ssh}
	if t.Host.Remote() {
		now, err := t.inForce()
		if err != nil {
			return unread(err, "read the definition of %s", t.facts.Pipeline)
		}
		at = at.ReachedAs(&now)
	}
	t.host, t.folder, err = h.config.connect(at, t.Service.Name)
	return err
}

// read reads the names of the action in the log, before it is known which host is concerned.
func (h *Handler) read(ctx context.Context, a conductor.Attempt) (*attempt, *pipeline.Definition, error) {
	if a.Action.Step == nil {
		return nil, nil, fault.Permanent(fault.New(fault.Invalid, "action %s names no step of a deployment", a.Action.ID))
	}
	facts := *a.Action.Step
	definition, err := h.config.Ledger.Definition(ctx, facts.Pipeline, facts.Version)
	if err != nil {
		return nil, nil, unread(err, "read definition %d of %s", facts.Version, facts.Pipeline)
	}
	era, err := h.config.Ledger.Era(ctx)
	if err != nil {
		return nil, nil, unread(err, "read the era of the log")
	}
	revision, err := h.config.Ledger.Revision(ctx, facts.Pipeline, "", facts.Revision)
	if err != nil {
		return nil, nil, unread(err, "read revision %d of %s", facts.Revision, facts.Pipeline)
	}
	fence := fencesOf(a.Action)
	t := &attempt{config: &h.config, id: a.Action.ID, number: a.Number, last: a.Spent >= a.Action.Policy.Retries, facts: facts, era: era,
		rank: ranked(era, fence.own), fence: fence, owner: fmt.Sprintf("%s#%d", facts.Pipeline, facts.Deployment),
		revision: revision, keep: definition.Keep.Releases, ssh: definition.SSH}
	t.inForce = sync.OnceValues(func() (pipeline.Definition, error) { return h.config.Ledger.Definition(ctx, facts.Pipeline, 0) })
	return t, &definition, nil
}

// mostAway bounds the time between searches for a conductor of another home.
const mostAway = 15 * time.Second

// bind keeps a host for this home, or leaves its step to a process with the home that has the host.
// That spends no attempt, and each claim waits longer than the last one, since the home may be away
// for days.
func (h *Handler) bind(ctx context.Context, host pipeline.Host, claim int) error {
	keeper, err := h.keeper(ctx, host)
	if err != nil {
		return err
	}
	if keeper.ID != h.config.Here.ID {
		return fault.RetryAfter(fault.New(fault.Unavailable,
			"host %s waits for a conductor of the home %s, which holds its files; this one has %s",
			host.Name, keeper.Place, h.config.Here.Place).
			WithHint("start waybill serve conductor with that home, or give the host a new name in waybill.yaml"), time.Now().
			Add(min(time.Duration(claim)*pause, mostAway)))
	}
	return nil
}

// keeper returns the home that a local host is kept for: this one, if no other has it.
func (h *Handler) keeper(ctx context.Context, host pipeline.Host) (queue.HostHome, error) {
	address := host.Address()
	if _, known := h.ours.Load(address); known || h.config.Homes == nil {
		return h.config.Here, nil
	}
	keeper, err := h.config.Homes.BindHost(ctx, address, h.config.Here)
	if err != nil {
		return keeper, unread(err, "find the home of host %s", host.Name)
	}
	if keeper.ID == h.config.Here.ID {
		h.ours.Store(address, true)
	}
	return keeper, nil
}

// resolve finds the host that the attempt's target names, and its release.
func (t *attempt) resolve(d *pipeline.Definition) error {
	_, _, host, ok := d.Find(t.facts.Target)
	if !ok || host == nil {
		return fault.New(fault.NotFound, "definition %d has no host %s", t.facts.Version, t.facts.Target)
	}
	var err error
	if t.artifact, err = artifactOf(t.revision, host); err != nil {
		return err
	}
	t.release = releaseName(t.revision.Label, t.artifact.Digest)
	t.Target, err = t.resolved(d, t.release)
	return err
}

// resolved returns the target's release when the folder of its release has this name.
func (t *attempt) resolved(d *pipeline.Definition, folder string) (definition.Target, error) {
	return definition.Resolve(d, t.facts.Target, definition.Revision{Label: t.revision.Label, Release: folder})
}

// findStep finds the step of the host's chain that the action names.
func (t *attempt) findStep() error {
	for _, s := range t.Chain {
		if s.Event == t.facts.Event {
			t.step = s
			return nil
		}
	}
	return fault.New(fault.NotFound, "definition %d has no step %s on %s", t.facts.Version, t.facts.Event, t.facts.Target)
}

// artifactOf returns the artifact that a host gets: the one of its architecture, or the only one.
func artifactOf(revision pipeline.RegisteredRevision, host *pipeline.Host) (pipeline.RevisionArtifact, error) {
	for _, a := range revision.Artifacts {
		if a.Label == host.Arch || (host.Arch == "" && len(revision.Artifacts) == 1) {
			return a, nil
		}
	}
	if host.Arch == "" && len(revision.Artifacts) > 1 {
		return pipeline.RevisionArtifact{}, fault.New(fault.Invalid, "host %q names no arch, and revision %s has %d artifacts",
			host.Name, revision.Label, len(revision.Artifacts)).WithHint("set arch of the host in waybill.yaml")
	}
	if host.Arch == "" {
		return pipeline.RevisionArtifact{}, fault.New(fault.NotFound, "revision %s has no artifact", revision.Label).
			WithHint("let a build stage name artifacts in waybill.yaml")
	}
	return pipeline.RevisionArtifact{}, fault.New(fault.NotFound, "revision %s has no artifact %s", revision.Label, host.Arch)
}

// releaseName returns <label>-<digest12>, with "-" for characters that a folder's name should not
// have.
func releaseName(label, digest string) string {
	safe := []byte(label)
	for i, c := range safe {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '_' || (c == '.' && i > 0)) {
			safe[i] = '-'
		}
	}
	return string(safe[:min(len(safe), 100)]) + "-" + digest[:min(len(digest), 12)]
}
