package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/token"
)

// One process runs roles on a file, by waybill.lock. Its rows are for people: nothing depends on them.

func (t *tx) PutInstance(i queue.Instance, _ time.Duration, _ int64) error {
	values, err := instanceValues(i)
	if err != nil {
		return err
	}
	_, err = t.exec("INSERT OR REPLACE INTO instance (handlers, draining, report, id, name, version, roles, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		append(values, id(i.ID), i.Name, i.Version, jsonOf(i.Roles), micros(t.now))...)
	return err
}

func (t *tx) RenewInstance(i queue.Instance, _ time.Duration) (there, newer bool, err error) {
	values, err := instanceValues(i)
	if err != nil {
		return false, false, err
	}
	_, err = t.exec("UPDATE instance SET handlers = ?, draining = ?, report = ? WHERE id = ?", append(values, id(i.ID))...)
	return true, t.driver.newer.Load(), err
}

// instanceValues are what heartbeats write.
func instanceValues(i queue.Instance) ([]any, error) {
	report, err := queue.MarshalReport(i.Report)
	return []any{jsonOf(i.Handlers), i.Draining, report}, err
}

// jsonOf is a list of texts as it is stored.
func jsonOf(list []string) string {
	text, _ := json.Marshal(append([]string{}, list...)) // texts always marshal
	return string(text)
}

// Pulse says that there may be anything: a look costs nobody else.
func (d *Driver) Pulse(context.Context, queue.Instance, time.Duration) (queue.Beat, error) {
	return queue.Beat{There: true, Newer: d.newer.Load(), Ready: true, Cancel: true, Now: now(), Pulse: queue.Pulse{Lost: true, Leads: true}}, nil
}

func (t *tx) DeleteInstance(i action.ID) error {
	_, err := t.exec("DELETE FROM instance WHERE id = ?", id(i))
	return err
}

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

func (t *tx) Instances() ([]queue.InstanceRow, error) {
	return rows(t, scanInstance, "SELECT id, name, version, roles, handlers, started_at, draining, report FROM instance ORDER BY id")
}

func (t *tx) BuryInstances(self action.ID, _ []action.ID) (map[action.ID]queue.LossReason, error) {
	_, err := t.exec("DELETE FROM instance WHERE id IS NOT ?", id(self)) // NULL: every instance
	return nil, err
}

func (t *tx) InsertToken(token token.Token) error {
	scopes, err := json.Marshal(token.Scopes)
	if err != nil {
		return fmt.Errorf("write token %s: %w", token.Name, err)
	}
	_, err = t.exec(`INSERT INTO token (hash, name, scopes, created_at, expires_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?)`,
		token.Hash[:], token.Name, string(scopes), micros(token.CreatedAt), micros(token.ExpiresAt), micros(token.RevokedAt))
	return err
}

func scanToken(s scanner) (k token.Token, err error) {
	var hash []byte
	var scopes string
	if err := s.Scan(&hash, &k.Name, &scopes, moment{&k.CreatedAt}, moment{&k.ExpiresAt}, moment{&k.RevokedAt}); err != nil {
		return k, err
	}
	copy(k.Hash[:], hash)
	if err := json.Unmarshal([]byte(scopes), &k.Scopes); err != nil {
		return k, fmt.Errorf("read token %s: %w", k.Name, err)
	}
	return k, nil
}

func (t *tx) Tokens(hash []byte) ([]token.Token, error) {
	query := `SELECT hash, name, scopes, created_at, expires_at, revoked_at FROM token`
	if hash != nil {
		return rows(t, scanToken, query+` WHERE hash = ?`, hash)
	}
	return rows(t, scanToken, query+` ORDER BY name`)
}

func (t *tx) RevokeToken(name string) (int, error) {
	return t.exec(`UPDATE token SET revoked_at = coalesce(revoked_at, ?) WHERE name = ?`, micros(t.now), name)
}

func (t *tx) InsertSession(s token.Session) error {
	_, err := t.exec(`INSERT INTO session (hash, started_by, token, expires_at) VALUES (?, ?, ?, ?)`, s.Hash[:], s.By, s.Token, micros(s.ExpiresAt))
	return err
}

func scanSession(row scanner) (s token.Session, err error) {
	var hash []byte
	err = row.Scan(&hash, &s.By, &s.Token, moment{&s.ExpiresAt})
	copy(s.Hash[:], hash)
	return s, err
}

func (t *tx) Sessions(hash [32]byte) ([]token.Session, error) {
	return rows(t, scanSession, `SELECT hash, started_by, token, expires_at FROM session WHERE hash = ?`, hash[:])
}

func (t *tx) DeleteSession(hash [32]byte) error {
	_, err := t.exec(`DELETE FROM session WHERE hash = ?`, hash[:])
	return err
}

func (t *tx) DeleteExpiredSessions() error {
	_, err := t.exec(`DELETE FROM session WHERE expires_at <= ?`, micros(t.now))
	return err
}
