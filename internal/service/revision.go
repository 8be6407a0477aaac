package service

import (
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// LargestUpload is the default of Service.LargestUpload, in bytes.
const LargestUpload = 1 << 30

// limitedReader reads an upload. Reading more than most bytes is fault.TooLarge.
type limitedReader struct {
	io.Reader
	left, most int64
}

func (u *limitedReader) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p[:min(int64(len(p)), u.left+1)])
	if u.left -= int64(n); u.left < 0 {
		return 0, fault.New(fault.TooLarge, "the upload has more than %d bytes", u.most).
			WithHint("server.largestUpload in server.yaml is the limit")
	}
	return n, err
}

// limitUpload returns a reader of an upload that fails above the service's limit.
func (s *Service) limitUpload(r io.Reader) io.Reader {
	most := s.LargestUpload
	if most <= 0 {
		most = LargestUpload
	}
	return &limitedReader{r, most, most}
}

// PutSnapshot stores a revision's files (one archive) and returns the blob key for Register. The error is fault.Conflict if
// the label is registered with other content, and fault.NotFound, before anything is read, if the pipeline does not exist.
func (s *Service) PutSnapshot(ctx context.Context, name, label string, r io.Reader) (key string, err error) {
	if _, err := s.ReadHead(ctx, name); err != nil {
		return "", err
	}
	key, digest, _, err := s.storeUpload(ctx, r)
	if err != nil {
		return "", fmt.Errorf("store the snapshot of %s %s: %w", name, label, err)
	}
	registered, err := s.ledger.Revision(ctx, name, label, 0)
	if fault.Is(err, fault.NotFound) {
		return key, nil
	}
	if err != nil {
		return "", err
	}
	if path.Base(registered.Snapshot) != digest {
		return "", fault.New(fault.Conflict, "revision %s of %s is registered with other content: %s, not %s",
			label, name, registered.Snapshot, digest)
	}
	return registered.Snapshot, s.storeAgain(ctx, registered.Snapshot, key)
}

// storeUpload stores an upload. Unless a revision refers to its key within a day, it may be deleted.
func (s *Service) storeUpload(ctx context.Context, r io.Reader) (key, digest string, size int64, err error) {
	if key, err = s.ledger.UploadKey(ctx); err != nil {
		return "", "", 0, err
	}
	return s.blobs.Put(ctx, key, s.limitUpload(r))
}

// storeAgain copies an upload to a registered key, if the blob store has lost the blob of that key.
func (s *Service) storeAgain(ctx context.Context, registered, uploaded string) error {
	if has, err := s.blobs.Has(ctx, registered); has || err != nil {
		return err
	}
	content, _, err := s.blobs.Get(ctx, uploaded)
	if err != nil {
		return err
	}
	defer content.Close()
	_, _, _, err = s.blobs.Put(ctx, registered, content)
	return err
}

// SnapshotView is the place of a revision's files.
type SnapshotView struct {
	Key    string `json:"key" doc:"blob key; empty: the revision was registered without files"`
	Stored bool   `json:"stored" doc:"false: the blob store has lost the files, or they were stored in another one"`
}

// Snapshot returns the place of a revision's files, and whether they are in the blob store.
func (s *Service) Snapshot(ctx context.Context, name, label string) (SnapshotView, error) {
	revision, err := s.Revision(ctx, name, label)
	if err != nil || revision.Snapshot == "" {
		return SnapshotView{}, err
	}
	stored, err := s.blobs.Has(ctx, revision.Snapshot)
	return SnapshotView{Key: revision.Snapshot, Stored: stored}, err
}

// commitHash matches no commit as well: not every revision has one.
var commitHash = regexp.MustCompile(`^[0-9A-Fa-f]{0,64}$`)

// Register stores a revision and, if deploy is set, its forward deployment, whose last stage is until ("": all stages). It is
// idempotent. The same label with another snapshot or commit is fault.Conflict.
func (s *Service) Register(ctx context.Context, r pipeline.RegisteredRevision, deploy bool, until string) (journal.Registered, error) {
	if !commitHash.MatchString(r.Commit) {
		return journal.Registered{}, fault.New(fault.Invalid, "commit %q: want its hash, at most 64 hex digits",
			r.Commit[:min(len(r.Commit), longestName)])
	}
	if _, err := s.ReadHead(ctx, r.Pipeline); err != nil {
		return journal.Registered{}, err
	}
	if err := s.checkSnapshot(ctx, r); err != nil {
		return journal.Registered{}, err
	}
	return s.ledger.Register(ctx, r, deploy, until)
}

// checkSnapshot returns fault.Invalid for a snapshot that is not an upload: a build unpacks it, so it must not be
// another blob, such as the evidence of an attempt. The one that the label has already is fine.
func (s *Service) checkSnapshot(ctx context.Context, r pipeline.RegisteredRevision) error {
	if r.Snapshot == "" || journal.IsUpload(r.Snapshot) {
		return nil
	}
	known, err := s.ledger.Revision(ctx, r.Pipeline, r.Label, 0)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err == nil && known.Snapshot == r.Snapshot {
		return nil
	}
	return fault.New(fault.Invalid, "snapshot %q is not the key of an upload", fault.Clip(r.Snapshot)).
		WithHint("PUT …/revisions/{label}/snapshot stores files and answers with their key")
}

