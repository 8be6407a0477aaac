// Package server is what people and programs ask of a running Waybill: the
// questions and commands once (Service), the HTTP API over them (Server), and a
// Client that asks the same of another process.
//
// A Service decides nothing itself. It folds the log with pipeline.Engine to
// answer, and records intents as notes; the deployer acts on them.
package server

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/semaphore"
)

// Service answers what people ask of one ledger. Safe for concurrent use.
// Errors carry fault codes: NotFound for what is not there (with the nearest
// name as the hint), Conflict, Refused, Invalid.
type Service struct {
	ledger *ledger.Ledger
	blobs  blob.Store
	offers Offers
	folds  folds
	pulse  pulse
	looks  looks

	decoding *semaphore.Semaphore // for large inputs

	retention time.Duration
	idle      func() bool

	// LargestUpload is the size in bytes above which a snapshot or an artifact is refused; 0: LargestUpload, 1 GiB.
	LargestUpload int64
	// Inspect asks how a service on a host does; known is false where that is another machine's. nil: no host is this machine's.
	Inspect func(ctx context.Context, host pipeline.Host, service string) (state step.State, known bool, err error)
	// Current returns the name of the release that a host has switched to, "" for none; known and nil as those of Inspect.
	Current func(host pipeline.Host, service string) (release string, known bool, err error)
	// ReadLog reads what a service on a host has printed last, at most that many bytes; known and nil as those of Inspect.
	ReadLog func(host pipeline.Host, service string, most int64) (log step.ServiceLog, known bool, err error)
}

// Offers are what people can have done: those that there are at the time of asking. A nil function offers nothing.
type Offers struct {
	Handlers  func() Handlers
	Processes func() map[string]config.Process
	Schedules func() map[string]config.Schedule
}

// ServiceOptions are what a Service knows besides the log. The zero value offers nothing, and no host is on this machine.
type ServiceOptions struct {
	Offers Offers
	// Retention is how long ended actions are kept; 0: forever.
	Retention time.Duration
	// LargestUpload, Inspect, Current and ReadLog are the fields of Service.
	LargestUpload int64
	Inspect       func(ctx context.Context, host pipeline.Host, service string) (state step.State, known bool, err error)
	Current       func(host pipeline.Host, service string) (release string, known bool, err error)
	ReadLog       func(host pipeline.Host, service string, most int64) (log step.ServiceLog, known bool, err error)
	// Idle reports that no process runs roles on this log, even if rows of killed processes remain; nil: trust the rows.
	Idle func() bool
}

// NewService returns the service of a ledger and its blob store. A process has one, since each folds the log.
func NewService(l *ledger.Ledger, blobs blob.Store, o ServiceOptions) *Service {
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
	return &Service{ledger: l, blobs: blobs, offers: offers, retention: o.Retention, idle: o.Idle,
		LargestUpload: o.LargestUpload, Inspect: o.Inspect, Current: o.Current, ReadLog: o.ReadLog, folds: folds{byPipeline: map[string]*fold{}},
		looks:    looks{all: map[string]*look{}, slots: make(chan struct{}, looksAtOnce)},
		decoding: semaphore.New(decodesAtOnce, decodePatience, "too many large inputs are being read")}
}
