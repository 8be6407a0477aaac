package migrate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/services"
)

// Log keeps the rows of service instances. See ledger.Ledger.
type Log interface {
	// ID returns the id of the log.
	ID(ctx context.Context) (action.ID, error)
	// Service reads a service instance.
	Service(ctx context.Context, key ledger.ServiceKey) (ledger.ServiceState, error)
	// Operate stores a decision about a service instance.
	Operate(ctx context.Context, key ledger.ServiceKey, decide func(ledger.ServiceState) (ledger.ServiceChange, error)) error
}

// Config configures a Migration.
type Config struct {
	Settings

	Cluster *kube.Cluster
	Log     Log
	Wait    time.Duration // most time until a resumed flow is ready

	// Progress is called before each step of a task, and with nil at the end of the task.
	Progress func(*Task, *Step)
}

// Migration plans and performs. It has no state of its own.
type Migration struct{ cfg Config }

// New returns a migration of a cluster.
func New(c Config) *Migration { return &Migration{cfg: c} }

// Outline is a plan and the reason against performing it.
type Outline struct {
	Tasks   []Task   `json:"tasks"`
	Running []string `json:"running,omitempty"` // Deployments of the old broker that run
}

// Plan returns the tasks of a migration, and writes nothing.
func (m *Migration) Plan(ctx context.Context) (p Outline, err error) { return m.plan(ctx, Plan) }

// PlanRevert returns the tasks of a revert, and writes nothing.
func (m *Migration) PlanRevert(ctx context.Context) (p Outline, err error) {
	return m.plan(ctx, PlanRevert)
}

func (m *Migration) plan(ctx context.Context, plan func(*Found, Settings) []Task) (p Outline, err error) {
	found, err := m.read(ctx)
	if err != nil {
		return p, err
	}
	return Outline{Tasks: plan(found, m.cfg.Settings), Running: found.Running()}, nil
}

// Apply performs a migration. The error is about the whole of it; the result for each service instance is in its task.
func (m *Migration) Apply(ctx context.Context) ([]Task, error) { return m.perform(ctx, Plan) }

// Revert takes a migration back.
func (m *Migration) Revert(ctx context.Context) ([]Task, error) { return m.perform(ctx, PlanRevert) }

func (m *Migration) perform(ctx context.Context, plan func(*Found, Settings) []Task) ([]Task, error) {
	found, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	tasks := plan(found, m.cfg.Settings)
	if running := found.Running(); len(running) > 0 && len(tasks) > 0 {
		return nil, fault.New(fault.Refused, "the application broker runs: Deployment %s", strings.Join(running, ", ")).
			WithHint("kubectl scale --replicas=0 -n %s deployment/%s", strings.Split(running[0], "/")[0], OldBroker)
	}
	if !found.Flows.Installed() && len(tasks) > 0 {
		return nil, fault.New(fault.Invalid, "the cluster does not have the kind EventFlow").WithHint("kubectl apply -f config/flow/crd.yaml")
	}
	broken := map[string]bool{}
	for i := range tasks {
		t := &tasks[i]
		w := worker{Migration: m, Task: t, found: found}
		if t.Name == "" && broken[t.Namespace] {
			t.end(Skipped, "a service instance of the namespace is not done")
		} else if err := w.run(ctx); err != nil {
			if ctx.Err() != nil {
				return tasks, context.Cause(ctx)
			}
			t.end(Failed, "%s", err)
		}
		broken[t.Namespace] = broken[t.Namespace] || t.State == Failed
		m.cfg.Progress(t, nil)
	}
	return tasks, nil
}

// read reads the cluster and the rows that plans are about.
func (m *Migration) read(ctx context.Context) (f *Found, err error) {
	f = &Found{}
	for into, of := range f.reads() {
		if *into, err = m.list(ctx, of); err != nil {
			return nil, err
		}
	}
	if f.ClusterID, err = m.clusterID(ctx); err != nil {
		return nil, err
	}
	if f.Log, err = m.cfg.Log.ID(ctx); err != nil {
		return nil, err
	}
	return f, m.readRows(ctx, f)
}

// readRows reads the rows of the service instances that may be migrated, and of those that were.
func (m *Migration) readRows(ctx context.Context, f *Found) error {
	var ids []string
	for _, c := range f.candidates(m.cfg.Ignore) {
		ids = append(ids, c.id)
	}
	for i := range f.Flows.Items {
		if isMigrated(&f.Flows.Items[i]) {
			ids = append(ids, f.Flows.Items[i].GetAnnotations()[flow.AnnotationID])
		}
	}
	f.Rows = map[string]*services.Instance{}
	for _, id := range ids {
		if _, known := f.Rows[id]; known || !isID(id) {
			continue
		}
		state, err := m.cfg.Log.Service(ctx, ledger.ServiceKey{Instance: id})
		if err != nil {
			return fmt.Errorf("read the row of service instance %q: %w", id, err)
		}
		f.Rows[id] = state.Row
	}
	return nil
}
