package service

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/action"
)

// Attempts returns the attempts at an action, oldest first, each with the status that ended it. One
// that has not ended has no EndedAt.
func (s *Service) Attempts(ctx context.Context, id action.ID) ([]Try, error) {
	events, err := s.ledger.Events(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read the attempts at action %s: %w", id, err)
	}
	return attemptsOf(id, events), nil
}

// attemptsOf returns the attempts that the events of an action are about.
func attemptsOf(id action.ID, events []action.Event) (tries []Try) {
	running := false
	for _, event := range events {
		begins := event.Status == action.Running
		switch {
		case begins && !running:
			tries = append(tries, Try{Action: id, Status: action.Running, StartedAt: event.At})
		case !begins && running:
			last := &tries[len(tries)-1]
			last.Status, last.EndedAt, last.Error = event.Status, event.At, event.Error
		}
		running = begins
	}
	return tries
}
