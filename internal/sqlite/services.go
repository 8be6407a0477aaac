package sqlite

import (
	"database/sql"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/services"
)

// Rows of package services: service instances and bindings. Texts are compared byte by byte, which is the default of
// this database.

// serviceColumns are the columns of a service instance, in the order of scanService.
const serviceColumns = `id, owner, operation, verb, status, asked, applied, gone_at`

// scanService reads serviceColumns.
func scanService(s scanner) (i services.Instance, err error) {
	var status sql.NullInt64
	var asked, applied sql.NullString
	err = s.Scan(&i.ID, &i.User, ident{&i.Operation}, &i.Verb, &status, &asked, &applied, moment{&i.GoneAt})
	i.End, i.Asked = action.Status(status.Int64), []byte(asked.String)
	if applied.Valid {
		i.Applied = []byte(applied.String)
	}
	return i, err
}

// LockServiceInstances reads those that exist. It needs no lock: the transaction is the only one that writes.
func (t *tx) LockServiceInstances(ids []string) ([]services.Instance, error) {
	wanted, err := list(ids)
	if err != nil {
		return nil, err
	}
	return rows(t, scanService, `SELECT `+serviceColumns+` FROM service_instance
		WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id`, wanted)
}

// InsertServiceInstance stores a new row.
func (t *tx) InsertServiceInstance(i services.Instance) error {
	_, err := t.exec(`INSERT INTO service_instance (id, owner, operation, verb, status, asked, applied, gone_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, i.ID, i.User, id(i.Operation), string(i.Verb), serviceEnd(i), document(i.Asked),
		document(i.Applied), micros(i.GoneAt))
	return err
}

// serviceEnd returns how the operation of a service instance ended, as it is stored; NULL while it is live.
func serviceEnd(i services.Instance) any {
	if i.End == 0 {
		return nil
	}
	return int(i.End)
}

// UpdateServiceInstance writes all columns of a row.
func (t *tx) UpdateServiceInstance(i services.Instance) error {
	_, err := t.exec(`UPDATE service_instance SET owner = ?, operation = ?, verb = ?, status = ?, asked = ?, applied = ?,
		gone_at = ? WHERE id = ?`, i.User, id(i.Operation), string(i.Verb), serviceEnd(i), document(i.Asked),
		document(i.Applied), micros(i.GoneAt), i.ID)
	return err
}

// ServiceInstances reads by query, in the order of ids.
func (t *tx) ServiceInstances(q services.Query) ([]services.Instance, error) {
	where, args := []string{`id > ?`}, []any{q.After}
	if q.IDs != nil {
		wanted, err := list(q.IDs)
		if err != nil {
			return nil, err
		}
		where, args = append(where, `id IN (SELECT value FROM json_each(?))`), append(args, wanted)
	}
	return rows(t, scanService, `SELECT `+serviceColumns+` FROM service_instance WHERE `+strings.Join(where, ` AND `)+
		` ORDER BY id LIMIT ? + 0`, append(args, limit(q.Limit))...)
}

// ForgetServiceInstances deletes rows of service instances that were gone before a moment, the oldest first, and
// returns how many. Their bindings are deleted with them.
func (t *tx) ForgetServiceInstances(before time.Time, limit int) (int, error) {
	return t.exec(`DELETE FROM service_instance WHERE rowid IN (SELECT rowid FROM service_instance WHERE gone_at < ?
		ORDER BY gone_at LIMIT ?)`, micros(before), limit)
}

// PutServiceBinding stores a binding instead of its former row.
func (t *tx) PutServiceBinding(b services.Binding) error {
	_, err := t.exec(`INSERT INTO service_binding (instance, id, document) VALUES (?, ?, ?)
		ON CONFLICT (instance, id) DO UPDATE SET document = excluded.document`, b.Instance, b.ID, document(b.Document))
	return err
}

// ServiceBinding reads a binding.
func (t *tx) ServiceBinding(instance, id string) (services.Binding, bool, error) {
	return row(t, func(s scanner) (b services.Binding, err error) {
		var text string
		err = s.Scan(&b.Instance, &b.ID, &text)
		b.Document = []byte(text)
		return b, err
	}, `SELECT instance, id, document FROM service_binding WHERE instance = ? AND id = ?`, instance, id)
}

// DeleteServiceBindings deletes a binding of a service instance; every one if the id is "".
func (t *tx) DeleteServiceBindings(instance, id string) error {
	if id == "" {
		_, err := t.exec(`DELETE FROM service_binding WHERE instance = ?`, instance)
		return err
	}
	_, err := t.exec(`DELETE FROM service_binding WHERE instance = ? AND id = ?`, instance, id)
	return err
}
