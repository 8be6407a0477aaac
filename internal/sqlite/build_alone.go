package sqlite

import (
	"encoding/json"
	"errors"

	"github.com/waybill-dev/waybill/internal/builds"
)

// Rows of builds without a deployment.

// ResolveBuild stores the source of a build.
func (t *tx) ResolveBuild(id builds.ID, branch, commit string) error {
	_, err := t.exec(`UPDATE build SET branch = ?, "commit" = ? WHERE build_id = ?`, branch, commit, id)
	return err
}

// PutPasswords stores the passwords of a build.
func (t *tx) PutPasswords(id builds.ID, p builds.Passwords) error {
	names, err := list(p.Names)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO build_password (build_id, names, sealed) VALUES (?1, ?2, ?3)
		ON CONFLICT (build_id) DO UPDATE SET names = ?2, sealed = ?3`, id, names, p.Sealed)
	return err
}

// EraseInputs stores other inputs of a build. After the commit no page of the file has the former ones, and the write-ahead log has them
// no longer than a reader needs it.
func (t *tx) EraseInputs(id builds.ID, left map[string]string) error {
	text, err := json.Marshal(left)
	if err != nil {
		return err
	}
	// fast, as the connection has it, overwrites no page that becomes free, and long inputs have such.
	if err := drained(t.ctx, t.conn, "PRAGMA secure_delete = on"); err != nil {
		return t.driver.explain("erase inputs", err)
	}
	t.erases = true
	_, err = t.exec(`UPDATE build SET inputs = ? WHERE build_id = ?`, string(text), id)
	return errors.Join(err, t.driver.explain("erase inputs", drained(t.ctx, t.conn, "PRAGMA secure_delete = fast")))
}

// ForgetPasswords deletes the values of a build's passwords.
func (t *tx) ForgetPasswords(id builds.ID) error {
	_, err := t.exec(`UPDATE build_password SET sealed = NULL WHERE build_id = ? AND sealed IS NOT NULL`, id)
	return err
}

// BuildPasswords reads the passwords of those of the builds that have any.
func (t *tx) BuildPasswords(ids []builds.ID) (map[builds.ID]builds.Passwords, error) {
	wanted, err := list(ids)
	if err != nil {
		return nil, err
	}
	found := map[builds.ID]builds.Passwords{}
	_, err = rows(t, func(s scanner) (id builds.ID, err error) {
		var names string
		var p builds.Passwords
		if err = s.Scan(&id, &names, &p.Sealed); err == nil {
			err = json.Unmarshal([]byte(names), &p.Names)
		}
		found[id] = p
		return id, err
	}, `SELECT build_id, names, sealed FROM build_password WHERE build_id IN (SELECT value FROM json_each(?))`, wanted)
	return found, err
}
