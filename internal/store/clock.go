package store

import "time"

// The database's clock counts: ids, leases and due times are by it. A process's own clock may be wrong by hours, so a
// time that one of them gave is changed before the other one reads it.

// slack is how far apart two clocks may be that are taken for equal: one was read a moment after the other.
const slack = time.Second

// Skew returns the database's clock less this process's, both read at one moment; 0 when they agree within slack.
func Skew(database, local time.Time) time.Duration {
	if d := database.Sub(local); d.Abs() > slack {
		return d
	}
	return 0
}

// Corrected returns a time that this process's clock gave by the database's.
func (t *Tx) Corrected(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	now := t.Now()
	before, after := Skew(now, t.began), Skew(now, time.Now()) // the transaction began in between
	if after.Abs() < before.Abs() {
		return at.Add(after)
	}
	return at.Add(before)
}
