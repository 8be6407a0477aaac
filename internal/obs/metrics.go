package obs

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Namespace is the first part of every metric's name; the second is the component.
const Namespace = "waybill"

// NewRegistry returns a registry that has only the metrics of the process itself.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// short returns buckets in seconds for work that should take milliseconds: 0.5 ms to 16 s.
func short() []float64 { return prometheus.ExponentialBuckets(0.0005, 2, 16) }

// long returns buckets in seconds for work: 1 ms to about 4.6 h.
func long() []float64 { return prometheus.ExponentialBuckets(0.001, 4, 13) }

// Conductor is the metrics of the conductor.
type Conductor struct {
	Attempts        *prometheus.CounterVec   // handler, outcome
	AttemptSeconds  *prometheus.HistogramVec // handler, outcome
	StartLatency    *prometheus.HistogramVec // handler; due → started
	StopSeconds     *prometheus.HistogramVec // handler, outcome; of handed-off work
	LateCompletions *prometheus.CounterVec   // handler; refused by the fence
	Rescues         *prometheus.CounterVec   // reason: lease, lock, overdue; claims taken back
	LeasesLost      prometheus.Counter       // times this instance was declared dead
	TurnSeconds     prometheus.Histogram
	TurnRows        *prometheus.HistogramVec // edge: claim, complete
	Running         prometheus.Gauge
	Buffered        prometheus.Gauge // claimed, and waiting for a worker
	Unflushed       prometheus.Gauge // ended attempts that are not recorded yet
	Lanes           *Lanes           // handler, lane; those that are limited
}

// NewConductor makes the metrics and registers them; a nil registerer leaves them unregistered.
func NewConductor(to prometheus.Registerer) *Conductor {
	create, at := promauto.With(to), named("conductor")
	lanes := newLanes()
	if to != nil {
		to.MustRegister(lanes)
	}
	return &Conductor{
		Lanes:    lanes,
		Attempts: create.NewCounterVec(at.counter("attempts_total", "Attempts that ended."), []string{"handler", "outcome"}),
		AttemptSeconds: create.NewHistogramVec(at.histogram("attempt_seconds", "How long attempts took.", long()),
			[]string{"handler", "outcome"}),
		StartLatency: create.NewHistogramVec(at.histogram("start_latency_seconds", "From due to started.", short()), []string{"handler"}),
		StopSeconds: create.NewHistogramVec(at.histogram("stop_seconds", "How long stopping handed-off work took.",
			long()), []string{"handler", "outcome"}),
		LateCompletions: create.NewCounterVec(at.counter("late_completions_total", "Completions that the fence refused."), []string{"handler"}),
		Rescues: create.NewCounterVec(at.counter("rescues_total",
			"Claims taken back: their instance's lease ended, its lock was free, or the attempt was overdue."), []string{"reason"}),
		LeasesLost:  create.NewCounter(at.counter("leases_lost_total", "Times this instance was declared dead.")),
		TurnSeconds: create.NewHistogram(at.histogram("turn_seconds", "How long a turn's transaction took.", short())),
		TurnRows: create.NewHistogramVec(at.histogram("turn_rows", "Rows of a turn.",
			prometheus.ExponentialBuckets(1, 4, 6)), []string{"edge"}),
		Running:   create.NewGauge(at.gauge("running", "Attempts in progress.")),
		Buffered:  create.NewGauge(at.gauge("buffered", "Claimed actions that wait for a worker.")),
		Unflushed: create.NewGauge(at.gauge("unflushed", "Ended attempts that are not recorded yet.")),
	}
}

// Caboose is the metrics of the caboose.
type Caboose struct {
	Workflows       *prometheus.CounterVec // state: running, successful, failed, canceled, …; recorded
	ArchiveFailures prometheus.Counter
	DeleteFailures  prometheus.Counter
	Orphans         prometheus.Gauge // workflows that belong to no action
	Lost            prometheus.Counter
	Shards          prometheus.Gauge       // owned by this instance
	Events          *prometheus.CounterVec // outcome: recorded, nothing, orphan, unreadable; messages of Cirrus
}

// NewCaboose makes the metrics and registers them; a nil registerer leaves them unregistered.
func NewCaboose(to prometheus.Registerer) *Caboose {
	create, at := promauto.With(to), named("caboose")
	return &Caboose{
		Workflows:       create.NewCounterVec(at.counter("workflows_total", "Workflows recorded, by what they did."), []string{"state"}),
		ArchiveFailures: create.NewCounter(at.counter("archive_failures_total", "Tries to archive a workflow that failed.")),
		DeleteFailures:  create.NewCounter(at.counter("delete_failures_total", "Tries to delete an archived workflow that failed.")),
		Orphans:         create.NewGauge(at.gauge("orphans", "Workflows that belong to no action; they are left alone.")),
		Lost:            create.NewCounter(at.counter("lost_total", "Workflows that vanished before their end was seen.")),
		Shards:          create.NewGauge(at.gauge("shards", "Shards of workflows that this instance looks after, of 64.")),
		Events:          create.NewCounterVec(at.counter("events_total", "Messages of Cirrus, by what became of them."), []string{"outcome"}),
	}
}

