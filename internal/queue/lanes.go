package queue

import "context"

// LanesVisited is the number of lanes with ready work that one search passes of each handler, blocked ones included.
// It bounds the search when thousands of lanes are blocked; the caller continues after the last one.
const LanesVisited = 1000

// Lanes lists lanes with ready work for the handlers, in order after a lane, at most limit. Lanes that may start nothing
// now, because they or all of their handler's are paused, disabled, or slowed without a token, are left out. When there
// may be more behind them, next is the lane to continue after; else it is "". next may be set although lanes is empty: all lanes
// that were passed are blocked.
func (q *Queue) Lanes(ctx context.Context, handlers []string, after string, limit int) (lanes []string, next string, err error) {
	err = q.read(ctx, "read lanes", func(tx rows) error {
		lanes, next, err = tx.Lanes(handlers, after, limit)
		return err
	})
	return lanes, next, err
}
