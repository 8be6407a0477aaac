package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// folds keeps one folded engine per pipeline, so that a request only reads the rows since the last request and not the
// whole log.
type folds struct {
	mu         sync.Mutex
	byPipeline map[string]*fold
}

// foldOf returns the fold of a pipeline, which is empty the first time.
func (f *folds) foldOf(name string) *fold {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byPipeline[name] == nil {
		f.byPipeline[name] = newFold(name)
	}
	return f.byPipeline[name]
}

// forgetFold removes a fold. The next request folds the log from its start.
func (f *folds) forgetFold(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byPipeline, name)
}

// fold is a pipeline's engine with what views need besides. mu also guards reading, since an engine is not safe for
// concurrent use.
type fold struct {
	mu       sync.Mutex
	pipeline string
	engine   *pipeline.Engine
	marks    marks
	labels   map[int64]string // rev_seq → label; labels never change
	edit     computedEdit
	compared comparison
	targets  targetPaths
}

// computedEdit is an edit with what it was computed from. Apply computes it before it takes the lock of the head, and under
// the lock only finds that nothing has changed.
type computedEdit struct {
	pipeline.Edit
	plan    *pipeline.Graph
	seq     int64 // number of the last row that the engine had applied
	version int   // version that was in force
	newest  int64 // registered revision
}

// comparison reports whether a definition equals another. Both are written out to be compared, which takes long for a
// big fleet, so Apply does it before it takes the lock of the head.
type comparison struct {
	plan, with *pipeline.Graph
	same       bool
}

// editTo returns the effect of a definition as the next version. It computes that only if something has changed since
// the last time.
func (f *fold) editTo(plan *pipeline.Graph, head journal.Head) pipeline.Edit {
	if last := &f.edit; last.plan != plan || last.seq != f.engine.Seq() || last.version != head.Version || last.newest != head.Newest {
		f.edit = computedEdit{f.engine.Edit(head.Version+1, plan, head.Newest, time.Now().UTC()), plan, f.engine.Seq(), head.Version, head.Newest}
	}
	return f.edit.Edit
}

// isInForce reports whether a definition equals the one in force, whose version it returns.
func (f *fold) isInForce(plan *pipeline.Graph) (int, bool) {
	version, current := f.engine.Current()
	if last := f.compared; last.plan != plan || last.with != current {
		f.compared = comparison{plan, current, current != nil && equalDefinitions(current.Definition(), plan.Definition())}
	}
	return version, f.compared.same
}

// equalDefinitions reports whether definitions are the same in the form in which they are stored.
func equalDefinitions(a, b *pipeline.Definition) bool {
	left, leftErr := json.Marshal(a)
	right, rightErr := json.Marshal(b)
	return leftErr == nil && rightErr == nil && bytes.Equal(left, right)
}

func newFold(name string) *fold {
	f := &fold{pipeline: name, labels: map[int64]string{}}
	f.reset()
	return f
}

// reset makes a fold what it was before it had applied any row.
func (f *fold) reset() {
	f.engine, f.marks = pipeline.New(f.pipeline), newMarks()
	f.edit, f.compared, f.targets = computedEdit{}, comparison{}, targetPaths{}
}

// withFold calls ask with the up-to-date fold of a pipeline, which ask must not keep. The error is fault.NotFound if the
// pipeline does not exist.
func (s *Service) withFold(ctx context.Context, name string, ask func(*fold) error) error {
	return s.withFoldAt(ctx, name, func(f *fold, _ time.Time) error { return ask(f) })
}

