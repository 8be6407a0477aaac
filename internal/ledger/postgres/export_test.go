package postgres

import "github.com/jackc/pgx/v5"

// Setting reads a setting of the server as it is inside the transaction.
func (t *tx) Setting(name string) (string, error) {
	found, err := query(t, func(row pgx.Row) (value string, err error) {
		err = row.Scan(&value)
		return value, err
	}, "SELECT current_setting($1)", name)
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// What a claim is, for tests that look at how the server executes it.
const (
	ClaimStatement = claim
	PlanSettings   = planned
	PlanOnce       = onePlan
)
