// Package caboosetest is the bad day of a caboose: its archive and its cluster fail again and again while workflows have
// ended and callbacks follow. The tests and bench/ have the same one (T10 in docs/performance.md).
package caboosetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/argo"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/caboose"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// Settings set the rates of faults of a day.
type Settings struct {
	Jobs         int // jobs that end, every second one with an output that is too big for a row
	Features     int // features of each job, followed by one callback each
	ArchiveFails int // failing archive calls of each workflow
	DeleteFails  int // failing deletions of each workflow
}

// Day is the result of a day.
type Day struct {
	Ends       int // recorded ends
	Callbacks  int // existing callbacks
	Duplicates int // callbacks and ends that are there more than once
	Early      int // callbacks that were seen before their parameters
	Faults     []string
}

const file = `
handlers:
  flows: {type: argo}
  publish: {type: webhook, parameters: {feature: {type: object}}, request: {url: "https://catalog.example.org/"}}
workflows:
  mirror:
    handler: flows
    argoOpts: {template: workflowtemplate/mirror}
    callbacks: {publish: {handler: publish, type: perFeature, when: [successful], parameters: {feature: {path: $.feature}}}}
`

// recordedAfter is the failed try to archive at which the end is recorded all the same.
const recordedAfter = 5

// patience bounds a day.
const patience = 2 * time.Minute

// day is one that has begun.
type day struct {
	Settings
	ledger *ledger.Ledger
	blobs  blob.Store
	faults *faults
	jobs   map[action.ID]bool // whether its output is too big for a row
	came   Day
}

// Run lives the day on an empty ledger, with the archive in a folder. The error is one of the ledger or the archive, a broken promise
// is in the Day.
func Run(ctx context.Context, driver ledger.Driver, folder string, s Settings) (came Day, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not everything was deleted within %s", patience))
	defer cancel()
	blobs, err := blob.OpenDir(folder)
	if err != nil {
		return Day{}, err
	}
	config, err := config.Read("server.yaml", []byte(file))
	if err != nil {
		return Day{}, err
	}
	planner := &callback.Planner{Book: func() callback.Book { return &config }, Blobs: blobs}
	l := ledger.New(driver, ledger.Options{Successors: planner})
	defer func() { err = errors.Join(err, l.Close()) }()
	planner.Jobs = l
	d := &day{Settings: s, ledger: l, blobs: blobs, jobs: map[action.ID]bool{}, faults: newFaults(blobs, l.NewWaiter(), s)}
	if err := d.handOff(ctx, config); err != nil {
		return Day{}, err
	}
	if err := d.live(ctx); err != nil {
		return d.came, err
	}
	return d.came, d.judge(ctx)
}

// handOff makes jobs whose workflows the cluster has accepted.
func (d *day) handOff(ctx context.Context, config config.Config) error {
	host := queue.Instance{ID: action.DerivedID(time.Now(), "caboosetest"), Name: "hand"}
	if err := d.ledger.Join(ctx, host); err != nil {
		return err
	}
	for i := range d.Jobs {
		job, err := config.Processes["mirror"].Prepare([]byte(`{}`))
		if err != nil {
			return err
		}
		job.CacheKey = action.ID{} // each is a job of its own
		made, err := d.ledger.Enqueue(ctx, job)
		if err != nil {
			return err
		}
		turned, err := d.ledger.CompleteAndClaim(ctx, host, nil, []queue.Want{{Lane: "flows", N: 1, HandOff: true}})
		if err != nil || len(turned.Claimed) != 1 {
			return errors.Join(err, fmt.Errorf("%d jobs were claimed, want one", len(turned.Claimed)))
		}
		accepted := queue.Completion{ID: made[0].ID, Attempt: 1, HandOff: true, Outcome: action.Outcome{Kind: action.Done}}
		if _, err := d.ledger.CompleteAndClaim(ctx, host, []queue.Completion{accepted}, nil); err != nil {
			return err
		}
		d.jobs[made[0].ID] = i%2 == 1
	}
	return d.ledger.Leave(ctx, host)
}

