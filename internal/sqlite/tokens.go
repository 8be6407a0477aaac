package sqlite

import (
	"encoding/json"
	"fmt"

	"github.com/waybill-dev/waybill/internal/token"
)

// Rows of package token: access tokens and browser sessions. Only hashes of secrets are stored.

// InsertToken stores an access token.
func (t *tx) InsertToken(token token.Token) error {
	scopes, err := json.Marshal(token.Scopes)
	if err != nil {
		return fmt.Errorf("write token %s: %w", token.Name, err)
	}
	_, err = t.exec(`INSERT INTO token (hash, name, scopes, created_at, expires_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?)`,
		token.Hash[:], token.Name, string(scopes), micros(token.CreatedAt), micros(token.ExpiresAt), micros(token.RevokedAt))
	return err
}

// scanToken reads the columns of Tokens.
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

// Tokens reads one by hash, or all when hash is nil.
func (t *tx) Tokens(hash []byte) ([]token.Token, error) {
	query := `SELECT hash, name, scopes, created_at, expires_at, revoked_at FROM token`
	if hash != nil {
		return rows(t, scanToken, query+` WHERE hash = ?`, hash)
	}
	return rows(t, scanToken, query+` ORDER BY name`)
}

// RevokeToken revokes the tokens of a name and returns how many there are. The time of an earlier
// revocation is kept.
func (t *tx) RevokeToken(name string) (int, error) {
	return t.exec(`UPDATE token SET revoked_at = coalesce(revoked_at, ?) WHERE name = ?`, micros(t.now), name)
}

// InsertSession stores a browser's session.
func (t *tx) InsertSession(s token.Session) error {
	_, err := t.exec(`INSERT INTO session (hash, started_by, token, expires_at) VALUES (?, ?, ?, ?)`, s.Hash[:], s.By,
		s.Token, micros(s.ExpiresAt))
	return err
}

// scanSession reads the columns of Sessions.
func scanSession(row scanner) (s token.Session, err error) {
	var hash []byte
	err = row.Scan(&hash, &s.By, &s.Token, moment{&s.ExpiresAt})
	copy(s.Hash[:], hash)
	return s, err
}

// Sessions reads the session of a hash, if there is one.
func (t *tx) Sessions(hash [32]byte) ([]token.Session, error) {
	return rows(t, scanSession, `SELECT hash, started_by, token, expires_at FROM session WHERE hash = ?`, hash[:])
}

// DeleteSession ends a session.
func (t *tx) DeleteSession(hash [32]byte) error {
	_, err := t.exec(`DELETE FROM session WHERE hash = ?`, hash[:])
	return err
}

// DeleteExpiredSessions deletes the sessions that have expired.
func (t *tx) DeleteExpiredSessions() error {
	_, err := t.exec(`DELETE FROM session WHERE expires_at <= ?`, micros(t.now))
	return err
}
