package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/queue"
)

// foreign are claims of instances that have no row: those between the ids of instances. The claims of those that
// live, and their rest in the index while a snapshot is held, are passed over.
const foreign = `FROM (SELECT lag(id, 1, '00000000-0000-0000-0000-000000000000') OVER (ORDER BY id) AS low, id AS high
		FROM (SELECT id FROM instance UNION ALL SELECT 'ffffffff-ffff-ffff-ffff-ffffffffffff') AS ids) AS gap
	CROSS JOIN LATERAL (SELECT id FROM thread WHERE claimed_by > gap.low AND claimed_by < gap.high AND claimed_by IS NOT NULL
		ORDER BY claimed_by OFFSET 0) AS t`

// renewed and alive begin a pulse: $1 to $7 are those of visited, $8 is the instance; $10 and what follows is what a
// heartbeat writes.
const (
	renewed = `WITH self AS (UPDATE instance SET lease_until = now() + $10, handlers = $11, draining = $12, report = $13 WHERE id = $8 RETURNING id, roles)`
	alive   = `WITH self AS (SELECT id, roles FROM instance WHERE id = $8)`
)

// pulse looks at everything that an instance waits for. Each look ends at the first row it finds, and passes over what
// ended actions leave behind while another connection holds an old snapshot: ready lanes by their floors, overdue claims
// by $9, before which there were none at the last look.
var pulse = ` SELECT now(), (SELECT array_agg(id ORDER BY id) FROM instance), (SELECT array_agg(lease_until ORDER BY id) FROM instance),
	` +
	anyReady + ` OR EXISTS (SELECT FROM thread WHERE NOT ready AND claimed_by IS NULL AND status IN (1, 4) AND run_at < now() + interval '10 seconds')
	OR EXISTS (SELECT FROM thread WHERE deadline < now() + interval '10 seconds' AND ` + passable + `),
	EXISTS (SELECT FROM thread WHERE claimed_by = $8 AND claimed_by IS NOT NULL AND cancel_at IS NOT NULL)
	OR EXISTS (SELECT FROM thread WHERE cancel_at IS NOT NULL AND claimed_by IS NULL AND status IN (2, 3) AND run_at <= now()),
	EXISTS (SELECT FROM instance WHERE id <> $8 AND (unguarded IS NOT NULL OR ` + unguarded + `))
	OR EXISTS (SELECT ` + foreign + `)
	OR EXISTS (SELECT FROM thread WHERE claimed_by = $8 AND claimed_by IS NOT NULL AND lease < now() AND lease > $9),
	EXISTS (SELECT FROM instance i CROSS JOIN LATERAL (
		SELECT FROM thread WHERE claimed_by = i.id AND claimed_by IS NOT NULL AND (lease > now() OR lease IS NULL) LIMIT 1) AS held WHERE i.id <> $8),
	NOT EXISTS (SELECT FROM instance i WHERE i.id < self.id AND i.roles = self.roles), ` + fmt.Sprintf(newer, schema) + `
	FROM self`

// Pulse reports what there is for an instance to do, in one statement; with a lease it renews the instance first. The
// statement is planned each time: it runs forever, on tables that were small when it ran first.
func (d *Driver) Pulse(ctx context.Context, i queue.Instance, lease time.Duration) (b queue.Beat, err error) {
	statement, args := alive+pulse, append([]any{pgx.QueryExecModeCacheDescribe}, d.floors.readyOf(i.Handlers, "")...)
	args = append(args, uuid(i.ID), d.searched())
	if lease > 0 {
		report, err := queue.MarshalReport(i.Report)
		if err != nil {
			return b, err
		}
		statement, args = renewed+pulse, append(args, interval(lease), filled(i.Handlers), i.Draining, report)
	}
	for tries := 0; ; tries++ {
		var ids []pgtype.UUID
		var leases []time.Time
		err = d.beat.QueryRow(ctx, statement, args...).
			Scan(timeOf{&b.Now}, &ids, &leases, &b.Ready, &b.Cancel, &b.Lost, &b.Others, &b.Leads, &b.Newer)
		switch {
		case err == nil:
			b.There = true
			for n, id := range ids {
				b.Shared = append(b.Shared, queue.InstanceRow{Instance: queue.Instance{ID: id.Bytes}, LeaseEnd: leases[n]})
			}
			d.search(b)
			return b, nil
		case errors.Is(err, pgx.ErrNoRows):
			return queue.Beat{}, nil
		case ctx.Err() != nil || tries == retries || !(repeatable(err) || tries == 0 && stale(err)):
			return b, coded(err)
		}
	}
}

// searched returns the time before which no claim is overdue, less what clocks may jump.
func (d *Driver) searched() pgtype.Timestamptz {
	if at := d.overdue.Load(); at != 0 {
		return stamp(time.UnixMicro(at).Add(-time.Minute))
	}
	return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
}

// search notes that there was none now. When the server's clock was put back everything is looked at again.
func (d *Driver) search(b queue.Beat) {
	switch now := b.Now.UnixMicro(); {
	case now < d.overdue.Load():
		d.overdue.Store(0)
	case !b.Lost:
		d.overdue.Store(now)
	}
}
