package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: instances. One process runs roles on a file, the one that holds
// waybill.lock. Its row is for people; no decision depends on it, so leases and guards are ignored.

// PutInstance registers a process, or registers it again.
func (t *tx) PutInstance(i queue.Instance, _ time.Duration, _ int64) error {
	values, err := instanceValues(i)
	if err != nil {
		return err
	}
	_, err = t.exec(
		"INSERT OR REPLACE INTO instance (handlers, draining, report, id, name, version, roles, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		append(values, id(i.ID), i.Name, i.Version, jsonOf(i.Roles), micros(t.now))...)
	return err
}

// RenewInstance writes what the instance serves. It always reports that the row was there: no other
// process removes it while this one has waybill.lock.
func (t *tx) RenewInstance(i queue.Instance, _ time.Duration) (there, newer bool, err error) {
	values, err := instanceValues(i)
	if err != nil {
		return false, false, err
	}
	_, err = t.exec("UPDATE instance SET handlers = ?, draining = ?, report = ? WHERE id = ?", append(values, id(i.ID))...)
	return true, t.driver.newer.Load(), err
}

// instanceValues returns what heartbeats write.
func instanceValues(i queue.Instance) ([]any, error) {
	report, err := queue.MarshalReport(i.Report)
	return []any{jsonOf(i.Handlers), i.Draining, report}, err
}

// jsonOf returns a list of texts as it is stored; nil is the empty list.
func jsonOf(list []string) string {
	text, _ := json.Marshal(append([]string{}, list...)) // texts always marshal
	return string(text)
}

// Pulse reports that there may be work of every kind, without a statement: searching for it costs no other instance
// anything.
func (d *Driver) Pulse(context.Context, queue.Instance, time.Duration) (queue.Beat, error) {
	return queue.Beat{There: true, Newer: d.newer.Load(), Ready: true, Cancel: true, Now: d.now(),
		Pulse: queue.Pulse{Lost: true, Leads: true}}, nil
}

// DeleteInstance removes a process.
func (t *tx) DeleteInstance(i action.ID) error {
	_, err := t.exec("DELETE FROM instance WHERE id = ?", id(i))
	return err
}

// scanInstance reads the columns of Instances.
func scanInstance(s scanner) (i queue.InstanceRow, err error) {
	var roles, handlers, report string
	if err := s.Scan(ident{&i.ID}, &i.Name, &i.Version, &roles, &handlers, moment{&i.StartedAt}, &i.Draining, &report); err != nil {
		return i, err
	}
	if err := errors.Join(json.Unmarshal([]byte(roles), &i.Roles), json.Unmarshal([]byte(handlers), &i.Handlers)); err != nil {
		return i, fmt.Errorf("read instance %s: %w", i.Name, err)
	}
	i.Report, err = queue.UnmarshalReport(report)
	return i, err
}

// Instances reads all that have a row.
func (t *tx) Instances() ([]queue.InstanceRow, error) {
	return rows(t, scanInstance, "SELECT id, name, version, roles, handlers, started_at, draining, report FROM instance ORDER BY id")
}

// BuryInstances removes every instance but self. The process that calls it has waybill.lock, so all
// others are dead.
func (t *tx) BuryInstances(self action.ID, _ []action.ID) (map[action.ID]queue.LossReason, error) {
	_, err := t.exec("DELETE FROM instance WHERE id IS NOT ?", id(self)) // NULL: every instance
	return nil, err
}
