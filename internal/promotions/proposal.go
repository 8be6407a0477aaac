package promotions

import (
	"context"
	"reflect"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// SaveProposals stores proposals as they were observed, and returns the head. It writes nothing that is stored already. The
// error is fault.NotFound if the pipeline is not the one with the UID.
func (p *Promotions) SaveProposals(ctx context.Context, name, uid string, seen map[promotion.EnvName]promotion.Proposal) (head int64, err error) {
	err = p.write(ctx, "store proposals of "+name, func(t *txn) error {
		if err := t.lock([]string{name}, nil); err != nil {
			return err
		}
		h := t.of(name, uid)
		if h == nil {
			return notFound(name)
		}
		stored, err := t.Proposals(h.ID)
		if err != nil {
			return err
		}
		for env, one := range seen {
			one = asStored(one)
			if reflect.DeepEqual(stored[env], one) {
				continue
			}
			t.next(h)
			if err := t.PutProposal(h.ID, env, one); err != nil {
				return err
			}
		}
		head = h.Seq
		return nil
	})
	return head, err
}

// asStored returns a proposal as it is read again: in UTC, with texts cut to their bounds.
func asStored(p promotion.Proposal) promotion.Proposal {
	p.At = p.At.Round(0).UTC()
	p.By, p.URL = clean(p.By), clean(p.URL)
	if len(p.FailedChecks) == 0 {
		p.FailedChecks = nil
	}
	return p
}
