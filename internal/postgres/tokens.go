package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/token"
)

// Rows of package token: access tokens and browser sessions. Only hashes of secrets are stored.

// InsertToken stores an access token.
func (t *tx) InsertToken(token token.Token) error {
	return t.do("INSERT INTO token (hash, name, scopes, created_at, expires_at, revoked_at) VALUES ($1, $2, $3, $4, $5, $6)",
		token.Hash[:], token.Name, filled(token.Scopes), token.CreatedAt, stamp(token.ExpiresAt), stamp(token.RevokedAt))
}

// Tokens reads one by hash, or all when hash is nil.
func (t *tx) Tokens(hash []byte) ([]token.Token, error) {
	var f filter
	f.when(hash != nil, "hash = ?", hash)
	return query(t, func(row pgx.Row) (token token.Token, err error) {
		var hash []byte
		err = row.Scan(&hash, &token.Name, &token.Scopes, timeOf{&token.CreatedAt}, timeOf{&token.ExpiresAt}, timeOf{&token.RevokedAt})
		copy(token.Hash[:], hash)
		return token, err
	}, "SELECT hash, name, scopes, created_at, expires_at, revoked_at FROM token"+f.where()+" ORDER BY name, created_at", f.arguments...)
}

// RevokeToken revokes the tokens of a name and returns how many there are. The time of an earlier
// revocation is kept.
func (t *tx) RevokeToken(name string) (int, error) {
	revoked, err := t.count("UPDATE token SET revoked_at = coalesce(revoked_at, now()) WHERE name = $1", name)
	return int(revoked), err
}

// InsertSession stores a browser's session.
func (t *tx) InsertSession(s token.Session) error {
	return t.do("INSERT INTO session (hash, started_by, token, expires_at) VALUES ($1, $2, $3, $4)", s.Hash[:], s.By, s.Token, s.ExpiresAt)
}

// Sessions reads the session of a hash, if there is one.
func (t *tx) Sessions(hash [32]byte) ([]token.Session, error) {
	return query(t, func(row pgx.Row) (s token.Session, err error) {
		var hash []byte
		err = row.Scan(&hash, &s.By, &s.Token, timeOf{&s.ExpiresAt})
		copy(s.Hash[:], hash)
		return s, err
	}, "SELECT hash, started_by, token, expires_at FROM session WHERE hash = $1", hash[:])
}

// DeleteSession ends a session.
func (t *tx) DeleteSession(hash [32]byte) error {
	return t.do("DELETE FROM session WHERE hash = $1", hash[:])
}

// DeleteExpiredSessions deletes the sessions that have expired.
func (t *tx) DeleteExpiredSessions() error {
	return t.do("DELETE FROM session WHERE expires_at <= now()")
}
