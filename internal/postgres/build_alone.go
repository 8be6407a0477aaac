package postgres

import (
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/builds"
)

// Rows of builds without a deployment.

// ResolveBuild stores the source of a build.
func (t *tx) ResolveBuild(id builds.ID, branch, commit string) error {
	return t.do(`UPDATE build SET branch = $2, "commit" = $3 WHERE build_id = $1`, int64(id), branch, commit)
}

// PutPasswords stores the passwords of a build.
func (t *tx) PutPasswords(id builds.ID, p builds.Passwords) error {
	names, err := json.Marshal(p.Names)
	if err != nil {
		return err
	}
	return t.do(`INSERT INTO build_password (build_id, names, sealed) VALUES ($1, $2, $3)
		ON CONFLICT (build_id) DO UPDATE SET names = excluded.names, sealed = excluded.sealed`, int64(id), string(names), p.Sealed)
}

// EraseInputs stores other inputs of a build. The former ones are in the table's file until it is vacuumed.
func (t *tx) EraseInputs(id builds.ID, left map[string]string) error {
	text, err := json.Marshal(left)
	if err != nil {
		return err
	}
	return t.do(`UPDATE build SET inputs = $2 WHERE build_id = $1`, int64(id), string(text))
}

// ForgetPasswords deletes the values of a build's passwords.
func (t *tx) ForgetPasswords(id builds.ID) error {
	return t.do(`UPDATE build_password SET sealed = NULL WHERE build_id = $1 AND sealed IS NOT NULL`, int64(id))
}

// BuildPasswords reads the passwords of those of the builds that have any.
func (t *tx) BuildPasswords(ids []builds.ID) (map[builds.ID]builds.Passwords, error) {
	found := map[builds.ID]builds.Passwords{}
	_, err := query(t, func(row pgx.Row) (id builds.ID, err error) {
		var names string
		var p builds.Passwords
		if err = row.Scan(&id, &names, &p.Sealed); err == nil {
			err = json.Unmarshal([]byte(names), &p.Names)
		}
		found[id] = p
		return id, err
	}, `SELECT build_id, names, sealed FROM build_password WHERE build_id = ANY ($1)`, numbers(ids))
	return found, err
}
