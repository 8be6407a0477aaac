package promotions

import (
	"context"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// Opinion returns the newest opinion that an approval or a rejection repeats. known is false if it repeats none.
func (p *Promotions) Opinion(ctx context.Context, pipeline string, i promotion.Intent) (first promotion.Intent, known bool, err error) {
	err = p.read(ctx, "read opinions about "+pipeline, func(t *txn) error {
		known = false
		heads, err := t.PromotionHeads(HeadQuery{Name: pipeline})
		if err != nil || len(heads) == 0 {
			return err
		}
		given, err := t.Intents(heads[0].ID, []int64{i.Run}, newestIntents)
		if err == nil {
			first, known = repeated(given, i, t.Now())
		}
		return err
	})
	return first, known, err
}
