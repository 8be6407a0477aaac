package journaltest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// journalFollowsTheModel plays random programs of two instances and of people on the journal and on a model in memory, and
// compares them after every step: the head, and every entry with its position. The model is written from
// docs/design/deployments.md. Run more programs with -rapid.checks, longer ones with -rapid.steps.
func journalFollowsTheModel(t *testing.T, s setup) {
	var programs atomic.Int64
	storetest.CheckPrograms(t, func(rt *rapid.T) {
		p := newProgram(s, fmt.Sprintf("model-%d", programs.Add(1)))
		rt.Repeat(map[string]func(*rapid.T){
			"define":         p.define,
			"register":       p.register,
			"deploy":         p.deploy,
			"append":         p.append,
			"append, stale":  p.appendStale,
			"refuse":         p.refuse,
			"lease":          p.lease,
			"pass":           p.pass,
			"die, or return": p.dieOrReturn,
			"":               p.agrees,
		})
	})
}

// modelEntry is what the model knows of an entry; its position is its index.
type modelEntry struct {
	Deployment int64
	Target     string
	Event      string
	Class      pipeline.Class
	Occurrence int
}

// modelRevision is a registered revision, by its label.
type modelRevision struct {
	seq        int64
	snapshot   string
	deployment int64 // its forward deployment
}

// program is one run against the journal and the model: one pipeline.
type program struct {
	setup
	name      string
	instances []action.ID
	dead      map[action.ID]bool
	leases    map[action.ID]journal.Lease // the newest that an instance has got

	defined   bool
	version   int
	newest    int64
	deployed  int64
	owner     action.ID
	epoch     int64
	revisions map[string]modelRevision
	entries   []modelEntry
}

func newProgram(s setup, name string) *program {
	p := &program{setup: s, name: name, dead: map[action.ID]bool{}, leases: map[action.ID]journal.Lease{},
		revisions: map[string]modelRevision{}}
	for _, instance := range []string{"a", "b"} {
		p.instances = append(p.instances, action.DerivedID(time.Now(), name, instance))
	}
	return p
}

// record adds entries to the model: a fact once, everything else with the next number of its deployment, target and event.
func (p *program) record(entries ...pipeline.Entry) {
	for _, e := range entries {
		m := modelEntry{Deployment: e.Deployment, Target: e.Target, Event: e.Event, Class: e.Class}
		if m.Target == "" {
			m.Target = p.name
		}
		before := 0
		for _, known := range p.entries {
			if known.Deployment == m.Deployment && known.Target == m.Target && known.Event == m.Event {
				before++
			}
		}
		switch {
		case m.Class != pipeline.Fact:
			m.Occurrence = before + 1
		case before > 0:
			continue
		}
		p.entries = append(p.entries, m)
	}
}

// decide returns a decider that checks its rows, and records entries.
func (p *program) decide(t *rapid.T, since int64, change journal.Change) journal.Decider {
	return func(locked journal.Locked) (journal.Change, error) {
		p.wantHead(t, locked.Head)
		if diff := cmp.Diff(p.entries[since:], modelled(t, since, locked.Newer), emptyIsNil); diff != "" {
			t.Errorf("entries after %d that the decider is shown (-want +got):\n%s", since, diff)
		}
		return change, nil
	}
}

// since draws a position that the caller knows.
func (p *program) since(t *rapid.T) int64 {
	return int64(rapid.IntRange(0, len(p.entries)).Draw(t, "since"))
}

func (p *program) define(t *rapid.T) {
	d := Definition()
	d.Pipeline = p.name
	created := pipeline.Entry{Event: pipeline.PipelineDefined, Class: pipeline.Change, Version: p.version + 1}
	since := p.since(t)
	change := journal.Change{Definition: &d, By: "ana", Entries: []pipeline.Entry{created}}
	_, err := p.Define(p.ctx, p.name, since, p.decide(t, since, change))
	storetest.Check(t, err)
	p.defined = true
	p.version++
	p.record(created)
}

