package service

import (
	"context"
	"strings"
	"unicode"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Limits returns the lanes that are limited, refused, slowed, paused or disabled.
func (s *Service) Limits(ctx context.Context) ([]queue.Limiter, error) {
	return s.ledger.Limits(ctx)
}

// longestLane is in bytes: a pause makes a lane that has no action yet, and every list of lanes has it until it ends.
const longestLane = 1000

// Limit pauses, resumes, enables or resets a lane. HANDLER/* is all lanes of a handler.
func (s *Service) Limit(ctx context.Context, lane string, c queue.LimitCommand) (queue.Limiter, error) {
	if err := checkReason(c.Reason); err != nil {
		return queue.Limiter{}, err
	}
	if len(lane) > longestLane || strings.ContainsFunc(lane, unicode.IsControl) {
		return queue.Limiter{}, fault.New(fault.Invalid, "lane %.100q: want one line of at most %d bytes", lane, longestLane)
	}
	return s.ledger.Limit(ctx, lane, c)
}
