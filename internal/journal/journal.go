package journal

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store"
)

// Options join a journal with the queue on the same database. New calls neither function. Both run in
// the transaction that they get and must not begin another: that one could wait for the locks or the
// connection of the first.
type Options struct {
	// Steps stores the actions of steps that begin, and asks the live actions with the unique keys of drain and cancel to
	// stop. A pass calls it in its transaction, once its entries are appended.
	Steps func(tx *store.Tx, start []action.Action, drain, cancel []string) error
	// Alive reports whether an instance lives, as the instance by sees it. Lease calls it in its transaction.
	Alive func(tx *store.Tx, instance, by action.ID) (bool, error)
}

// Journal is the deployment log on one database. Safe for concurrent use. Its methods return
// fault.LedgerUnavailable while the database is away, besides the errors that each one names.
type Journal struct {
	*core
	db *store.DB
}

// core is the state that all views of a journal share.
type core struct {
	driver      Driver
	options     Options
	mu          sync.Mutex
	definitions map[string]*definitionInForce // the one in force when it was last read, by pipeline; guarded by mu
}

// New returns the journal on a database and its driver.
func New(db *store.DB, driver Driver, o Options) *Journal {
	return &Journal{core: &core{driver: driver, options: o, definitions: map[string]*definitionInForce{}}, db: db}
}

// ForReaders returns the journal for requests of people and programs: their reads delay no pass.
func (j *Journal) ForReaders() *Journal {
	return &Journal{core: j.core, db: j.db.For(store.ForReaders)}
}

// write runs fn in a transaction. what is the name of the work in errors, such as "deploy greeter". The database may
// request another run, so fn resets the results that an earlier run has left.
func (j *Journal) write(ctx context.Context, what string, fn func(*txn) error) error {
	return j.db.Write(ctx, what, func(tx *store.Tx) error { return fn(j.in(tx)) })
}

// read runs fn on one state of the database, without locks. The result of fn may be out of date when read returns.
func (j *Journal) read(ctx context.Context, what string, fn func(*txn) error) error {
	return j.db.Read(ctx, what, func(tx *store.Tx) error { return fn(j.in(tx)) })
}

// list runs fn like read, for answers that may have many rows. Few lists of readers run at a time,
// and the next one fails if it waits for too long.
func (j *Journal) list(ctx context.Context, what string, fn func(*txn) error) error {
	return j.db.List(ctx, what, func(tx *store.Tx) error { return fn(j.in(tx)) })
}

// txn is a transaction with the heads that it has locked.
type txn struct {
	*store.Tx
	Rows
	core    *core
	heads   []*HeadRow         // locked, in the order of their ids
	defined *definitionInForce // stored in this transaction, and not to be remembered before it is committed
}

// in returns the journal's part of a transaction. The end of a step's action, which a pass may cause
// in its own transaction, finds there the head that the pass has locked, with the position that it
// has counted. A repeated run has a new store.Tx, so it finds nothing of the run that was rolled back.
func (c *core) in(tx *store.Tx) *txn {
	if t, ok := tx.State(c).(*txn); ok {
		return t
	}
	t := &txn{Tx: tx, Rows: c.driver.JournalRows(tx.Rows), core: c}
	tx.Keep(c, t)
	return t
}

// lock takes the heads of pipelines, in the order of their ids. It is called once in a transaction,
// before any thread is locked: transactions that lock heads and threads would deadlock otherwise. A
// pipeline that does not exist is left out, and head then returns an error for it.
func (t *txn) lock(create bool, pipelines ...string) error {
	if len(pipelines) == 0 {
		return nil
	}
	rows, err := t.LockHeads(pipelines, create)
	for i := range rows {
		t.heads = append(t.heads, &rows[i])
	}
	return err
}

// lockOne takes the head of one pipeline. The error is fault.NotFound if the pipeline does not exist.
func (t *txn) lockOne(name string) (*HeadRow, error) {
	if err := t.lock(false, name); err != nil {
		return nil, err
	}
	return t.head(name)
}

// head returns one of the locked heads. All callers get the same pointer, so each sees the positions that another has
// counted. The error is fault.NotFound if the head is not locked.
func (t *txn) head(name string) (*HeadRow, error) {
	for _, h := range t.heads {
		if h.Pipeline == name {
			return h, nil
		}
	}
	return nil, pipelineNotFound(name)
}

func pipelineNotFound(name string) error {
	return fault.New(fault.NotFound, "pipeline %q not found", name)
}

// definition returns the version that a head names as the one in force, from memory if it was read
// before. Memory of another version does not count, so nothing needs to forget it when some process
// applies a definition. The error is fault.NotFound if the pipeline has no definition yet.
func (t *txn) definition(head *HeadRow) (*definitionInForce, error) {
	if t.defined != nil && t.defined.version == head.Version {
		return t.defined, nil
	}
	if k, ok := t.core.known(head.Head); ok {
		return k, nil
	}
	versions, err := t.Versions(head.Pipeline, head.Version)
	if err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		return nil, fault.New(fault.NotFound, "pipeline %q has no definition yet", head.Pipeline)
	}
	return t.core.remember(versions[0]), nil
}

// storedVersion reads a definition version that another row names. It returns fault.Corrupt if the version is missing: the
// row was stored with it or after it, and versions are never deleted.
func (t *txn) storedVersion(head *HeadRow, version int) (Version, error) {
	versions, err := t.Versions(head.Pipeline, version)
	if err != nil {
		return Version{}, err
	}
	if len(versions) == 0 {
		return Version{}, fault.New(fault.Corrupt, "definition %d of %s is missing", version, head.Pipeline)
	}
	return versions[0], nil
}

// definitionInForce is a stored definition with the resources of its hosts. Transactions share it, so
// it must not be changed.
type definitionInForce struct {
	version    int
	definition pipeline.Definition
	resources  func() map[string]pipeline.Resource // by the host's full path; computed when a fact of a host needs it
}

// owned returns the resources that a definition takes: those of its hosts, and the applications that it promotes to.
func (k *definitionInForce) owned() []pipeline.Resource {
	all := slices.Collect(maps.Values(k.resources()))
	for i := range k.definition.Stages {
		if v := k.definition.Stages[i].Environment; v != nil {
			all = append(all, v.Applications()...)
		}
	}
	return all
}

func newDefinitionInForce(v Version) *definitionInForce {
	k := &definitionInForce{version: v.Version, definition: v.Definition}
	k.resources = sync.OnceValue(func() map[string]pipeline.Resource {
		resources, d := map[string]pipeline.Resource{}, &k.definition
		for at := range d.EachHost() {
			resources[at.Target] = d.ResourceOf(at.Stage, at.Group, at.Host)
		}
		return resources
	})
	return k
}

// known returns the definition in force, if it was read before; ok is false otherwise.
func (c *core) known(h Head) (k *definitionInForce, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok = c.definitions[h.Pipeline]
	return k, ok && k.version == h.Version
}

// remember keeps a committed definition in memory, and returns it with its resources. A reader of an
// older state may replace a newer version; the next caller that needs that one reads it again.
func (c *core) remember(v Version) *definitionInForce {
	k := newDefinitionInForce(v)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.definitions[v.Pipeline] = k
	return k
}
