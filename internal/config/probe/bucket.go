package probe

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
)

// bucket lists a folder of the blob store.
func bucket(ctx context.Context, url string) error {
	store, err := blob.Open(ctx, url)
	if err != nil {
		return absent(err)
	}
	_, err = store.Folders(ctx, "action")
	if hint := fault.HintOf(err); hint != "" { // the store answered, and the hint is what must change
		return notThere{fmt.Errorf("%w; %s", err, hint)}
	}
	return err
}
