package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// entries reads what a query selects of a log, or of the archive of the deployment that it names. The entries are read first:
// if it is archived between the two reads, the first has returned all its entries.
func (s *Service) entries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error) {
	rows, err := s.ledger.Entries(ctx, q)
	if err != nil {
		return rows, err
	}
	d, isArchived, err := s.archiveOf(ctx, q)
	if err != nil || !isArchived {
		return rows, err
	}
	return s.archivedEntries(ctx, d, q)
}

// archiveOf returns the deployment that a query names, and whether it is archived.
func (s *Service) archiveOf(ctx context.Context, q journal.EntryQuery) (d journal.Deployment, isArchived bool, err error) {
	if q.Deployment == 0 {
		return d, false, nil
	}
	d, err = s.ledger.Deployment(ctx, q.Pipeline, q.Deployment)
	if fault.Is(err, fault.NotFound) { // it has no entries
		err = nil
	}
	return d, d.Archive != "", err
}

// archivedEntries reads the entries that a query selects of an archived deployment.
func (s *Service) archivedEntries(ctx context.Context, d journal.Deployment, q journal.EntryQuery) (rows []pipeline.Entry, err error) {
	err = s.eachArchived(ctx, d, q, func(e pipeline.Entry) error {
		switch {
		case q.Limit > 0 && len(rows) == q.Limit && q.Newest:
			rows = append(slices.Delete(rows, 0, 1), e)
		case q.Limit > 0 && len(rows) == q.Limit: // the rest is read for its digest
		default:
			rows = append(rows, e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// eachArchived calls each for what a query without Limit selects of an archived deployment.
func (s *Service) eachArchived(ctx context.Context, d journal.Deployment, q journal.EntryQuery, each func(pipeline.Entry) error) error {
	err := deployer.ReadArchive(ctx, s.blobs, d.Archive, func(e pipeline.Entry) error {
		if e.Seq <= q.After || q.UpTo != 0 && e.Seq > q.UpTo || q.Class != 0 && e.Class != q.Class ||
			q.Target != "" && !isWithin(e.Target, q.Target) {
			return nil
		}
		e.Digest = pipeline.Digest{} // as in entries that come from the log
		return each(e)
	})
	if err != nil {
		return fmt.Errorf("read the log of %s: %w", Ref{d.Pipeline, d.Number}, err)
	}
	return nil
}

// fillArchived completes the view of an archived deployment by what the database keeps of it. Its steps are only in its log.
func (s *Service) fillArchived(ctx context.Context, view *DeploymentView) error {
	d := view.Deployment
	view.State = pipeline.DeploymentState{Deployment: d.Number, Revision: d.Revision, Label: d.Label, Version: d.Version, Status: d.Status,
		CreatedAt: d.CreatedAt, EndedAt: d.EndedAt}
	view.Commands = []RecordedCommand{}
	head, err := s.ledger.Head(ctx, d.Pipeline)
	if err != nil {
		return err
	}
	view.Seq = head.Seq
	definition, err := s.ledger.Definition(ctx, d.Pipeline, d.Version)
	if err != nil {
		return err
	}
	kinds := map[string]pipeline.StageKind{}
	for _, stage := range definition.Stages {
		kinds[stage.Name] = stage.Kind
	}
	runs, err := s.ledger.StageRuns(ctx, d.Pipeline, d.Number)
	for _, r := range runs {
		view.Stages = append(view.Stages, StageRun{Name: r.Stage, Kind: cmp.Or(kinds[r.Stage], pipeline.GateStage), Run: Run{
			Target: pipeline.Path(d.Pipeline, r.Stage), State: endedState(r.Outcome), ReadyAt: r.StartedAt,
			StartedAt: r.StartedAt, EndedAt: r.EndedAt}})
	}
	return err
}

// endedState returns the state of a stage of a deployment that has ended, by the outcome of its run.
func endedState(outcome string) RunState {
	switch outcome {
	case string(pipeline.StatusFinished):
		return RunFinished
	case string(pipeline.StatusFailed):
		return RunFailed
	}
	return RunStopped
}

// stateOf returns the state of a deployment, also of one that the engine has forgotten. It is zero for one that cannot be read.
func (s *Service) stateOf(ctx context.Context, f *fold, number int64) pipeline.DeploymentState {
	if state, ok := f.engine.Deployment(number); ok {
		return state
	}
	d, err := s.ledger.Deployment(ctx, f.pipeline, number)
	if err != nil {
		return pipeline.DeploymentState{}
	}
	f.labels[d.Revision] = d.Label
	return pipeline.DeploymentState{Deployment: number, Revision: d.Revision, Label: d.Label, Version: d.Version, Status: d.Status,
		CreatedAt: d.CreatedAt, EndedAt: d.EndedAt}
}

// archivedPassage returns an archived deployment's way through a target. It is false if the deployment did not start
// there. If its archive is missing or damaged, it may have: then Error reports it, and the rest is the database's
// part of the deployment.
func (s *Service) archivedPassage(ctx context.Context, d journal.Deployment, target string) (p journal.Passage, ok bool, err error) {
	rows, err := s.archivedEntries(ctx, d, journal.EntryQuery{Target: target})
	if fault.Is(err, fault.Corrupt) {
		return journal.Passage{Seq: d.Last, Deployment: d.Number, Kind: d.Kind, Revision: d.Revision, Label: d.Label, StartedAt: d.CreatedAt,
			EndedAt: d.EndedAt, Outcome: string(d.Status), Error: err.Error(), Entries: []pipeline.Entry{}}, true, nil
	}
	p, ok = journal.PassageOf(target, rows, d)
	return p, ok, err
}

// mostArchivesRead bounds the archives that a page of a history reads.
const mostArchivesRead = 100

// addArchived adds the passages of archived deployments to a page of a history. The history of a target that few came to
// may end early, since each archive must be read to find out.
func (s *Service) addArchived(ctx context.Context, q journal.HistoryQuery, page []journal.Passage) ([]journal.Passage, error) {
	aq := journal.ArchiveQuery{Pipeline: q.Pipeline, Before: q.Before, Limit: mostArchivesRead}
	if parts := strings.SplitN(q.Target, "/", 3); len(parts) > 1 {
		aq.Stage = parts[1]
	}
	archives, err := s.ledger.Archives(ctx, aq)
	if err != nil {
		return nil, err
	}
	for _, d := range archives { // by their last entries, newest first: no start comes behind the last entry
		if len(page) >= q.Limit && page[q.Limit-1].Seq > d.Last {
			return page[:q.Limit], nil
		}
		if slices.ContainsFunc(page, func(p journal.Passage) bool { return p.Deployment == d.Number }) {
			continue // it was archived after the log was read
		}
		passage, ok, err := s.archivedPassage(ctx, d, q.Target)
		if err != nil {
			return nil, err
		}
		if !ok || q.Before > 0 && passage.Seq >= q.Before {
			continue
		}
		page = append(page, passage)
		slices.SortFunc(page, func(a, b journal.Passage) int { return cmp.Compare(b.Seq, a.Seq) })
	}
	if len(archives) == mostArchivesRead { // those that were not read come before what is older than the last one that was
		oldest := archives[mostArchivesRead-1]
		newer := slices.IndexFunc(page, func(p journal.Passage) bool { return p.Seq <= oldest.Last && p.Deployment != oldest.Number })
		if newer > 0 {
			page = page[:newer]
		}
	}
	return page[:min(len(page), q.Limit)], nil
}
