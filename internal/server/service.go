// Package server is what people and programs ask of a running Waybill: the
// questions and commands once (Service), the HTTP API over them (Server), and a
// Client that asks the same of another process.
//
// A Service decides nothing itself. It folds the log with schedule's engine to
// answer, and records intents as notes; the deployer acts on them.
package server

import (
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// Service answers what people ask of one ledger. Safe for concurrent use.
// Errors carry fault codes: NotFound for what is not there (with the nearest
// name as the hint), Conflict, Refused, Invalid.
type Service struct {
	ledger   *ledger.Ledger
	blobs    blob.Store
	handlers func() Handlers
	folds    folds
	pulse    pulse

	// Idle reports that no process runs roles on this log, whatever its rows say; nil: the rows are right.
	Idle func() bool
}

// NewService makes the service of a ledger and its blob store. Actions can be ordered of the handlers that there
// are when they are; nil: of none.
func NewService(l *ledger.Ledger, blobs blob.Store, handlers func() Handlers) *Service {
	if handlers == nil {
		handlers = func() Handlers { return nil }
	}
	return &Service{ledger: l, blobs: blobs, handlers: handlers, folds: folds{byPipeline: map[string]*fold{}}}
}
