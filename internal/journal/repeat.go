package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// RepeatAge is the time for which a repeated request with a key gets the deployment that the first one made.
const RepeatAge = 24 * time.Hour

// repeatPage is the number of deployments read at a time in search of a repeated request.
const repeatPage = 100

// once returns the key of its request in the note of a deployment; "" without a key. The key itself stays with the
// one who sent it.
func (want NewDeployment) once() string {
	if want.Key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(want.By + "\x00" + want.Key))
	return hex.EncodeToString(sum[:])
}

// repeated returns the deployment that the same request has made within RepeatAge. It needs the lock of the head, so
// that of two requests at a time the second finds the deployment that the first has made. The error is
// fault.IdempotencyKeyReused if the key came with another request.
func (t *txn) repeated(revision int64, want NewDeployment) (d Deployment, found bool, err error) {
	once := want.once()
	if once == "" {
		return d, false, nil
	}
	for q := (DeploymentQuery{Pipeline: want.Pipeline, Limit: repeatPage}); ; {
		some, err := t.Deployments(q)
		if err != nil || len(some) == 0 {
			return d, false, err
		}
		for _, d := range some {
			if t.Now().Sub(d.CreatedAt) >= RepeatAge {
				return d, false, nil
			}
			if d.By != want.By {
				continue
			}
			rows, err := t.Entries(EntryQuery{Pipeline: want.Pipeline, Deployment: d.Number, Class: pipeline.Note, Limit: 1})
			if err != nil {
				return d, false, err
			}
			var made struct{ Once, Scope, Until string }
			if len(rows) == 0 || json.Unmarshal(rows[0].Detail, &made) != nil || made.Once != once {
				continue
			}
			if d.Revision != revision || made.Scope != want.Target || made.Until != want.Until {
				return d, false, fault.New(fault.IdempotencyKeyReused, "the Idempotency-Key %q was sent with another request, which made %s#%d",
					want.Key, d.Pipeline, d.Number).WithHint("send a new key with a new request")
			}
			return d, true, nil
		}
		q.Before = some[len(some)-1].Number
	}
}
