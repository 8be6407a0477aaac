package ledger

import (
	"context"

	"github.com/waybill-dev/waybill/internal/fault"
)

// CreateToken stores a token; a name that is taken is fault.Conflict.
func (l *Ledger) CreateToken(ctx context.Context, token Token) error {
	return l.write(ctx, "create token "+token.Name, func(t *txn) error {
		known, err := t.Tokens(nil)
		if err != nil {
			return err
		}
		for _, k := range known {
			if k.Name == token.Name {
				return fault.New(fault.Conflict, "there is a token named %q already", token.Name)
			}
		}
		if token.CreatedAt.IsZero() {
			token.CreatedAt = t.Now()
		}
		return t.InsertToken(token)
	})
}

// TokenByHash finds a token by the SHA-256 of its secret; fault.NotFound when there is none.
// Whether it is still good is Token.Valid's to say.
func (l *Ledger) TokenByHash(ctx context.Context, hash [32]byte) (token Token, err error) {
	err = l.read(ctx, "read token", func(tx Tx) error {
		found, err := tx.Tokens(hash[:])
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fault.New(fault.NotFound, "there is no such token")
		}
		token = found[0]
		return nil
	})
	return token, err
}

// ListTokens lists all tokens, by name.
func (l *Ledger) ListTokens(ctx context.Context) (tokens []Token, err error) {
	err = l.read(ctx, "read tokens", func(tx Tx) error {
		tokens, err = tx.Tokens(nil)
		return err
	})
	return tokens, err
}

// RevokeToken makes a token worthless from now on; fault.NotFound when there is none of that name.
func (l *Ledger) RevokeToken(ctx context.Context, name string) error {
	return l.write(ctx, "revoke token "+name, func(t *txn) error {
		n, err := t.Tx.RevokeToken(name)
		if err == nil && n == 0 {
			err = fault.New(fault.NotFound, "there is no token named %q", name)
		}
		t.touch(TopicAccess)
		return err
	})
}
