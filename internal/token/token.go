// Package token keeps access tokens and browser sessions in the database of the log. Secrets are never stored, only their
// hashes.
package token

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Driver is a database that keeps tokens.
type Driver interface {
	// TokenRows returns the rows of tokens in a transaction of the driver.
	TokenRows(store.Rows) Rows
}

// Rows reads and writes the access tokens and the sessions in one transaction.
type Rows interface {
	InsertToken(t Token) error
	// Tokens returns the token with the hash, or all tokens if hash is nil.
	Tokens(hash []byte) ([]Token, error)
	RevokeToken(name string) (int, error)

	InsertSession(s Session) error
	// Sessions returns the session with the hash, or an empty slice if none is stored.
	Sessions(hash [32]byte) ([]Session, error)
	DeleteSession(hash [32]byte) error
	DeleteExpiredSessions() error
}

// Tokens are the access tokens and sessions in one database. Safe for concurrent use.
type Tokens struct {
	db     *store.DB
	driver Driver
}

// New returns the tokens in a database.
func New(db *store.DB, driver Driver) *Tokens { return &Tokens{db: db, driver: driver} }

// ForReaders returns the same tokens for requests of people and programs, whose reads must not delay other work.
func (t *Tokens) ForReaders() *Tokens {
	return &Tokens{db: t.db.For(store.ForReaders), driver: t.driver}
}

// txn is a transaction together with its token rows.
type txn struct {
	*store.Tx
	Rows
}

func (t *Tokens) write(ctx context.Context, what string, fn func(txn) error) error {
	return t.db.Write(ctx, what, func(tx *store.Tx) error { return fn(txn{tx, t.driver.TokenRows(tx.Rows)}) })
}

func (t *Tokens) read(ctx context.Context, what string, fn func(txn) error) error {
	return t.db.Read(ctx, what, func(tx *store.Tx) error { return fn(txn{tx, t.driver.TokenRows(tx.Rows)}) })
}

// Token is an access token. Only the hash of its secret is kept.
type Token struct {
	Hash      [32]byte  `json:"-"` // SHA-256 of the secret
	Name      string    `json:"name"`
	Scopes    []string  `json:"scopes"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // zero: never
	RevokedAt time.Time `json:"revokedAt,omitzero"`
}

// Valid reports whether the token is neither revoked nor expired at now.
func (t Token) Valid(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// CreateToken stores a token. It returns fault.Conflict if a stored token has the same name, even a revoked one.
func (t *Tokens) CreateToken(ctx context.Context, token Token) error {
	return t.write(ctx, "create token "+token.Name, func(tx txn) error {
		known, err := tx.Tokens(nil)
		if err != nil {
			return err
		}
		for _, k := range known {
			if k.Name == token.Name {
				return fault.New(fault.Conflict, "token %q exists already", token.Name)
			}
		}
		if token.CreatedAt.IsZero() {
			token.CreatedAt = tx.Now()
		}
		return tx.InsertToken(token)
	})
}

// TokenByHash returns the token with the SHA-256 of its secret, or fault.NotFound.
// The token may be revoked or expired: the caller checks Token.Valid.
func (t *Tokens) TokenByHash(ctx context.Context, hash [32]byte) (token Token, err error) {
	err = t.read(ctx, "read token", func(tx txn) error {
		found, err := tx.Tokens(hash[:])
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fault.New(fault.NotFound, "token not found")
		}
		token = found[0]
		return nil
	})
	return token, err
}

// ListTokens returns all tokens, ordered by name.
func (t *Tokens) ListTokens(ctx context.Context) (tokens []Token, err error) {
	err = t.read(ctx, "read tokens", func(tx txn) error {
		tokens, err = tx.Tokens(nil)
		return err
	})
	return tokens, err
}

// RevokeToken revokes the token with the name, or returns fault.NotFound.
func (t *Tokens) RevokeToken(ctx context.Context, name string) error {
	return t.write(ctx, "revoke token "+name, func(tx txn) error {
		n, err := tx.RevokeToken(name)
		if err == nil && n == 0 {
			err = fault.New(fault.NotFound, "token %q not found", name)
		}
		tx.Touch(store.TopicAccess)
		return err
	})
}
