package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/semaphore"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/service/flowview"
	"github.com/waybill-dev/waybill/internal/store"
)

// Service answers requests about one ledger. It is safe for concurrent use. Errors carry fault codes: NotFound (with the
// nearest name as the hint), Conflict, Refused, Invalid.
type Service struct {
	ledger *ledger.Ledger
	blobs  blob.Store
	offers Offers
	proofs func() Proofs // returns nil where this process reaches no management cluster
	folds  folds
	pulse  statusCache
	looks  looks

	observed observations

	builds   buildview.Source // nil: this instance knows of none
	projects Projects

	backlogs backlogs             // triggers and their live actions
	decoding *semaphore.Semaphore // bounds how many large inputs are decoded at a time

	retention time.Duration
	holder    func() *Holder
	readiness []func() error            // besides the ledger
	alone     bool                      // readiness does not depend on the ledger
	proposals func() (Proposals, error) // nil: none
	flows     func() (*flowview.Cache, error)

	// LargestUpload is the size in bytes above which a snapshot or an artifact is refused; 0: LargestUpload, 1 GiB.
	LargestUpload int64
	// Inspect returns the state of a service on a host; known is false if nothing was deployed there, or this process
	// cannot reach it. nil: it reaches none.
	Inspect func(ctx context.Context, at pipeline.Place, service string) (state step.State, known bool, err error)
	// Verify returns the files of a service's release on a host that are not those of its artifact, at most 20. nil: not known.
	Verify    func(ctx context.Context, at pipeline.Place, service string) (changed []string, err error)
	verifying sync.Mutex // one host at a time
	// Current returns the name of the release that a host has switched to, "" for none; known is false for a host of another
	// machine. nil: it reaches none.
	Current func(host pipeline.Host, service string) (release string, known bool, err error)
	// ReadLog returns a part of the output of a service on a host; known and nil as for Inspect.
	ReadLog func(ctx context.Context, at pipeline.Place, service *pipeline.Service,
		q step.LogQuery) (log step.ServiceLog, known bool, err error)
	fileReads *semaphore.Semaphore // bounds how many build files are read at a time
	plans     *semaphore.Semaphore // bounds how many plans are made at a time: each folds a whole log
}

// Offers are the handlers, processes, schedules and groups of people of the configuration in force. A nil function offers nothing.
type Offers struct {
	Handlers  func() Handlers
	Processes func() map[string]config.Process
	Schedules func() map[string]config.Schedule
	Triggers  func() map[string]config.Trigger
	Groups    func() map[string][]string // people by the name of their group
	// Environments lists the clusters and secrets that stages with an environment may name; ok is false if nothing promotes here.
	Environments func() (clusters, secrets []string, ok bool)
	Hooks        func() map[string]config.Hook
	// BodylessHMAC reports whether signatures are accepted that do not cover what they approve.
	BodylessHMAC func() bool
	Broker       func() bool // whether the configuration has a service broker
}

// Options hold a Service's sources besides the log. The zero value offers nothing, and no host is on this
// machine.
type Options struct {
	Offers Offers
	// Retention is the time for which ended actions are kept; 0: forever.
	Retention time.Duration
	// LargestUpload, Inspect, Verify, Current and ReadLog are the fields of Service.
	LargestUpload int64
	Inspect       func(ctx context.Context, at pipeline.Place, service string) (state step.State, known bool, err error)
	Verify        func(ctx context.Context, at pipeline.Place, service string) (changed []string, err error)
	Current       func(host pipeline.Host, service string) (release string, known bool, err error)
	ReadLog       func(ctx context.Context, at pipeline.Place, service *pipeline.Service,
		q step.LogQuery) (log step.ServiceLog, known bool, err error)
	Builds   buildview.Source // nil: none
	Projects Projects         // what can be built without a deployment
	Proofs   func() Proofs    // returns nil where this process reaches no management cluster; nil: it never does
	// Proposals returns the way to the repositories of pipelines of Kubernetes, or the reason why this process has none; nil: none.
	Proposals func() (Proposals, error)
	// Flows returns the EventFlows of the cluster in the configuration; nil, as the function or its result: there is none.
	Flows func() (*flowview.Cache, error)
	// Holder returns the one process that may run roles on this log, or nil if none does, even if rows of killed processes
	// remain; nil: trust the rows.
	Holder func() *Holder
}

// New returns the service of a ledger and its blob store. A process has one, since each folds the log.
func New(l *ledger.Ledger, blobs blob.Store, o Options) *Service {
	offers := o.Offers
	if offers.Handlers == nil {
		offers.Handlers = func() Handlers { return nil }
	}
	if offers.Processes == nil {
		offers.Processes = func() map[string]config.Process { return nil }
	}
	if offers.Schedules == nil {
		offers.Schedules = func() map[string]config.Schedule { return nil }
	}
	if offers.Triggers == nil {
		offers.Triggers = func() map[string]config.Trigger { return nil }
	}
	proofs := o.Proofs
	if proofs == nil {
		proofs = func() Proofs { return nil }
	}
	return &Service{ledger: l, blobs: blobs, offers: offers, retention: o.Retention, holder: o.Holder, builds: o.Builds, projects: o.Projects,
		proofs: proofs, proposals: o.Proposals, flows: o.Flows,
		LargestUpload: o.LargestUpload, Inspect: o.Inspect, Verify: o.Verify, Current: o.Current, ReadLog: o.ReadLog,
		folds:     folds{byPipeline: map[string]*fold{}},
		backlogs:  backlogs{all: map[string]*backlog{}},
		observed:  observations{all: map[string]observation{}},
		looks:     looks{all: map[string]*look{}, slots: make(chan struct{}, looksAtOnce)},
		decoding:  semaphore.New(decodesAtOnce, decodePatience, "too many large inputs are being read"),
		fileReads: semaphore.New(mostFileReads, fileReadPatience, "too many build files are being read"),
		plans:     semaphore.New(mostPlans, planPatience, "too many plans are being made")}
}

// ErrRole is the error of Ready for a role that does not do its work.
var ErrRole = errors.New("a role of this process does not work")

// AddReadiness adds a condition of Ready. It is called before the service is in use.
func (s *Service) AddReadiness(ready func() error) { s.readiness = append(s.readiness, ready) }

// ReadyWithoutLedger has Ready not wait for the ledger: the roles of the process do part of their work without it. It is called before
// the service is in use.
func (s *Service) ReadyWithoutLedger() { s.alone = true }

// ledgerReady reports whether the ledger serves this process.
func (s *Service) ledgerReady(ctx context.Context) error {
	if !s.alone {
		return s.ledger.Ready(ctx)
	}
	select {
	case <-s.ledger.Outdated():
		return store.ErrOutdated
	default:
		return nil
	}
}

// Ready reports whether the ledger answers, see ledger.Ledger.Ready, and the roles of the process do their work. Without
// the latter the error is ErrRole.
func (s *Service) Ready(ctx context.Context) error {
	err := s.ledgerReady(ctx)
	for _, ready := range s.readiness {
		if err == nil {
			if err = ready(); err != nil {
				err = fmt.Errorf("%w: %w", ErrRole, err)
			}
		}
	}
	return err
}

// Credentials returns the ledger as the store of tokens and sessions.
func (s *Service) Credentials() *ledger.Ledger { return s.ledger }