// live runs a caboose until the cluster has no workflow any more.
func (d *day) live(ctx context.Context) error {
	api := d.faults.open(d.jobs, d.Features)
	defer api.Close()
	flows := api.Cluster("flows")
	c := caboose.New(d.faults, d.faults, caboose.Config{Clusters: map[string]*kube.Cluster{"flows": flows},
		Pace: caboose.Pace{Resync: time.Hour, Retry: time.Millisecond, RetryMax: 5 * time.Millisecond, DeleteAgain: 5 * time.Millisecond}})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var loops sync.WaitGroup
	var ran, watched error
	loops.Go(func() { ran = c.Run(ctx) })
	loops.Go(func() { watched = d.watchCallbacks(ctx) })
	err := emptied(ctx, flows)
	cancel()
	loops.Wait()
	return errors.Join(err, ran, watched)
}

// emptied waits until a cluster has no workflow.
func emptied(ctx context.Context, flows *kube.Cluster) error {
	workflows := flows.Resource(argo.Workflows()).Namespace(flows.Namespace)
	changes, err := workflows.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer changes.Stop()
	for {
		left, err := workflows.List(ctx, metav1.ListOptions{})
		if err != nil || len(left.Items) == 0 {
			return err
		}
		select {
		case <-changes.ResultChan():
		case <-ctx.Done():
			return fmt.Errorf("%d workflows are left: %w", len(left.Items), context.Cause(ctx))
		}
	}
}

// watchCallbacks looks at callbacks as soon as they are there: their parameters must be there, too.
func (d *day) watchCallbacks(ctx context.Context) error {
	view := d.ledger.NewWaiter()
	for view.Wait(ctx, store.TopicAction, time.Now().Add(time.Millisecond)) == nil {
		for id := range d.jobs {
			callbacks, err := d.ledger.Actions(context.WithoutCancel(ctx), queue.ActionQuery{Parent: id})
			if err != nil {
				return err
			}
			for _, c := range callbacks {
				parameters, err := blob.Load(context.WithoutCancel(ctx), d.blobs, c.Parameters, c.ParametersRef)
				var given struct{ Feature struct{ Text string } }
				if err != nil || json.Unmarshal(parameters, &given) != nil || given.Feature.Text == "" {
					d.came.Early++
					d.broken("callback %s is there before its parameters: %v", c.ID, err)
				}
			}
		}
	}
	return nil
}

func (d *day) broken(format string, args ...any) {
	d.came.Faults = append(d.came.Faults, fmt.Sprintf(format, args...))
}

// judge looks at what the day has left.
func (d *day) judge(ctx context.Context) error {
	for _, fault := range d.faults.unarchived {
		d.broken("%s", fault)
	}
	for id, big := range d.jobs {
		state, err := d.ledger.Action(ctx, id)
		if err != nil {
			return err
		}
		events, err := d.ledger.Events(ctx, id)
		if err != nil {
			return err
		}
		callbacks, err := d.ledger.Actions(ctx, queue.ActionQuery{Parent: id})
		if err != nil {
			return err
		}
		if state.Thread.Status == action.Successful {
			d.came.Ends++
		}
		d.came.Callbacks += len(callbacks)
		d.came.Duplicates += max(0, len(callbacks)-d.Features)
		const history = 4 // PENDING, QUEUED, RUNNING, SUCCESSFUL
		d.came.Duplicates += max(0, len(events)-history)
		if state.Thread.Status != action.Successful || len(events) != history || len(callbacks) != d.Features {
			d.broken("%s is %s after %d events, with %d callbacks", id, state.Thread.Status, len(events), len(callbacks))
		}
		if output, err := blob.Load(ctx, d.blobs, state.Output, state.OutputRef); err != nil || len(output) == 0 ||
			(state.OutputRef != "") != big {
			d.broken("%s (big: %v) has the output %q, %d bytes: %v", id, big, state.OutputRef, len(output), err)
		}
		if got, want := d.faults.recorded[id.String()], min(recordedAfter, d.ArchiveFails); got != want {
			d.broken("%s was recorded after %d failed archives, want %d", id, got, want)
		}
		if got := d.faults.deletes[id.String()]; got != d.DeleteFails+1 {
			d.broken("%s was deleted %d times, want %d", id, got, d.DeleteFails+1)
		}
	}
	return nil
}
