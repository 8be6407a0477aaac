package token

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Session is a browser that is logged in.
type Session struct {
	Hash      [32]byte // of the secret in its cookie
	By        string   // the name that its changes are recorded under
	Token     []byte   // SHA-256 of the stored token that it was opened with; nil: the home's
	ExpiresAt time.Time
}

// StartSession stores a session and deletes those that have expired.
func (t *Tokens) StartSession(ctx context.Context, s Session) error {
	return t.write(ctx, "start a session", func(tx txn) error {
		if err := tx.DeleteExpiredSessions(); err != nil {
			return err
		}
		return tx.InsertSession(s)
	})
}

// SessionByHash finds a session by the hash of its secret; fault.NotFound when there is none, or when it has expired.
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

// EndSession deletes a session. It returns nil for one that has ended already.
func (t *Tokens) EndSession(ctx context.Context, hash [32]byte) error {
	return t.write(ctx, "end a session", func(tx txn) error {
		tx.Touch(store.TopicAccess)
		return tx.DeleteSession(hash)
	})
}