// Deployer is the metrics of the deployer.
type Deployer struct {
	Pipelines   prometheus.Gauge         // held by this instance
	Passes      *prometheus.CounterVec   // end: ok, stale, error, violation
	PassSeconds prometheus.Histogram     //
	Rows        *prometheus.CounterVec   // class: fact, note, change
	LagRows     *Levels                  // rows of the held pipelines that are not folded yet
	Blocked     *Levels                  // reason; steps whose turn it is and that wait, of the pipelines held
	StepSeconds *prometheus.HistogramVec // event; from an action's creation to the fact
	Superseded  prometheus.Counter
	Rollbacks   prometheus.Counter
	Archived    prometheus.Counter
	Deployments *Levels                // status; of the pipelines held
	Violations  *prometheus.CounterVec // invariant
	Refolds     prometheus.Counter     //
	FoldSeconds prometheus.Histogram   //
	Stopped     prometheus.Gauge       // pipelines whose decisions stopped at a violation
}

// NewDeployer makes the metrics and registers them; a nil registerer leaves them unregistered. perPipeline gives those that
// count what pipelines have the label pipeline too, which is a series for each.
func NewDeployer(to prometheus.Registerer, perPipeline bool) *Deployer {
	create, at := promauto.With(to), named("deployer")
	levels := func(name, help string, own ...string) *Levels {
		return newLevels(perPipeline,
			func(labels []string) *prometheus.GaugeVec { return create.NewGaugeVec(at.gauge(name, help), labels) }, own...)
	}
	return &Deployer{
		Pipelines:   create.NewGauge(at.gauge("pipelines", "Pipelines that this instance passes.")),
		Passes:      create.NewCounterVec(at.counter("passes_total", "Scheduling passes, by how they ended."), []string{"end"}),
		PassSeconds: create.NewHistogram(at.histogram("pass_seconds", "How long a pass' transaction took.", short())),
		Rows:        create.NewCounterVec(at.counter("rows_appended_total", "Entries that passes appended."), []string{"class"}),
		LagRows:     levels("lag_rows", "Entries of the pipelines held that no pass has looked at yet."),
		Blocked: levels("blocked_steps",
			"Steps whose turn it is and that something keeps waiting; of a group of hosts that wait for the same, one.", "reason"),
		StepSeconds: create.NewHistogramVec(at.histogram("step_seconds",
			"From the creation of a step's action to its completion.", long()), []string{"event"}),
		Superseded:  create.NewCounter(at.counter("superseded_total", "Deployments superseded by newer ones.")),
		Rollbacks:   create.NewCounter(at.counter("rollbacks_total", "Rollbacks that were created.")),
		Archived:    create.NewCounter(at.counter("archived_total", "Ended deployments whose entries were moved to the blob store.")),
		Deployments: levels("deployments", "Deployments of the pipelines held.", "status"),
		Violations: create.NewCounterVec(at.counter("invariant_violations_total",
			"Broken invariants; that pipeline's decisions stop."), []string{"invariant"}),
		Refolds:     create.NewCounter(at.counter("refolds_total", "Engines thrown away and folded again.")),
		FoldSeconds: create.NewHistogram(at.histogram("fold_seconds", "How long folding a pipeline's log took.", short())),
		Stopped:     create.NewGauge(at.gauge("stopped_pipelines", "Pipelines stopped by a broken invariant.")),
	}
}

// Observer is the metrics of observations on hosts after their deployments.
type Observer struct {
	drifted  prometheus.Gauge     // hosts
	services *prometheus.GaugeVec // state
	states   []string
}

// NewObserver makes the metrics and registers them; a nil registerer leaves them unregistered. The states are those of a
// service; each is shown from the start.
func NewObserver(to prometheus.Registerer, states ...string) *Observer {
	create, at := promauto.With(to), named("deployer")
	o := &Observer{
		states: states,
		drifted: create.NewGauge(at.gauge("drifted_hosts",
			"Hosts that do not run the current release of their stage, or another one than the log says, when last observed.")),
		services: create.NewGaugeVec(at.gauge("services",
			"Services of hosts, by the state in which they were last observed."), []string{"state"}),
	}
	o.Set(0, nil)
	return o
}

// Set shows a round's counts. A state that is not counted is 0.
func (o *Observer) Set(drifted int, services map[string]int) {
	o.drifted.Set(float64(drifted))
	for _, state := range o.states {
		o.services.WithLabelValues(state).Set(float64(services[state]))
	}
}

// Reload is the metrics of the configuration in force.
type Reload struct {
	OK        prometheus.Gauge // 1: the file's content is in force; 0: it has faults
	Timestamp prometheus.Gauge // seconds since 1970, of the reload that put it in force
}

// NewReload makes the metrics and registers them; a nil registerer leaves them unregistered.
func NewReload(to prometheus.Registerer) *Reload {
	create, at := promauto.With(to), named("config")
	return &Reload{
		OK:        create.NewGauge(at.gauge("reload_ok", "1 while what the configuration file says is in force, 0 while it has faults.")),
		Timestamp: create.NewGauge(at.gauge("reload_timestamp_seconds", "When the configuration in force came into force.")),
	}
}

// named makes metric options under one component's prefix.
type named string

func (n named) counter(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Namespace: Namespace, Subsystem: string(n), Name: name, Help: help}
}

func (n named) gauge(name, help string) prometheus.GaugeOpts {
	return prometheus.GaugeOpts{Namespace: Namespace, Subsystem: string(n), Name: name, Help: help}
}

func (n named) histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: Namespace, Subsystem: string(n), Name: name, Help: help, Buckets: buckets}
}
