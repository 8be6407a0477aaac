package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/promotions"
)

// PutView stores the view of a pipeline instead of its former one; "" deletes it.
func (t *tx) PutView(pipeline, document string) error {
	if document == "" {
		return t.do(`DELETE FROM promotion_view WHERE pipeline = $1`, pipeline)
	}
	return t.do(`INSERT INTO promotion_view (pipeline, document) VALUES ($1, $2)
		ON CONFLICT (pipeline) DO UPDATE SET document = excluded.document`, pipeline, document)
}

// Views reads views by query, by name.
func (t *tx) Views(q promotions.ViewQuery) ([]string, error) {
	var f filter
	f.when(q.Name != "", "pipeline = ?", q.Name)
	f.when(q.After != "", "pipeline > ?", q.After)
	return query(t, func(row pgx.Row) (text string, err error) {
		err = row.Scan(&text)
		return text, err
	}, `SELECT document FROM promotion_view`+f.where()+` ORDER BY pipeline`+f.limit(q.Limit), f.arguments...)
}
