package postgres

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: the instances that share the database. An instance shows that it is alive
// by renewing its lease and, where it has a listener, by an advisory lock (Driver.Guard).

// PutInstance registers a process, or registers it again.
func (t *tx) PutInstance(i queue.Instance, lease time.Duration, guard int64) error {
	report, err := queue.MarshalReport(i.Report)
	if err != nil {
		return err
	}
	return t.do(`INSERT INTO instance (id, name, version, roles, handlers, lease_until, lock_key, draining, report, application)
		VALUES ($1, $2, $3, $4, $5, now() + $6, $7, $8, $9, current_setting('application_name'))
		ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, lock_key = excluded.lock_key, unguarded = NULL,
			handlers = excluded.handlers, draining = excluded.draining, report = excluded.report`,
		uuid(i.ID), i.Name, i.Version, filled(i.Roles), filled(i.Handlers), interval(lease), guard, i.Draining, report)
}

// filled returns a list that is not nil, since nil would be NULL.
func filled(list []string) []string { return append([]string{}, list...) }

// interval returns a duration as pgx encodes it.
func interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}

// late is the condition that an instance's lease has passed. A lease that ends farther ahead than
// any does was written before the server's clock was set back, and counts as passed.
const late = "(lease_until <= now() OR lease_until > now() + interval '1 hour')"

// RenewInstance writes what the instance serves, and reports whether the row was there and what
// Newer reports.
func (t *tx) RenewInstance(i queue.Instance, lease time.Duration) (there, outdated bool, err error) {
	report, err := queue.MarshalReport(i.Report)
	if err != nil {
		return false, false, err
	}
	found, err := query(t, func(row pgx.Row) (yes bool, err error) {
		err = row.Scan(&yes)
		return yes, err
	}, "UPDATE instance SET lease_until = now() + $2, handlers = $3, draining = $4, report = $5 WHERE id = $1 RETURNING "+
		fmt.Sprintf(newer, schema),
		uuid(i.ID), interval(lease), filled(i.Handlers), i.Draining, report)
	return len(found) > 0, len(found) > 0 && found[0], err
}

// DeleteInstance removes a process.
func (t *tx) DeleteInstance(id action.ID) error {
	return t.do("DELETE FROM instance WHERE id = $1", uuid(id))
}

// Instances reads all that have a row.
func (t *tx) Instances() ([]queue.InstanceRow, error) {
	return query(t, func(row pgx.Row) (i queue.InstanceRow, err error) {
		var report string
		err = row.Scan(idOf{&i.ID}, &i.Name, &i.Version, &i.Roles, &i.Handlers, timeOf{&i.StartedAt}, timeOf{&i.LeaseEnd},
			&i.Guarded, &i.Draining, &report)
		if err == nil {
			i.Report, err = queue.UnmarshalReport(report)
		}
		return i, err
	}, `SELECT id, name, version, roles, handlers, started_at, lease_until, lock_key <> 0 AND unguarded IS NULL, draining, report::text
		FROM instance ORDER BY id`)
}

// guarded is the condition that a session holds an instance's advisory lock.
var guarded = "EXISTS (SELECT 1 FROM pg_locks l WHERE " + guards("lock_key") + ")"

// unguarded is the condition that an instance has a lock key and no session holds the lock.
var unguarded = "lock_key <> 0 AND NOT " + guarded

// guards returns the condition that a row of pg_locks, l, is the advisory lock of a key. pg_locks
// shows the key as two halves.
func guards(key string) string {
	return `l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND (l.classid::bigint << 32) | l.objid::bigint = ` + key
}

// removeDead removes dead instances. $1, self, judges and is never removed. It judges the
// instances of $2 by their leases while its own lease has not passed. It judges by locks where $3
// is true and it holds its own lock, unless the server was started less than $4 ago: other
// instances may still be reconnecting.
var removeDead = `WITH judge AS (SELECT
		EXISTS (SELECT 1 FROM instance WHERE id = $1 AND NOT ` + late + `) AS leases,
		$3 AND EXISTS (SELECT 1 FROM instance WHERE id = $1 AND ` + guarded + `)
			AND pg_postmaster_start_time() NOT BETWEEN now() - $4::interval AND now() AS locks)
	DELETE FROM instance USING judge WHERE id <> $1 AND (leases AND id = ANY ($2) AND ` + late + `
		OR locks AND ` + unguarded + ` AND unguarded NOT BETWEEN now() - interval '1 second' AND now()) RETURNING id, ` + late + `, application`

// disconnect ends the connections of dead instances, and with them the row locks of an instance
// that is frozen or out of reach. A process that is alive after all connects again.
const disconnect = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ANY ($1) AND application_name <> ''
	AND datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()`

// BuryInstances removes dead instances, and returns why each is dead. Either no session holds its
// guard now nor did at the last look, at least a second ago; or it is silent, and its lease has
// passed and that of self has not.
//
// One look is not enough, since a lock is free while its listener reconnects. The column unguarded
// remembers the first look.
func (t *tx) BuryInstances(self action.ID, silent []action.ID) (map[action.ID]queue.LossReason, error) {
	dead := map[action.ID]queue.LossReason{}
	applications, err := query(t, func(row pgx.Row) (application string, err error) {
		var id action.ID
		var late bool
		err = row.Scan(idOf{&id}, &late, &application)
		dead[id] = queue.LostLock
		if late {
			dead[id] = queue.LostLease
		}
		return application, err
	}, removeDead, uuid(self), uuids(silent), t.listener.judges(), interval(queue.InstanceLease))
	if err == nil && len(dead) > 0 {
		err = t.do(disconnect, applications)
	}
	if err != nil {
		return nil, err
	}
	err = t.do("UPDATE instance SET unguarded = CASE WHEN unguarded IS NULL THEN now() END WHERE id <> $1 AND ("+
		unguarded+") = (unguarded IS NULL)", uuid(self))
	return dead, err
}
