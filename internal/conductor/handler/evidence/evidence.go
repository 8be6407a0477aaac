// Package evidence keeps the evidence of an attempt: requests, answers, output of commands. It is written before the
// attempt's end is recorded, under a key that retention can drop by weeks.
package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/obs"
)

// patience bounds the storing of evidence. The attempt's own context may have ended by then.
const patience = 10 * time.Second

// Archive stores evidence. Safe for concurrent use.
type Archive struct {
	Blobs blob.Putter
	Log   *slog.Logger // nil: nothing is logged
}

// Missing begins the reference of an exchange that could not be stored.
const Missing = "missing:"

// Exchange returns the key of the evidence of one attempt of an action.
func Exchange(id action.ID, attempt int) string {
	return blob.ActionKey(id, fmt.Sprintf("exchange-%d.json", attempt))
}

// Exchange stores the evidence of one attempt as JSON, and returns the key; with Missing before it when that did not
// work: the attempt's end is worth more than its evidence, so the fault is logged and the end goes ahead.
func (a Archive) Exchange(ctx context.Context, id action.ID, attempt int, seen any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	key := Exchange(id, attempt)
	err := encoder.Encode(seen)
	if err == nil {
		err = a.Put(ctx, key, &b)
	}
	if err != nil {
		if a.Log != nil {
			a.Log.Warn("exchange not archived", obs.KeyActionID, id.String(), obs.KeyAttempt, attempt, obs.KeyError, err.Error())
		}
		return Missing + key
	}
	return key
}

// Put stores something else beside an action's exchanges.
func (a Archive) Put(ctx context.Context, key string, r io.Reader) error {
	ctx, stop := context.WithTimeoutCause(context.WithoutCancel(ctx), patience, fmt.Errorf("the blob store took longer than %s", patience))
	defer stop()
	_, _, _, err := a.Blobs.Put(ctx, key, r)
	return err
}
