package caboose

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/aws"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// events records Cirrus's events about payloads, as one queue delivers it.
type events struct {
	*Caboose
	account  Account
	queue    string
	handlers map[string]bool // the handlers whose work it reports
	log      *slog.Logger
}

// queues groups the handlers by their events queues: one that several share is read once.
func (c *Caboose) queues() (all []*events) {
	byURL := map[string]*events{}
	for handler, cirrus := range c.cfg.Cirrus {
		if cirrus.Events == "" {
			continue
		}
		q := byURL[cirrus.Events]
		if q == nil {
			q = &events{Caboose: c, account: cirrus.Account, queue: cirrus.Events, handlers: map[string]bool{},
				log: c.log.With(obs.KeyQueue, cirrus.Events)}
			byURL[cirrus.Events] = q
			all = append(all, q)
		}
		q.handlers[handler] = true
	}
	return all
}

// run receives until ctx ends.
func (q *events) run(ctx context.Context) {
	var away loop.Backoff
	for ctx.Err() == nil {
		err := q.runOnce(ctx)
		if err == nil {
			away.Reset()
			continue
		}
		delay := away.Next()
		if ctx.Err() == nil {
			q.log.Warn("reading Cirrus's events failed; what was not recorded comes again", obs.Error(err), obs.KeyRetryIn, delay.String())
		}
		loop.Pause(ctx, delay)
	}
}

const (
	receiveLimit = 40 * time.Second // bounds one wait for messages, which SQS ends after twenty seconds
	deleteLimit  = 10 * time.Second // bounds one deletion
)

// runOnce waits for messages, records their content, and deletes them last: a message cut off in between comes again,
// and is known then.
func (q *events) runOnce(ctx context.Context) error {
	receiving, cancel := context.WithTimeoutCause(ctx, receiveLimit, fmt.Errorf("the queue did not answer within %s", receiveLimit))
	messages, err := q.account.Receive(receiving, q.queue)
	cancel()
	if err != nil || len(messages) == 0 {
		return err
	}
	var done []aws.Message
	for _, m := range messages {
		recorded := q.record(ctx, m)
		if recorded == nil {
			done = append(done, m)
			continue
		}
		err = errors.Join(err, recorded)
		if loop.Passing(recorded) || ctx.Err() != nil {
			break // the next messages would fail too
		}
	}
	deleting, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), deleteLimit,
		fmt.Errorf("the queue did not answer within %s", deleteLimit))
	defer cancel()
	return errors.Join(err, q.account.Delete(deleting, q.queue, done))
}

// record records the content of a message. After nil the message is not needed any more.
func (q *events) record(ctx context.Context, m aws.Message) error {
	o, news, err := q.read(ctx, m)
	if err != nil || !news {
		return err
	}
	recorded, err := q.observe(ctx, o)
	if err != nil {
		return err
	}
	q.metrics.Events.WithLabelValues("recorded").Inc()
	if o.Outcome.Kind == 0 {
		q.metrics.Workflows.WithLabelValues("running").Inc()
		return nil
	}
	q.count(o, recorded)
	return nil
}

// read returns the action of a message and its report. news is false if nothing must be recorded: the action is
// unknown, or its state is.
func (q *events) read(ctx context.Context, m aws.Message) (o queue.Observation, news bool, err error) {
	e, err := readEvent(m.Body)
	if err != nil {
		q.metrics.Events.WithLabelValues("unreadable").Inc()
		q.log.Warn("message is not an event of Cirrus; deleted", obs.KeyMessage, m.ID, obs.Error(err))
		return o, false, nil
	}
	id, named := e.action()
	ours := false
	if named {
		if ours, err = q.belongs(ctx, id, e); err != nil {
			return o, false, err
		}
	}
	if !ours {
		q.metrics.Events.WithLabelValues("orphan").Inc()
		q.log.Debug("event is of no action of ours; deleted", obs.KeyMessage, m.ID, obs.KeyRef, e.PayloadID)
		return o, false, nil
	}
	o, news = e.observed()
	if !news {
		q.metrics.Events.WithLabelValues("nothing").Inc()
	}
	o.ID, o.Source = id, q.source()
	return o, news, nil
}

// belongs reports whether a payload is that of an action of a handler that this queue reports
// about. Its place is not known yet while its acceptance is being recorded.
func (q *events) belongs(ctx context.Context, id action.ID, e event) (bool, error) {
	state, err := q.ledger.Action(ctx, id)
	if fault.Is(err, fault.NoSuchAction) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	place := state.Ref == e.PayloadID || state.Ref == "" || state.Thread.Status.Ended()
	return q.handlers[state.Handler] && place, nil
}
