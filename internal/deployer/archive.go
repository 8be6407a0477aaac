package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// When deployments are archived, and how many at a time.
const (
	archiveFirst = 5 * time.Minute  // time between taking a pipeline and the first look
	archiveEvery = time.Hour        // between looks
	archiveRetry = 10 * time.Minute // after a failure, such as of the blob store
	archivePause = 10 * time.Second // between archives while there are more, and until the blob store is free
	archiveTakes = 10 * time.Minute // time limit of storing the entries of one deployment
	archiveRows  = passRows         // entries that a pass deletes at most, unless deployments that belong together have more
	archiveMost  = 200_000          // entries that such deployments have at most. Deleting them blocks SQLite for some 3 s
	archiveFacts = archiveMost / 2  // facts of a deployment; each comes with about as many notes
)

// errTooLarge reports that deployments that go together have more entries than one transaction should delete, or one more bytes than
// are read of an archive. They stay in the log, and so do later ones.
var errTooLarge = errors.New("too large to be archived")

// archiveSizes returns how many deployments a pass archives at most, and smaller numbers for deployments of many entries.
func archiveSizes() []int { return []int{100, 30, 10, 3, 1} }

// choice is deployments that may be archived in one pass.
type choice struct {
	before  time.Time // bound of their ends
	limit   int       // limit that was given to pipeline.Engine.Archive
	numbers []int64
	facts   int // number of their facts; each has about as many notes besides
}

// choices returns the deployments that an engine may archive at a time, which may be none, and smaller and smaller parts of
// these. now is the time of the database.
func choices(e *pipeline.Engine, now time.Time) (list []choice, err error) {
	_, plan := e.Current()
	if plan == nil || plan.Definition().Keep.Entries <= 0 {
		return nil, nil
	}
	// A request that is repeated within RepeatAge finds its deployment by its entries.
	c := choice{before: now.Add(-max(time.Duration(plan.Definition().Keep.Entries), journal.RepeatAge))}
	for _, c.limit = range archiveSizes() {
		if len(list) > 0 && len(list[len(list)-1].numbers) <= c.limit {
			continue // it would choose the same
		}
		if _, c.numbers, err = e.Archive(c.before, c.limit, archiveFacts); err != nil || len(c.numbers) == 0 {
			return nil, err
		}
		c.facts = 0
		for _, number := range c.numbers {
			d, _ := e.Deployment(number)
			c.facts += d.Done
		}
		list = append(list, c)
	}
	return list, nil
}

// archive is deployments whose entries are in the blob store.
type archive struct {
	choice
	deployments []journal.ArchivedDeployment // in the order of numbers
	rows        int64
	isMore      bool // there are others
}

// archiveChange returns the change that archives deployments. Their entries must be deleted in the transaction that appends
// the row by which engines forget them. If the engine would choose others by now, it changes nothing.
func (x *pass) archiveChange() (journal.Change, error) {
	row, numbers, err := x.engine.Archive(x.archive.before, x.archive.limit, archiveFacts)
	if err != nil || !slices.Equal(numbers, x.archive.numbers) {
		x.err = err
		return journal.Change{}, err
	}
	x.archived = x.archive.deployments
	return journal.Change{By: author, Entries: []pipeline.Entry{row}, Archived: x.archived}, nil
}

// takeArchiveTurn reports whether the next pass of a pipeline should search for deployments to archive, and sets when
// the one after it does.
func (d *Deployer) takeArchiveTurn(p *held) bool {
	switch now := time.Now(); {
	case p.archiveAt.IsZero() || p.archiveAt.After(now) || p.archive != nil:
		return false
	case d.storing:
		p.archiveAt = now.Add(loop.Jitter(archivePause))
		return false
	default:
		p.archiveAt = now.Add(loop.Jitter(archiveEvery))
		return true
	}
}

// storeOutcome is the result of storing the entries of deployments.
type storeOutcome struct {
	of  *held
	got *archive
	err error
}

// storeChosen begins to store the entries of deployments, while passes continue. The passes of their pipeline must not wait
// for a slow blob store.
func (d *Deployer) storeChosen(ctx context.Context, p *held, chosen []choice) {
	if len(chosen) == 0 {
		return
	}
	if d.storing { // another pipeline was chosen from at the same time
		p.archiveAt = time.Now().Add(loop.Jitter(archivePause))
		return
	}
	ctx, d.stopStoring = context.WithCancel(ctx)
	d.storing = true
	go func() {
		got, err := d.storeMost(ctx, p.name, chosen)
		d.stored <- storeOutcome{p, got, err}
	}()
}

