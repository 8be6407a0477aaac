package server

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// folds keeps one folded engine per pipeline, so that a question costs the rows
// since the last one and not the whole log.
type folds struct {
	mu         sync.Mutex
	byPipeline map[string]*fold
}

// foldOf is the fold of a pipeline, empty when it is asked for the first time.
func (f *folds) foldOf(name string) *fold {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byPipeline[name] == nil {
		f.byPipeline[name] = newFold(name)
	}
	return f.byPipeline[name]
}

// forgetFold throws a fold away; the next question folds anew.
func (f *folds) forgetFold(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byPipeline, name)
}

// fold is a pipeline's engine with what the views need beside it. mu also
// guards reading, for an engine is not safe for concurrent use.
type fold struct {
	mu       sync.Mutex
	pipeline string
	engine   *pipeline.Engine
	marks    marks
	labels   map[int64]string // rev_seq → label; labels never change
}

func newFold(name string) *fold {
	return &fold{
		pipeline: name, engine: pipeline.New(name), labels: map[int64]string{},
		marks: marks{stages: map[string]map[int64]*stageMark{}, targets: map[int64]map[string]targetMark{}, reports: map[int64]map[stepName]string{}, hosts: map[string]hostMark{}, through: map[string]hostMark{}},
	}
}

// withFold calls ask with the pipeline's fold brought up to date; ask must not keep it.
// fault.NotFound when there is no such pipeline.
func (s *Service) withFold(ctx context.Context, name string, ask func(*fold) error) error {
	if _, err := s.readHead(ctx, name); err != nil {
		return err
	}
	f := s.folds.foldOf(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.catchUp(ctx, s.ledger); err != nil {
		s.folds.forgetFold(name)
		return fmt.Errorf("read the log of %s: %w", name, err)
	}
	return ask(f)
}

// catchUp applies the rows that were appended since the last time. A pipeline
// that is not there yet has none: Apply is about to make it.
func (f *fold) catchUp(ctx context.Context, l *ledger.Ledger) error {
	err := deployer.Catch(ctx, l, f.pipeline, f.engine, f.marks.applyEntry)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func (f *fold) applyEntry(row pipeline.Entry) error {
	if err := f.engine.Apply(row); err != nil {
		return err
	}
	f.marks.applyEntry(row)
	return nil
}

// errUnknownVersion asks the caller of a decider to fold again: somebody applied a definition meanwhile.
var errUnknownVersion = errors.New("a definition was applied meanwhile")

// applyLocked folds the rows that a decider is handed under the head lock. It may be called
// again with the same rows when the transaction is retried.
func (f *fold) applyLocked(rows []pipeline.Entry) error {
	for _, row := range rows {
		if row.Seq <= f.engine.Seq() {
			continue
		}
		if row.Event == pipeline.PipelineDefined && !f.engine.HasVersion(row.Version) {
			return errUnknownVersion
		}
		if err := f.applyEntry(row); err != nil {
			return err
		}
	}
	return nil
}

// decideOnFold runs write, which calls the ledger with a decider over the fold, until no definition comes in between.
func (s *Service) decideOnFold(ctx context.Context, f *fold, write func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range 5 {
		if err := f.catchUp(ctx, s.ledger); err != nil {
			s.folds.forgetFold(f.pipeline)
			return fmt.Errorf("read the log of %s: %w", f.pipeline, err)
		}
		err := write()
		if errors.Is(err, errUnknownVersion) {
			continue
		}
		if fault.Is(err, fault.Internal) {
			s.folds.forgetFold(f.pipeline) // it may have taken half of a row
		}
		return err
	}
	return fault.New(fault.Conflict, "the definition of %s keeps changing: try again", f.pipeline)
}

// revisionLabel is a revision's label; its number when the ledger cannot say.
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

// readHead reads a pipeline's head, naming the nearest pipeline when there is none.
func (s *Service) readHead(ctx context.Context, name string) (ledger.Head, error) {
	head, err := s.ledger.Head(ctx, name)
	if !fault.Is(err, fault.NotFound) {
		return head, err
	}
	missing := fault.New(fault.NotFound, "pipeline %q not found", name).WithHint("waybill pipeline list shows the pipelines")
	heads, listErr := s.ledger.Heads(ctx)
	if listErr != nil {
		return head, missing
	}
	names := make([]string, len(heads))
	for i, h := range heads {
		names[i] = h.Pipeline
	}
	return head, missing.WithNearest(name, names)
}
