package service

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/store"
)

// Waiter is one follower's place in the changes of topics. Wait misses no change between two of its calls.
type Waiter struct{ ledger *ledger.Ledger }

// NewWaiter returns a waiter on a ledger.
func NewWaiter(l interface{ NewWaiter() *ledger.Ledger }) *Waiter { return &Waiter{l.NewWaiter()} }

// Waiter returns a new waiter. Each follower needs its own.
func (s *Service) Waiter() *Waiter { return NewWaiter(s.ledger) }

// Wait returns when one of the topics may have changed since the last Wait, or after max. If ctx ends it returns the cause.
func (w *Waiter) Wait(ctx context.Context, max time.Duration, topics ...store.Topic) error {
	waiting, cancel := context.WithCancel(ctx)
	deadline := time.Now().Add(max)
	ends := make(chan error, len(topics))
	for _, topic := range topics {
		go func() { ends <- w.ledger.Wait(waiting, topic, deadline) }()
	}
	err := <-ends
	cancel()
	for range len(topics) - 1 {
		<-ends
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
