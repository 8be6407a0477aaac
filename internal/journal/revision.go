package journal

import (
	"context"
	"encoding/json"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// States of a revision.
const (
	RevisionOpen     = "open"     // artifacts may still come
	RevisionSealed   = "sealed"   // all required artifacts are in; immutable
	RevisionRejected = "rejected" // deployed only when accepted again
)

// Kinds of deployments.
const (
	Forward = "forward" // made when a revision is registered
	Manual  = "manual"  // a person asked for it
	// Rollback is the kind of a deployment that undoes another; pipeline.Engine decides on it.
	Rollback = pipeline.KindRollback
	// CatchUp is the kind of a deployment that completes another; pipeline.Engine decides on it.
	CatchUp = pipeline.KindCatchUp
	// Part is the kind of a deployment that a person asked for, of one stage, group or host.
	Part = pipeline.KindPart
)

// Registered is the result of Register.
type Registered struct {
	Revision   pipeline.RegisteredRevision `json:"revision"`
	Created    bool                        `json:"created"`              // the revision is new
	Deployment *Deployment                 `json:"deployment,omitempty"` // its forward deployment; nil when none was wanted
}

// Register stores a revision and, when deploy is set, makes its forward deployment with the note deployment-created,
// which goes no further than the stage until; "" is to the end. A caller that has lost the answer may repeat the
// call: the same label with the same snapshot answers with the existing one. Errors: fault.Conflict if the label has
// another snapshot or commit or the upload is too old, fault.NotFound if the pipeline does not exist, fault.Invalid
// for a bad label, and those of Deploy.
func (j *Journal) Register(ctx context.Context, r pipeline.RegisteredRevision, deploy bool, until string) (done Registered, err error) {
	err = j.write(ctx, "register revision "+r.Label, func(t *txn) error {
		done = Registered{}
		head, err := t.lockOne(r.Pipeline)
		if err != nil {
			return err
		}
		if done.Revision, done.Created, err = t.register(head, r); err != nil || !deploy {
			return err
		}
		done.Deployment, err = t.forward(head, done.Revision, NewDeployment{Kind: Forward, Until: until, By: r.By})
		return err
	})
	return done, err
}

// register finds a revision by its label, or stores it behind the newest. The second result reports
// whether it is new. The age of the upload is checked for a new revision only, since a known one keeps
// the upload with which it was registered.
func (t *txn) register(head *HeadRow, r pipeline.RegisteredRevision) (pipeline.RegisteredRevision, bool, error) {
	if err := checkLabel(r.Label); err != nil {
		return pipeline.RegisteredRevision{}, false, err
	}
	known, err := t.Revisions(head.Pipeline, r.Label, 0, 0)
	if err != nil {
		return pipeline.RegisteredRevision{}, false, err
	}
	if len(known) > 0 {
		return known[0], false, checkSame(known[0], r)
	}
	if err := t.checkUpload(r.Snapshot); err != nil {
		return pipeline.RegisteredRevision{}, false, err
	}
	head.Newest++
	r.Seq, r.State, r.CreatedAt, r.Artifacts = head.Newest, RevisionOpen, t.Now(), nil
	if err := t.InsertRevision(head.ID, r); err != nil {
		return pipeline.RegisteredRevision{}, false, err
	}
	return r, true, t.UpdateHead(*head)
}

// longestLabel is in bytes. Waybill's own labels are digests; other programs may choose theirs.
const longestLabel = 200

// checkLabel returns fault.Invalid for a label that is empty, too long, or not one line of text. Characters that are not
// seen are refused: with them two labels look alike, and people approve revisions by their labels.
func checkLabel(label string) error {
	switch {
	case label == "":
		return fault.New(fault.Invalid, "a revision needs a label")
	case len(label) > longestLabel:
		return fault.New(fault.Invalid, "the label of a revision has %d bytes, at most %d", len(label), longestLabel)
	case strings.ContainsFunc(label, unicode.IsControl) || !utf8.ValidString(label):
		return fault.New(fault.Invalid, "the label of a revision must be one line of text, not %q", label)
	}
	if r, found := pipeline.Unseen(label); found {
		return fault.New(fault.Invalid, "the label of a revision must have visible characters only, not %U in %+q", r, label)
	}
	return nil
}

// checkSame returns fault.Conflict if a revision is registered with other content than a caller has. A
// caller that names no commit agrees with any.
func checkSame(known, r pipeline.RegisteredRevision) error {
	if path.Base(known.Snapshot) != path.Base(r.Snapshot) { // the digest; each upload has a folder of its own
		return fault.New(fault.Conflict, "revision %s of %s is registered with other content: snapshot %s, now %s",
			r.Label, r.Pipeline, orNone(known.Snapshot), orNone(r.Snapshot))
	}
	if r.Commit != "" && known.Commit != r.Commit {
		return fault.New(fault.Conflict, "revision %s of %s is registered with commit %s, now %s",
			r.Label, r.Pipeline, orNone(known.Commit), r.Commit)
	}
	return nil
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// forward returns the forward deployment of a revision, and makes it if it is not there. One that is
// there stays as it is, also if another last stage is wanted.
func (t *txn) forward(head *HeadRow, r pipeline.RegisteredRevision, want NewDeployment) (*Deployment, error) {
	some, err := t.Deployments(DeploymentQuery{Pipeline: head.Pipeline, Revision: r.Seq})
	if err != nil {
		return nil, err
	}
	for _, d := range some {
		if d.Kind == Forward {
			return &d, nil
		}
	}
	d, err := t.deploy(head, r, want)
	return &d, err
}

// NewDeployment is a deployment to be made.
type NewDeployment struct {
	Pipeline string
	Revision int64  // rev_seq
	Kind     string // Forward, Manual or Part
	Target   string // target of a Part: full path of the stage, group or host
	Until    string // name of the stage to go no further than; "": to the end
	By       string // the person or program that asked for it
	Key      string // key of the request: Deploy makes one deployment for it within RepeatAge; "": every request is a new one
}

// Deploy makes one more deployment of a registered revision. Errors: fault.NotFound if the pipeline,
// its definition, the revision or the target does not exist; fault.Refused if the revision is rejected,
// or if a part is wanted of a target without hosts or of a revision whose artifacts are not all in;
// fault.Invalid if the definition in force does not have the stage Until; fault.IdempotencyKeyReused if another request
// had the Key.
func (j *Journal) Deploy(ctx context.Context, want NewDeployment) (d Deployment, err error) {
	err = j.write(ctx, "deploy "+want.Pipeline, func(t *txn) error {
		head, err := t.lockOne(want.Pipeline)
		if err != nil {
			return err
		}
		r, err := oneRevision(t, want.Pipeline, "", want.Revision)
		if err != nil {
			return err
		}
		var found bool
		if d, found, err = t.repeated(r.Seq, want); err != nil || found {
			return err
		}
		d, err = t.deploy(head, r, want)
		return err
	})
	return d, err
}

// deploy stores a deployment and its note, and writes the head. The last stage is in that note, so no
// pass sees the deployment without it. A pipeline without a definition has nothing to go through. The
// number orders the deployments of one pipeline; the uuid is for the keys of actions, which all
// pipelines share.
func (t *txn) deploy(head *HeadRow, r pipeline.RegisteredRevision, want NewDeployment) (Deployment, error) {
	switch {
	case head.Version == 0:
		return Deployment{}, fault.New(fault.NotFound, "pipeline %q has no definition yet", head.Pipeline)
	case r.State == RevisionRejected:
		return Deployment{}, fault.New(fault.Refused, "revision %s is rejected", r.Label).
			WithHint("waybill revision accept %s %s", head.Pipeline, r.Label)
	}
	if err := t.checkUntil(head, want.Until); err != nil {
		return Deployment{}, err
	}
	if err := t.checkPart(head, r, want); err != nil {
		return Deployment{}, err
	}
	head.Deployed++
	d := t.newDeployment(head, r, want)
	if err := t.InsertDeployment(head.ID, d); err != nil {
		return Deployment{}, err
	}
	about := map[string]string{"kind": want.Kind, "label": r.Label, "by": want.By}
	if once := want.once(); once != "" {
		about["once"] = once
	}
	if want.Until != "" {
		about["until"] = want.Until
	}
	if want.Kind == Part {
		about["scope"] = want.Target
	}
	if r.By != want.By { // a stage that needs approval may not let the one approve it who registered the revision
		about["registeredBy"] = r.By
	}
	detail, err := json.Marshal(about)
	if err != nil {
		return Deployment{}, err
	}
	created := pipeline.Entry{Deployment: d.Number, Event: pipeline.DeploymentCreated, Class: pipeline.Note,
		Revision: r.Seq, Detail: detail}
	if err := t.append(head, []pipeline.Entry{created}); err != nil {
		return Deployment{}, err
	}
	return d, t.UpdateHead(*head)
}

// newDeployment returns the newest deployment of a pipeline, as head counts them.
func (t *txn) newDeployment(head *HeadRow, r pipeline.RegisteredRevision, want NewDeployment) Deployment {
	return Deployment{ID: action.RandomID(t.Now()), Pipeline: head.Pipeline, Number: head.Deployed, Kind: want.Kind, Revision: r.Seq,
		Label: r.Label, Version: head.Version, Status: pipeline.StatusActive, By: want.By, CreatedAt: t.Now()}
}

// checkUntil returns fault.Invalid for a stage that the definition in force does not have. The
// engine keeps back every stage of a deployment whose last stage it does not find, so a misspelled
// name would stop the deployment before it has begun.
func (t *txn) checkUntil(head *HeadRow, until string) error {
	if until == "" {
		return nil
	}
	k, err := t.definition(head)
	if err != nil {
		return err
	}
	names := make([]string, len(k.definition.Stages))
	for i, stage := range k.definition.Stages {
		if names[i] = stage.Name; stage.Name == until {
			return nil
		}
	}
	return fault.New(fault.Invalid, "stage %q not found in definition %d of %s", until, head.Version, head.Pipeline).
		WithHint("stages: %s", strings.Join(names, ", "))
}

// checkPart refuses a deployment of a target that cannot be deployed to on its own, and of a revision that is still
// being built, since a part builds nothing.
func (t *txn) checkPart(head *HeadRow, r pipeline.RegisteredRevision, want NewDeployment) error {
	if want.Kind != Part {
		return nil
	}
	k, err := t.definition(head)
	if err != nil {
		return err
	}
	if err := pipeline.CheckPart(&k.definition, want.Target); err != nil {
		return err
	}
	if r.State == RevisionOpen {
		return fault.New(fault.Refused, "revision %s does not have all its artifacts yet", r.Label).
			WithHint("waybill revision show %s %s", head.Pipeline, r.Label)
	}
	return nil
}

// RegisterArtifact stores one result of a build and appends the change artifact-registered. The same content again
// does nothing, so an attempt that is repeated may register the same again. The last artifact that the definition in
// force requires seals the revision. Errors: fault.Conflict for other content under a known label, a sealed revision
// or an upload that is too old; fault.NotFound if the pipeline, its definition or the revision does not exist.
func (j *Journal) RegisterArtifact(ctx context.Context, name string, revision int64, a pipeline.RevisionArtifact) error {
	return j.write(ctx, "register artifact "+a.Label, func(t *txn) error {
		head, err := t.lockOne(name)
		if err != nil {
			return err
		}
		r, err := oneRevision(t, name, "", revision)
		if err != nil {
			return err
		}
		if known, err := t.knownArtifact(head, r, a); known || err != nil {
			return err
		}
		if err := t.checkUpload(a.Blob); err != nil {
			return err
		}
		return t.addArtifact(head, r, a)
	})
}

// knownArtifact reports whether the same artifact is registered. It returns fault.Conflict for another in its place,
// and for one more artifact of a sealed revision: the artifact tested in one stage must be the one that the next
// stage gets.
func (t *txn) knownArtifact(head *HeadRow, r pipeline.RegisteredRevision, a pipeline.RevisionArtifact) (bool, error) {
	for _, k := range r.Artifacts {
		if k.Label != a.Label {
			continue
		}
		if k.Digest != a.Digest {
			return false, fault.New(fault.Conflict, "artifact %s of revision %s is registered with digest %s, now %s",
				a.Label, r.Label, k.Digest, a.Digest)
		}
		return true, nil
	}
	sealed := r.State == RevisionSealed
	if r.State == RevisionRejected {
		var err error
		if sealed, err = t.wasSealed(head, r); err != nil {
			return false, err
		}
	}
	if sealed {
		return false, fault.New(fault.Conflict, "revision %s is sealed: all its artifacts are in, and %s is none of them", r.Label, a.Label)
	}
	return false, nil
}

// addArtifact stores an artifact with the entry by which the engine learns of it, and writes the head.
func (t *txn) addArtifact(head *HeadRow, r pipeline.RegisteredRevision, a pipeline.RevisionArtifact) error {
	if err := t.InsertArtifact(head.ID, r.Seq, a); err != nil {
		return err
	}
	about := map[string]any{"label": a.Label, "digest": a.Digest, "size": a.Size}
	if a.By != "" {
		about["by"] = a.By
	}
	detail, err := json.Marshal(about)
	if err != nil {
		return err
	}
	change := pipeline.Entry{Event: pipeline.ArtifactRegistered, Class: pipeline.Change, Revision: r.Seq, Detail: detail}
	if err := t.append(head, []pipeline.Entry{change}); err != nil {
		return err
	}
	if err := t.UpdateHead(*head); err != nil {
		return err
	}
	return t.seal(head, r, a)
}

// seal closes an open revision once everything that the definition in force requires is in. r is the
// revision as it was read before the artifact was stored, so it does not have that one, last, yet.
func (t *txn) seal(head *HeadRow, r pipeline.RegisteredRevision, last pipeline.RevisionArtifact) error {
	if r.State != RevisionOpen {
		return nil
	}
	complete, err := t.isComplete(head, append(r.Artifacts, last))
	if err != nil || !complete {
		return err
	}
	return t.SetRevisionState(head.ID, r.Seq, RevisionSealed)
}

// isComplete reports whether everything that the definition in force requires of a revision is in.
func (t *txn) isComplete(head *HeadRow, artifacts []pipeline.RevisionArtifact) (bool, error) {
	k, err := t.definition(head)
	if err != nil {
		return false, err
	}
	have := map[string]bool{}
	for _, a := range artifacts {
		have[a.Label] = true
	}
	return hasRequired(&k.definition, have), nil
}

// hasRequired reports whether every artifact that a definition requires is among some labels.
func hasRequired(d *pipeline.Definition, have map[string]bool) bool {
	for _, stage := range d.Stages {
		if stage.Build == nil {
			continue
		}
		for _, a := range stage.Build.Artifacts {
			if !have[a.Label] {
				return false
			}
		}
	}
	return true
}

// wasSealed reports whether an artifact of a revision was the last that the definition in force then required. The
// state of a rejected revision does not have that, but the log does: a later requirement of an edit opens no sealed
// revision.
func (t *txn) wasSealed(head *HeadRow, r pipeline.RegisteredRevision) (bool, error) {
	entries, err := t.ArtifactEntries(head.Pipeline, r.Seq)
	if err != nil {
		return false, err
	}
	have := map[string]bool{}
	for _, e := range entries {
		var about struct{ Label string }
		if err := json.Unmarshal(e.Detail, &about); err != nil {
			return false, fault.New(fault.Corrupt, "entry %d of %s: %v", e.Seq, head.Pipeline, err)
		}
		have[about.Label] = true
		then, err := t.storedVersion(head, e.Version)
		if err != nil {
			return false, err
		}
		if hasRequired(&then.Definition, have) {
			return true, nil
		}
	}
	return false, nil
}

// accept gives a rejected revision the state that it would have without the rejection.
func (t *txn) accept(head *HeadRow, e pipeline.Entry) error {
	r, err := oneRevision(t, head.Pipeline, "", e.Revision)
	if err != nil {
		return err
	}
	sealed, err := t.isComplete(head, r.Artifacts)
	if err == nil && !sealed {
		sealed, err = t.wasSealed(head, r)
	}
	if err != nil {
		return err
	}
	state := RevisionOpen
	if sealed {
		state = RevisionSealed
	}
	return t.SetRevisionState(head.ID, r.Seq, state)
}

// oneRevision finds a revision by label, or by seq when label is "". The error is fault.NotFound if the
// pipeline does not have it.
func oneRevision(tx *txn, name, label string, seq int64) (pipeline.RegisteredRevision, error) {
	found, err := tx.Revisions(name, label, seq, 0)
	if err != nil {
		return pipeline.RegisteredRevision{}, err
	}
	if len(found) == 0 {
		if label == "" {
			return pipeline.RegisteredRevision{}, fault.New(fault.NotFound, "pipeline %q has no revision number %d", name, seq)
		}
		return pipeline.RegisteredRevision{}, fault.New(fault.NotFound, "pipeline %q has no revision %q", name, label)
	}
	return found[0], nil
}
