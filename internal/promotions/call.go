package promotions

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Call is a request of another system for one more look. It is never trusted: the promoter reads the state itself.
type Call struct {
	Host   string    // kind of the Git host that has called; "": the name is a pipeline's
	Name   string    // owner/name of a repository in lower case, or a pipeline such as apps:podinfo
	Number int64     // number of the proposal; 0: all of the repository
	At     time.Time // time of the newest call
}

// Bounds of calls.
const (
	callAge     = 2 * time.Minute // calls are kept for it: a promoter that runs has seen them by then
	maxCallName = 1024            // bytes
)

// Call stores a call, and wakes the promoter. A call that is repeated is one row with a new time.
func (p *Promotions) Call(ctx context.Context, c Call) error {
	if !store.IsText(c.Host) || !store.IsText(c.Name) || c.Name == "" || len(c.Host) > maxCallName || len(c.Name) > maxCallName ||
		c.Number < 0 {
		return fault.New(fault.Invalid, "a call names a repository or a pipeline in at most %d bytes", maxCallName)
	}
	return p.write(ctx, "store a call about "+c.Name, func(t *txn) error {
		t.Touch(store.TopicPromotion)
		return t.PutCall(c, t.Now().Add(-callAge))
	})
}

// Calls reads the calls of the last minutes.
func (p *Promotions) Calls(ctx context.Context) (calls []Call, err error) {
	err = p.read(ctx, "read calls", func(t *txn) error {
		calls, err = t.Rows.Calls()
		return err
	})
	return calls, err
}

// Nonce names one use of a signing key. It is unique, and kept for as long as the signature could be accepted.
type Nonce struct{ Key, Value string }

// nonceAge is the time for which a nonce is kept: twice the skew, since the signature may have been made for a later time.
const nonceAge = 2 * skew

// Signature is the use of a signature: the nonce with its key, and the time that was signed.
type Signature struct {
	Nonce

	At time.Time
}

// skew is the time between a signature and its use that is accepted, either way, by the clock of the database: it is the same for
// all processes.
const skew = 5 * time.Minute

// UseSignature records that a signature is used. Errors: ErrReplayed if it was used before, ErrStale if it is too old or too new.
func (p *Promotions) UseSignature(ctx context.Context, s Signature) error {
	if !store.IsText(s.Key) || !store.IsText(s.Value) || len(s.Key)+len(s.Value) > maxText {
		return fault.New(fault.Invalid, "the signature's nonce is not valid")
	}
	return p.write(ctx, "use a signature", func(t *txn) error {
		if age := t.Now().Sub(s.At); age > skew || age < -skew {
			return ErrStale
		}
		if fresh, err := t.UseNonce(s.Key, s.Value, t.Now().Add(-nonceAge)); err != nil || !fresh {
			return orReplayed(err)
		}
		return nil
	})
}

func orReplayed(err error) error {
	if err != nil {
		return err
	}
	return ErrReplayed
}
