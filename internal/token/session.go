package token

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Session is a browser that is logged in.
type Session struct {
	Hash      [32]byte // HMAC-SHA-256 of the secret in the browser's cookie; its key comes from the home's token
	By        string   // name under which changes of the session are recorded
	Token     []byte   // SHA-256 of the stored token that opened the session; nil: the home's token
	ExpiresAt time.Time
}

// StartSession stores a session and deletes the expired sessions.
func (t *Tokens) StartSession(ctx context.Context, s Session) error {
	return t.write(ctx, "start a session", func(tx txn) error {
		if err := tx.DeleteExpiredSessions(); err != nil {
			return err
		}
		return tx.InsertSession(s)
	})
}

// SessionByHash returns the session with the hash of its secret. It returns fault.NotFound if the session is not stored
// or has expired, by the database's clock.
func (t *Tokens) SessionByHash(ctx context.Context, hash [32]byte) (session Session, err error) {
	err = t.read(ctx, "read session", func(tx txn) error {
		found, err := tx.Sessions(hash)
		if err != nil {
			return err
		}
		if len(found) == 0 || !tx.Now().Before(found[0].ExpiresAt) {
			return fault.New(fault.NotFound, "the session has ended")
		}
		session = found[0]
		return nil
	})
	return session, err
}

// EndSession deletes a session. It returns nil if the session has already ended.
func (t *Tokens) EndSession(ctx context.Context, hash [32]byte) error {
	return t.write(ctx, "end a session", func(tx txn) error {
		tx.Touch(store.TopicAccess)
		return tx.DeleteSession(hash)
	})
}
