package ledger

import (
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// txn is one transaction of the ledger: the rows, the heads it has locked, and whom to wake after the commit.
type txn struct {
	Tx
	core     *core
	began    time.Time          // by this process's clock, when Now was by the database's
	heads    []*HeadRow         // locked, in the order of their ids
	defined  *definitionInForce // stored in this transaction, and not to be remembered before it is committed
	touched  []Signal
	plans    plans    // of ends, made before this transaction
	deferred Deferred // ends that were left out
}

// touch wakes the topic's waiters when the transaction commits.
func (t *txn) touch(topic Topic) { t.announce(Signal{Topic: topic}) }

// touchReady wakes those who claim when the transaction commits: there is more ready work in these lanes.
func (t *txn) touchReady(lanes ...string) {
	t.announce(Signal{Topic: TopicReady, Lanes: append([]string{}, lanes...)})
}

// announce adds a signal to those that are sent when the transaction commits: one of a topic, with its lanes sorted.
func (t *txn) announce(c Signal) {
	for i := range t.touched {
		if t.touched[i].Topic == c.Topic {
			t.touched[i] = t.touched[i].And(c)
			return
		}
	}
	t.touched = append(t.touched, c.And(c))
}

// lock takes the heads of pipelines. It is called once in a transaction, before any thread is locked.
func (t *txn) lock(pipelines ...string) error {
	if len(pipelines) == 0 {
		return nil
	}
	rows, err := t.LockHeads(pipelines)
	for i := range rows {
		t.heads = append(t.heads, &rows[i])
	}
	return err
}

// lockOne takes the head of one pipeline, which must exist.
func (t *txn) lockOne(name string) (*HeadRow, error) {
	if err := t.lock(name); err != nil {
		return nil, err
	}
	return t.head(name)
}

// head is one of the locked heads.
func (t *txn) head(name string) (*HeadRow, error) {
	for _, h := range t.heads {
		if h.Pipeline == name {
			return h, nil
		}
	}
	return nil, noPipeline(name)
}

func noPipeline(name string) error {
	return fault.New(fault.NotFound, "there is no pipeline %q", name)
}

// definition is the version in force under a locked head; from memory where it was read before.
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

// known is a stored definition, which never changes, and what its hosts are.
type definitionInForce struct {
	version    int
	definition pipeline.Definition
	resources  map[string]pipeline.Resource // by the host's full path
}

func newKnown(v Version) *definitionInForce {
	k := &definitionInForce{version: v.Version, definition: v.Definition, resources: map[string]pipeline.Resource{}}
	d := &k.definition
	for at := range d.EachHost() {
		k.resources[at.Target] = d.ResourceOf(at.Stage, at.Group, at.Host)
	}
	return k
}

// known is the definition in force, if it was read before.
func (c *core) known(h Head) (*definitionInForce, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.definitions[h.Pipeline]
	return k, ok && k.version == h.Version
}

func (c *core) remember(v Version) *definitionInForce {
	k := newKnown(v)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.definitions[v.Pipeline] = k
	return k
}

// live is an action whose thread this transaction has locked.
type live struct {
	action action.Action
	thread action.Thread
}

// lockLive locks the heads that ends of the actions append to, then their threads.
// It returns those that are still live, in the order of ids.
func (t *txn) lockLive(ids []action.ID) ([]live, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	actions, err := t.Actions(ids)
	if err != nil {
		return nil, err
	}
	byID := make(map[action.ID]*action.Action, len(actions))
	for i, a := range actions {
		byID[a.ID] = &actions[i]
	}
	if t.heads == nil {
		if err := t.lock(pipelinesOf(byID)...); err != nil {
			return nil, err
		}
	}
	threads, err := t.LockThreads(ids)
	if err != nil {
		return nil, err
	}
	var found []live
	for _, id := range ids {
		if thread, ok := threads[id]; ok {
			found = append(found, live{*byID[id], thread})
			delete(threads, id) // an id that is named twice is found once
		}
	}
	return found, nil
}

// pipelinesOf lists the pipelines whose steps the actions are, each once.
func pipelinesOf(actions map[action.ID]*action.Action) []string {
	var names []string
	for _, a := range actions {
		if a.Step != nil && !slices.Contains(names, a.Step.Pipeline) {
			names = append(names, a.Step.Pipeline)
		}
	}
	return names
}
