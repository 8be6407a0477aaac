package ledger

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Session is a browser that is logged in.
type Session struct {
	Hash      [32]byte // of the secret in its cookie
	By        string   // the name that its changes are recorded under
	Token     []byte   // SHA-256 of the stored token that it was opened with; nil: the home's
	ExpiresAt time.Time
}

// StartSession stores a session and deletes those that have expired.
func (l *Ledger) StartSession(ctx context.Context, s Session) error {
	return l.write(ctx, "start a session", func(t *txn) error {
		if err := t.DeleteExpiredSessions(); err != nil {
			return err
		}
		return t.InsertSession(s)
	})
}

// SessionByHash finds a session by the hash of its secret; fault.NotFound when there is none, or when it has expired.
func (l *Ledger) SessionByHash(ctx context.Context, hash [32]byte) (session Session, err error) {
	err = l.read(ctx, "read session", func(tx Tx) error {
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
func (l *Ledger) EndSession(ctx context.Context, hash [32]byte) error {
	return l.write(ctx, "end a session", func(t *txn) error {
		t.touch(TopicAccess)
		return t.DeleteSession(hash)
	})
}