// Revisions returns the revisions of a pipeline, newest first; limit 0 is RecentLimit.
func (s *Service) Revisions(ctx context.Context, name string, limit int) ([]pipeline.RegisteredRevision, error) {
	if OfKubernetes(name) {
		return s.promotedRevisions(ctx, name, limit)
	}
	if _, err := s.ReadHead(ctx, name); err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = RecentLimit
	}
	return s.ledger.Revisions(ctx, name, limit)
}

// Revision returns the revision with a label.
func (s *Service) Revision(ctx context.Context, name, label string) (pipeline.RegisteredRevision, error) {
	if _, err := s.ReadHead(ctx, name); err != nil {
		return pipeline.RegisteredRevision{}, err
	}
	r, err := s.ledger.Revision(ctx, name, label, 0)
	if fault.Is(err, fault.NotFound) {
		return r, fault.New(fault.NotFound, "%s has no revision %q", name, label).
			WithHint("waybill revision list %s shows what is registered", name)
	}
	return r, err
}

// RejectRevision records that a revision is deployed only when it is accepted again, and returns the revision as it is then.
// The error is fault.Refused if it is rejected already.
func (s *Service) RejectRevision(ctx context.Context, name, label, by, reason string) (pipeline.RegisteredRevision, error) {
	if OfKubernetes(name) {
		intent := s.intentBy(by, reason)
		intent.Kind = promotion.RejectAll
		return s.judgePromoted(ctx, name, label, intent)
	}
	return s.judgeRevision(ctx, name, label, by, reason, func(e *pipeline.Engine, r pipeline.RegisteredRevision) (pipeline.Entry, error) {
		return e.Reject(r.Seq, r.Label, by, reason)
	})
}

// AcceptRevision ends a rejection. The error is fault.Refused if there is none.
func (s *Service) AcceptRevision(ctx context.Context, name, label, by, reason string) (pipeline.RegisteredRevision, error) {
	if OfKubernetes(name) {
		intent := s.intentBy(by, reason)
		intent.Kind = promotion.AcceptAll
		return s.judgePromoted(ctx, name, label, intent)
	}
	return s.judgeRevision(ctx, name, label, by, reason, func(e *pipeline.Engine, r pipeline.RegisteredRevision) (pipeline.Entry, error) {
		return e.Accept(r.Seq, r.Label, by, reason)
	})
}

// judgeRevision appends a change of a revision that the engine has checked.
func (s *Service) judgeRevision(ctx context.Context, name, label, by, reason string, judge func(*pipeline.Engine,
	pipeline.RegisteredRevision) (pipeline.Entry, error)) (pipeline.RegisteredRevision, error) {
	if err := checkReason(reason); err != nil {
		return pipeline.RegisteredRevision{}, err
	}
	r, err := s.Revision(ctx, name, label)
	if err != nil {
		return r, err
	}
	err = s.appendDecided(ctx, name, by, func(e *pipeline.Engine, _ time.Time) ([]pipeline.Entry, error) {
		entry, err := judge(e, r)
		return []pipeline.Entry{entry}, err
	})
	if err != nil {
		return r, err
	}
	return s.Revision(ctx, name, label)
}

// NewDeployment is a request for one more deployment of a registered revision.
type NewDeployment struct {
	Pipeline string
	Revision string // its label
	Target   string // a stage, group or host, with or without the pipeline's name; "": the pipeline
	Until    string // name of the last stage; "": all stages
	By       string // name of the user
	Key      string // the Idempotency-Key: the same request gets the same deployment for a day; "": none
}

var errTargetAndUntil = fault.New(fault.Invalid, "a target and until exclude each other: nothing follows the target")

// Deploy creates one more deployment of a registered revision: of kind manual, or with a target of kind part.
func (s *Service) Deploy(ctx context.Context, want NewDeployment) (journal.Deployment, error) {
	if len(want.Key) > longestKey {
		return journal.Deployment{}, fault.New(fault.Invalid, "the Idempotency-Key has more than %d bytes", longestKey)
	}
	revision, err := s.Revision(ctx, want.Pipeline, want.Revision)
	if err != nil {
		return journal.Deployment{}, err
	}
	made := journal.NewDeployment{Pipeline: want.Pipeline, Revision: revision.Seq, Kind: journal.Manual,
		Until: want.Until, By: want.By, Key: want.Key}
	if target := targetOrAll(want.Pipeline, want.Target); target != want.Pipeline {
		made.Kind, made.Target = journal.Part, target
	}
	if made.Target != "" && made.Until != "" {
		return journal.Deployment{}, errTargetAndUntil
	}
	return s.ledger.Deploy(ctx, made)
}

// Deployments returns the deployments that a query selects, newest first.
func (s *Service) Deployments(ctx context.Context, q journal.DeploymentQuery) ([]journal.Deployment, error) {
	if OfKubernetes(q.Pipeline) {
		if _, err := s.promotionView(ctx, q.Pipeline); err != nil {
			return nil, err
		}
		return s.runs(ctx, q)
	}
	if q.Pipeline != "" {
		if _, err := s.ReadHead(ctx, q.Pipeline); err != nil {
			return nil, err
		}
	}
	return s.ledger.Deployments(ctx, q)
}
