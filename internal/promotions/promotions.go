package promotions

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Options join promotions with the queue on the same database.
type Options struct {
	// Actions stores actions and requests live ones to stop, by their unique keys, in a transaction that has locked their heads. It
	// fails when one of the actions has the key of a live one. nil: no attempt can be started or canceled.
	Actions func(tx *store.Tx, start []action.Action, cancel []string) error
}

// Promotions is the log of Kubernetes pipelines on one database. Safe for concurrent use. Each method is one transaction, which
// ends within store.CallTimeout or with the context; the error then has the code fault.LedgerUnavailable, or is the context's cause.
type Promotions struct {
	*core
	db *store.DB
}

// core is the state that all views share.
type core struct {
	driver  Driver
	options Options
}

// New returns the promotions on a database and its driver.
func New(db *store.DB, driver Driver, o Options) *Promotions {
	return &Promotions{core: &core{driver: driver, options: o}, db: db}
}

// ForReaders returns the promotions for requests of people and programs: their reads delay no other work.
func (p *Promotions) ForReaders() *Promotions {
	return &Promotions{core: p.core, db: p.db.For(store.ForReaders)}
}

// txn is a transaction with the heads that it has locked.
type txn struct {
	*store.Tx
	Rows
	core    *core
	locked  bool
	heads   []*Head         // in the order of their ids
	changed map[*Head]bool  // heads to write
	cancel  []string        // unique keys of actions to cancel
	start   []action.Action // actions to store
}

// in returns this package's part of a transaction. The end of an action that a transaction of this package causes finds here
// the heads that it has locked. A repeated run has a new store.Tx, so it finds nothing of the run that was rolled back.
func (c *core) in(tx *store.Tx) *txn {
	if t, ok := tx.State(c).(*txn); ok {
		return t
	}
	t := &txn{Tx: tx, Rows: c.driver.PromotionRows(tx.Rows), core: c, changed: map[*Head]bool{}}
	tx.Keep(c, t)
	return t
}

// write runs fn in a transaction, gives its actions to the queue, and writes the heads that have changed.
func (p *Promotions) write(ctx context.Context, what string, fn func(*txn) error) error {
	return p.db.Write(ctx, what, func(tx *store.Tx) error {
		t := p.in(tx)
		if err := fn(t); err != nil {
			return err
		}
		if err := t.act(); err != nil {
			return err
		}
		return t.writeHeads()
	})
}

func (p *Promotions) read(ctx context.Context, what string, fn func(*txn) error) error {
	return p.db.Read(ctx, what, func(tx *store.Tx) error { return fn(p.in(tx)) })
}

func (p *Promotions) list(ctx context.Context, what string, fn func(*txn) error) error {
	return p.db.List(ctx, what, func(tx *store.Tx) error { return fn(p.in(tx)) })
}

// lock locks the live heads with the names and the heads with the UIDs. It is called once in a transaction, before any thread
// is locked.
func (t *txn) lock(names, uids []string) error {
	heads, err := t.LockPromotions(names, uids)
	t.keep(heads)
	return err
}

func (t *txn) keep(heads []Head) {
	t.locked = true
	for i := range heads {
		t.heads = append(t.heads, &heads[i])
	}
}

// live returns the locked head of a pipeline that exists. The error is fault.NotFound if there is none.
func (t *txn) live(name string) (*Head, error) {
	i := slices.IndexFunc(t.heads, func(h *Head) bool { return h.Name == name && h.ClosedAt.IsZero() })
	if i < 0 {
		return nil, notFound(name)
	}
	return t.heads[i], nil
}

// of returns the locked head of an object; nil if there is none.
func (t *txn) of(name, uid string) *Head {
	i := slices.IndexFunc(t.heads, func(h *Head) bool { return h.Name == name && h.UID == uid })
	if i < 0 {
		return nil
	}
	return t.heads[i]
}

func notFound(name string) error { return fault.New(fault.NotFound, "pipeline %q not found", name) }

// next returns the sequence of the next row of a pipeline.
func (t *txn) next(h *Head) int64 {
	h.Seq++
	t.changed[h] = true
	return h.Seq
}

// writeHeads writes the heads that have changed, and wakes who waits for them.
func (t *txn) writeHeads() error {
	for _, h := range t.heads {
		if !t.changed[h] {
			continue
		}
		t.Touch(store.TopicPromotion)
		if err := t.UpdatePromotionHead(*h); err != nil {
			return err
		}
	}
	return nil
}

// act gives the actions of a transaction to the queue.
func (t *txn) act() error {
	if len(t.start)+len(t.cancel) == 0 {
		return nil
	}
	if t.core.options.Actions == nil {
		return fault.New(fault.Internal, "promotions without a queue cannot make attempts")
	}
	return t.core.options.Actions(t.Tx, t.start, t.cancel)
}

// maxText bounds a text for people in bytes.
const maxText = action.MaxError

// clean returns a text that every database stores, cut to its bound.
func clean(text string) string { return action.Cut(text) }

// stored returns a time as rows have it: runs are compared with the times of the requests that began them.
func stored(at time.Time) time.Time { return at.UTC().Truncate(time.Microsecond) }

// checkName refuses names that are not of Kubernetes pipelines.
func checkName(name string) error {
	namespace, rest, ok := strings.Cut(name, ":")
	if !ok || namespace == "" || rest == "" || len(name) > 512 || !store.IsText(name) {
		return fault.New(fault.Invalid, "%.100q is not the name of a Kubernetes pipeline: want namespace:name", store.CleanText(name))
	}
	return nil
}
