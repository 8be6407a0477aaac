package sqlite

import (
	"strings"

	"github.com/waybill-dev/waybill/internal/promotions"
)

// PutView stores the view of a pipeline instead of its former one; "" deletes it.
func (t *tx) PutView(pipeline, document string) error {
	if document == "" {
		_, err := t.exec(`DELETE FROM promotion_view WHERE pipeline = ?`, pipeline)
		return err
	}
	_, err := t.exec(`INSERT INTO promotion_view (pipeline, document) VALUES (?, ?)
		ON CONFLICT (pipeline) DO UPDATE SET document = excluded.document`, pipeline, document)
	return err
}

// Views reads views by query, by name.
func (t *tx) Views(q promotions.ViewQuery) ([]string, error) {
	where, args := []string{`pipeline > ?`}, []any{q.After}
	if q.Name != "" {
		where, args = append(where, `pipeline = ?`), append(args, q.Name)
	}
	return rows(t, func(s scanner) (text string, err error) {
		err = s.Scan(&text)
		return text, err
	}, `SELECT document FROM promotion_view WHERE `+strings.Join(where, ` AND `)+` ORDER BY pipeline LIMIT ?`,
		append(args, limit(q.Limit))...)
}
