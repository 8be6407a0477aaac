package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/services"
)

// Rows of package services: service instances and bindings. The columns of ids have the collation "C", so they are
// compared byte by byte.

// serviceColumns are the columns of a service instance, in the order of scanService.
const serviceColumns = `id, owner, operation, verb, status, asked, applied, gone_at`

// scanService reads serviceColumns.
func scanService(row pgx.Row) (i services.Instance, err error) {
	var status pgtype.Int2
	var asked, applied pgtype.Text
	err = row.Scan(&i.ID, &i.User, idOf{&i.Operation}, &i.Verb, &status, &asked, &applied, timeOf{&i.GoneAt})
	i.End, i.Asked = action.Status(status.Int16), []byte(asked.String)
	if applied.Valid {
		i.Applied = []byte(applied.String)
	}
	return i, err
}

// LockServiceInstances locks and reads those that exist, in the order of their ids.
func (t *tx) LockServiceInstances(ids []string) ([]services.Instance, error) {
	return query(t, scanService, `SELECT `+serviceColumns+` FROM service_instance WHERE id = ANY ($1)
		ORDER BY id FOR UPDATE`, filled(ids))
}

// InsertServiceInstance stores a new row. When another transaction has just stored it the transaction runs again, and
// then finds that row (errors.go).
func (t *tx) InsertServiceInstance(i services.Instance) error {
	return t.do(`INSERT INTO service_instance (id, owner, operation, verb, status, asked, applied, gone_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, serviceValues(i)...)
}

// UpdateServiceInstance writes all columns of a row.
func (t *tx) UpdateServiceInstance(i services.Instance) error {
	return t.do(`UPDATE service_instance SET owner = $2, operation = $3, verb = $4, status = $5, asked = $6, applied = $7,
		gone_at = $8 WHERE id = $1`, serviceValues(i)...)
}

// serviceValues returns the values of serviceColumns, as arguments of a statement.
func serviceValues(i services.Instance) []any {
	end := pgtype.Int2{Int16: int16(i.End), Valid: i.End != 0}
	return []any{i.ID, i.User, uuid(i.Operation), string(i.Verb), end, document(i.Asked), document(i.Applied),
		stamp(i.GoneAt)}
}

// ServiceInstances reads by query, in the order of ids.
func (t *tx) ServiceInstances(q services.Query) ([]services.Instance, error) {
	var f filter
	f.when(q.IDs != nil, "id = ANY (?)", q.IDs)
	f.when(q.After != "", "id > ?", q.After)
	return query(t, scanService, `SELECT `+serviceColumns+` FROM service_instance`+f.where()+` ORDER BY id`+
		f.limit(q.Limit), f.arguments...)
}

// ForgetServiceInstances deletes rows of service instances that were gone before a moment, the oldest first, and
// returns how many. Their bindings are deleted with them. A row that another transaction has just provisioned again
// is not gone any more, so the time is compared again.
func (t *tx) ForgetServiceInstances(before time.Time, limit int) (int, error) {
	n, err := t.count(`DELETE FROM service_instance WHERE gone_at < $1 AND id = ANY (ARRAY(SELECT id FROM service_instance
		WHERE gone_at < $1 ORDER BY gone_at LIMIT $2))`, before, limit)
	return int(n), err
}

// PutServiceBinding stores a binding instead of its former row.
func (t *tx) PutServiceBinding(b services.Binding) error {
	return t.do(`INSERT INTO service_binding (instance, id, document) VALUES ($1, $2, $3)
		ON CONFLICT (instance, id) DO UPDATE SET document = excluded.document`, b.Instance, b.ID, document(b.Document))
}

// ServiceBinding reads a binding.
func (t *tx) ServiceBinding(instance, id string) (services.Binding, bool, error) {
	found, err := query(t, func(row pgx.Row) (b services.Binding, err error) {
		var text string
		err = row.Scan(&b.Instance, &b.ID, &text)
		b.Document = []byte(text)
		return b, err
	}, `SELECT instance, id, document FROM service_binding WHERE instance = $1 AND id = $2`, instance, id)
	if err != nil || len(found) == 0 {
		return services.Binding{}, false, err
	}
	return found[0], true, nil
}

// DeleteServiceBindings deletes a binding of a service instance; every one if the id is "".
func (t *tx) DeleteServiceBindings(instance, id string) error {
	if id == "" {
		return t.do(`DELETE FROM service_binding WHERE instance = $1`, instance)
	}
	return t.do(`DELETE FROM service_binding WHERE instance = $1 AND id = $2`, instance, id)
}