// takeStored has the next pass of a pipeline archive the stored deployments.
func (d *Deployer) takeStored(ctx context.Context, s storeOutcome) {
	d.stopStoring()
	d.storing = false
	switch {
	case ctx.Err() != nil, d.held[s.of.name] != s.of: // this process ends, or has lost the pipeline
	case errors.Is(s.err, context.Canceled): // the instance has a new identity
		s.of.archiveAt = time.Now().Add(loop.Jitter(archivePause))
	case s.err != nil:
		delay := loop.Jitter(archiveRetry)
		if errors.Is(s.err, errTooLarge) {
			delay = loop.Jitter(archiveEvery)
		}
		s.of.archiveAt = time.Now().Add(delay)
		d.log.Warn("cannot archive deployments", obs.KeyPipeline, s.of.name, obs.Error(s.err), obs.KeyRetryIn, delay.String())
	default:
		s.of.archive = s.got
	}
}

// storeMost stores the entries of the largest choice that has at most archiveRows entries, or of the smallest one. The largest
// choice is the first, and each has the deployments of the next one too.
func (d *Deployer) storeMost(ctx context.Context, name string, chosen []choice) (best *archive, err error) {
	stored := map[int64]journal.ArchivedDeployment{}
	rows := int64(0)
	if least := chosen[len(chosen)-1]; least.facts > archiveFacts { // reading them would take long
		return nil, fmt.Errorf("%s#%d has %d facts: %w", name, least.numbers[0], least.facts, errTooLarge)
	}
	for i := len(chosen) - 1; i >= 0; i-- {
		next := &archive{choice: chosen[i], isMore: i > 0 || len(chosen[i].numbers) >= chosen[i].limit}
		for _, number := range next.numbers {
			if best != nil && rows > archiveRows {
				return best, nil
			}
			if _, ok := stored[number]; !ok {
				stored[number], err = d.storeEntries(ctx, name, number, d.archiveMost-rows)
				if best != nil && errors.Is(err, errTooLarge) {
					return best, nil // the next pass reports what is too large
				}
				if err != nil {
					return nil, fmt.Errorf("store the entries of %s#%d: %w", name, number, err)
				}
				rows += stored[number].Entries
			}
			next.deployments = append(next.deployments, stored[number])
		}
		if best != nil && rows > archiveRows {
			return best, nil
		}
		next.rows, best = rows, next
	}
	return best, nil
}

// storeEntries stores the entries of a deployment in the blob store, at most so many. Doing it twice is the same as doing it once.
func (d *Deployer) storeEntries(ctx context.Context, name string, number, maxEntries int64) (journal.ArchivedDeployment, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, archiveTakes, fmt.Errorf("it took longer than %s", archiveTakes))
	defer cancel()
	a := archiving{ledger: d.ledger, pipeline: name, maxEntries: maxEntries, maxBytes: MostArchived,
		got: journal.ArchivedDeployment{Number: number}}
	err := a.store(ctx, d.cfg.Blobs)
	if err == nil && a.got.Entries == 0 {
		err = fault.New(fault.Conflict, "the log has no entries of it")
	}
	return a.got, err
}

// archivePassed updates a pipeline after a pass that should archive deployments. The engine has not applied the row yet: the next
// pass reads it, as every fold does.
func (d *Deployer) archivePassed(p *held, x *pass, head journal.Head) {
	p.keepEngine(x, head)
	d.metrics.Passes.WithLabelValues("ok").Inc()
	if len(x.archived) == 0 || x.archive.isMore {
		p.archiveAt = time.Now().Add(loop.Jitter(archivePause))
	}
	if len(x.archived) == 0 {
		return
	}
	d.metrics.Rows.WithLabelValues(pipeline.Change.String()).Inc()
	d.metrics.Archived.Add(float64(len(x.archived)))
	d.log.Info("deployments archived", obs.KeyPipeline, p.name, obs.KeySeq, head.Seq, obs.KeyCount, len(x.archived),
		obs.KeyRows, x.archive.rows,
		obs.KeyDuration, time.Since(p.began).Milliseconds())
}