func (p *program) register(t *rapid.T) {
	label := rapid.SampledFrom([]string{"r1", "r2", "r3", "r4"}).Draw(t, "label")
	snapshot := rapid.SampledFrom([]string{"s1", "s1", "s2"}).Draw(t, "snapshot")
	done, err := p.Register(p.ctx, pipeline.RegisteredRevision{Pipeline: p.name, Label: label, Snapshot: snapshot, By: "ana"}, true, "")
	known, there := p.revisions[label]
	switch {
	case !p.defined:
		storetest.WantCode(t, err, fault.NotFound)
		return
	case there && known.snapshot != snapshot:
		storetest.WantCode(t, err, fault.Conflict)
		return
	case !there:
		p.newest++
		p.deployed++
		known = modelRevision{seq: p.newest, snapshot: snapshot, deployment: p.deployed}
		p.revisions[label] = known
		p.record(pipeline.Entry{Deployment: p.deployed, Event: pipeline.DeploymentCreated, Class: pipeline.Note})
	}
	storetest.Check(t, err)
	if done.Created == there || done.Revision.Seq != known.seq || done.Deployment == nil || done.Deployment.Number != known.deployment {
		t.Fatalf("registered %+v, deployment %+v; want %+v", done, done.Deployment, known)
	}
}

func (p *program) deploy(t *rapid.T) {
	revision := int64(rapid.IntRange(1, int(p.newest)+1).Draw(t, "revision"))
	d, err := p.Deploy(p.ctx, journal.NewDeployment{Pipeline: p.name, Revision: revision, Kind: journal.Manual, By: "ana"})
	if revision > p.newest {
		storetest.WantCode(t, err, fault.NotFound)
		return
	}
	storetest.Check(t, err)
	p.deployed++
	if d.Number != p.deployed || d.Revision != revision || d.Version != p.version {
		t.Fatalf("deployment %+v, want number %d of version %d", d, p.deployed, p.version)
	}
	p.record(pipeline.Entry{Deployment: d.Number, Event: pipeline.DeploymentCreated, Class: pipeline.Note})
}

// some draws entries of a deployment: facts, some of them known, and notes.
func (p *program) some(t *rapid.T) []pipeline.Entry {
	if p.deployed == 0 {
		t.Skip("no deployment")
	}
	entries := make([]pipeline.Entry, rapid.IntRange(1, 4).Draw(t, "entries"))
	for i := range entries {
		deployment := int64(rapid.IntRange(1, int(p.deployed)).Draw(t, "deployment"))
		target := p.name + rapid.SampledFrom([]string{"", "/beta", "/beta/all/oak"}).Draw(t, "target")
		if rapid.Bool().Draw(t, "fact") {
			entries[i] = Fact(deployment, target, rapid.SampledFrom([]string{"host-one", "host-two"}).Draw(t, "event"))
		} else {
			entries[i] = Note(deployment, target, rapid.SampledFrom([]string{"note-one", "note-two"}).Draw(t, "event"))
		}
		entries[i].Revision = 1
	}
	return entries
}

func (p *program) append(t *rapid.T) {
	entries, since := p.some(t), p.since(t)
	head, err := p.Append(p.ctx, p.name, since, p.decide(t, since, journal.Change{Entries: entries}))
	storetest.Check(t, err)
	p.record(entries...)
	p.wantHead(t, head)
}

// appendStale decides for a position that the log has passed, or knows one that it has not reached.
func (p *program) appendStale(t *rapid.T) {
	entries := p.some(t)
	note := Note(1, p.name, "note-one")
	note.Revision, note.Seq = 1, int64(rapid.IntRange(1, len(p.entries)).Draw(t, "position"))
	nothing := func(journal.Locked) (journal.Change, error) {
		return journal.Change{Entries: append(entries, note)}, nil
	}
	_, err := p.Append(p.ctx, p.name, 0, nothing)
	storetest.WantCode(t, err, fault.Conflict)
	_, err = p.Append(p.ctx, p.name, int64(len(p.entries))+1, nothing)
	storetest.WantCode(t, err, fault.Conflict)
}