// withFoldAt does what withFold does, and passes the ledger's time. The head shows whether the log has grown: where it
// has not, that is the only read.
func (s *Service) withFoldAt(ctx context.Context, name string, ask func(*fold, time.Time) error) error {
	head, now, err := s.ledger.HeadAt(ctx, name)
	if err != nil {
		return s.withNearest(ctx, name, err)
	}
	f := s.folds.foldOf(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.engine.Seq() < head.Seq {
		if err := f.catchUp(ctx, s.ledger); err != nil {
			s.folds.forgetFold(name)
			return fmt.Errorf("read the log of %s: %w", name, err)
		}
	}
	return ask(f, now)
}

// applyEntry updates the marks by a row that the engine has applied.
func (f *fold) applyEntry(row pipeline.Entry) { f.marks.applyEntry(f.engine, row) }

// mostRefolds bounds the restarts of a fold because deployments were archived during it.
const mostRefolds = 10

// catchUp applies the rows that were appended since the last time. If rows that it lacks were archived, it folds the
// rest of the log from the start. A pipeline that does not exist yet has no rows, which is not an error: Apply may be
// about to create it.
func (f *fold) catchUp(ctx context.Context, l *ledger.Ledger) error {
	err := deployer.Catch(ctx, l, f.pipeline, f.engine, f.applyEntry)
	for n := 0; n < mostRefolds && errors.Is(err, deployer.ErrArchived); n++ {
		f.reset()
		err = deployer.Catch(ctx, l, f.pipeline, f.engine, f.applyEntry)
	}
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// applyLocked folds the rows that a decider gets under the lock of the head, with the definitions that they bring into
// force. A repeated transaction may pass the same rows again. The error is deployer.ErrArchived if rows that the fold lacks
// were archived: the log cannot be folded again under the lock.
func (f *fold) applyLocked(ctx context.Context, locked journal.Locked) error {
	if err := deployer.Catch(ctx, lockedLog{locked}, f.pipeline, f.engine, f.applyEntry); err != nil {
		return fmt.Errorf("read the log of %s: %w", f.pipeline, err)
	}
	return nil
}

// lockedLog is the end of a log that a decider gets under the lock: a deployer.Reader that needs no transaction of its own.
type lockedLog struct{ locked journal.Locked }

// Entries returns the rows between two positions, whatever the query's limit.
func (l lockedLog) Entries(_ context.Context, q journal.EntryQuery) (rows []pipeline.Entry, err error) {
	for _, row := range l.locked.Newer {
		if row.Seq > q.After && (q.UpTo == 0 || row.Seq <= q.UpTo) {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Version reads a definition version.
func (l lockedLog) Version(_ context.Context, _ string, version int) (journal.Version, error) {
	return l.locked.Definition(version)
}

// Head returns the head that is locked.
func (l lockedLog) Head(context.Context, string) (journal.Head, error) { return l.locked.Head, nil }

// decideOnFold calls write, which calls the ledger with a decider that uses the up-to-date fold. If rows that the fold lacks
// are archived between the two, it folds the log again and calls write once more. After an error that may have left a row
// half applied, it forgets the fold.
func (s *Service) decideOnFold(ctx context.Context, f *fold, write func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.catchUp(ctx, s.ledger); err != nil {
		s.folds.forgetFold(f.pipeline)
		return fmt.Errorf("read the log of %s: %w", f.pipeline, err)
	}
	err := write()
	if errors.Is(err, deployer.ErrArchived) { // nothing was recorded
		if err = f.catchUp(ctx, s.ledger); err == nil {
			err = write()
		}
	}
	if fault.Is(err, fault.Internal) || fault.Is(err, fault.Corrupt) || errors.Is(err, deployer.ErrArchived) {
		s.folds.forgetFold(f.pipeline)
	}
	return err
}

// appendDecided appends the entries that the engine decides on when it has all rows, at the time of the database. decide may
// be called again when the transaction is repeated.
func (s *Service) appendDecided(ctx context.Context, name, by string, decide func(e *pipeline.Engine,
	now time.Time) ([]pipeline.Entry, error)) error {
	f := s.folds.foldOf(name)
	return s.decideOnFold(ctx, f, func() error {
		_, err := s.ledger.Append(ctx, name, f.engine.Seq(), func(locked journal.Locked) (journal.Change, error) {
			if err := f.applyLocked(ctx, locked); err != nil {
				return journal.Change{}, err
			}
			entries, err := decide(f.engine, locked.Now)
			return journal.Change{By: by, Entries: entries}, err
		})
		return err
	})
}

// revisionLabel returns a revision's label, or its number if the ledger cannot be read.
func (s *Service) revisionLabel(ctx context.Context, f *fold, revision int64) string {
	if label, ok := f.labels[revision]; ok {
		return label
	}
	r, err := s.ledger.Revision(ctx, f.pipeline, "", revision)
	if err != nil {
		return fmt.Sprintf("r%d", revision)
	}
	f.labels[revision] = r.Label
	return r.Label
}

// CheckPipeline returns fault.NotFound if a pipeline of either kind is not found.
func (s *Service) CheckPipeline(ctx context.Context, name string) (err error) {
	if OfKubernetes(name) {
		_, err = s.promotionView(ctx, name)
	} else {
		_, err = s.ReadHead(ctx, name)
	}
	return err
}

// ReadHead returns a pipeline's head. If the pipeline does not exist, the error's hint is the nearest name.
func (s *Service) ReadHead(ctx context.Context, name string) (journal.Head, error) {
	if OfKubernetes(name) {
		return journal.Head{}, refuseKubernetes(name)
	}
	head, err := s.ledger.Head(ctx, name)
	return head, s.withNearest(ctx, name, err)
}

// withNearest returns an error of reading a pipeline's head. If the pipeline does not exist, it gets the nearest name as its hint.
func (s *Service) withNearest(ctx context.Context, name string, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	if OfKubernetes(name) {
		return refuseKubernetes(name)
	}
	missing := fault.New(fault.NotFound, "pipeline %q not found", name).WithHint("waybill pipeline list shows the pipelines")
	heads, listErr := s.ledger.Heads(ctx)
	if listErr != nil {
		return missing
	}
	names, listErr := s.promotionNames(ctx)
	if listErr != nil {
		return missing
	}
	if full := withNamespace(name, names); full != name {
		return missing.WithHint("did you mean %q?", full)
	}
	for _, h := range heads {
		names = append(names, h.Pipeline)
	}
	return missing.WithNearest(name, names)
}