var errRefused = errors.New("refused")

// refuse decides against its own list: nothing stays.
func (p *program) refuse(t *rapid.T) {
	entries, d := p.some(t), Definition()
	change := journal.Change{Definition: &d, Entries: entries}
	_, err := p.Define(p.ctx, p.name, 0, func(journal.Locked) (journal.Change, error) { return change, errRefused })
	if !errors.Is(err, errRefused) {
		t.Fatalf("got %v, want the decider's own error", err)
	}
}

func (p *program) instance(t *rapid.T) action.ID {
	return p.instances[rapid.IntRange(0, 1).Draw(t, "instance")]
}

func (p *program) lease(t *rapid.T) {
	i := p.instance(t)
	lease, ok, err := p.Lease(p.ctx, p.name, i)
	if !p.defined {
		storetest.WantCode(t, err, fault.NotFound)
		return
	}
	storetest.Check(t, err)
	granted := p.owner == i || p.owner.IsZero() || p.dead[p.owner]
	if ok != granted {
		t.Fatalf("granted: %t, want %t; the owner is %s, dead %v", ok, granted, p.owner, p.dead)
	}
	if !ok {
		return
	}
	if p.owner != i {
		p.owner = i
		p.epoch++
	}
	if want := (journal.Lease{Pipeline: p.name, Instance: i, Epoch: p.epoch}); lease != want {
		t.Fatalf("lease %+v, want %+v", lease, want)
	}
	p.leases[i] = lease
}

// pass appends entries under the newest lease of an instance, which may be another's by now.
func (p *program) pass(t *rapid.T) {
	lease, ok := p.leases[p.instance(t)]
	if !ok {
		t.Skip("no lease")
	}
	entries, since := p.some(t), p.since(t)
	head, err := p.Pass(p.ctx, lease, since, p.decide(t, since, journal.Change{Entries: entries}))
	if lease.Epoch != p.epoch {
		storetest.WantCode(t, err, fault.StaleEpoch)
		return
	}
	storetest.Check(t, err)
	p.record(entries...)
	p.wantHead(t, head)
}

func (p *program) dieOrReturn(t *rapid.T) {
	i := p.instance(t)
	p.dead[i] = !p.dead[i]
	p.setup.live(i, !p.dead[i])
}

// agrees compares the journal with the model.
func (p *program) agrees(t *rapid.T) {
	head, err := p.Head(p.ctx, p.name)
	if !p.defined {
		storetest.WantCode(t, err, fault.NotFound)
		return
	}
	storetest.Check(t, err)
	p.wantHead(t, head)
	entries, err := p.Entries(p.ctx, journal.EntryQuery{Pipeline: p.name})
	storetest.Check(t, err)
	if diff := cmp.Diff(p.entries, modelled(t, 0, entries), emptyIsNil); diff != "" {
		t.Fatalf("entries (-want +got):\n%s", diff)
	}
	if faults := p.digestFaults(t); len(faults) > 0 {
		t.Fatalf("digests: %q", faults)
	}
}

func (p *program) wantHead(t *rapid.T, got journal.Head) {
	want := journal.Head{Pipeline: p.name, Version: p.version, Seq: int64(len(p.entries)), Newest: p.newest, Owner: p.owner, Epoch: p.epoch,
		Digest: got.Digest} // agrees compares it with the entries
	if got != want {
		t.Fatalf("head %+v, want %+v", got, want)
	}
}

// modelled returns entries as the model has them. Their positions must follow since without gaps.
func modelled(t *rapid.T, since int64, entries []pipeline.Entry) (some []modelEntry) {
	for i, e := range entries {
		if e.Seq != since+int64(i)+1 {
			t.Fatalf("entry %d after %d has position %d", i+1, since, e.Seq)
		}
		some = append(some, modelEntry{e.Deployment, e.Target, e.Event, e.Class, e.Occurrence})
	}
	return some
}

// emptyIsNil takes no entries for equal, whether or not the slice is nil.
var emptyIsNil = cmpopts.EquateEmpty()
