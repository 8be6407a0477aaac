package store

import "time"

// Ids, leases and due times are by the database's clock. A process's own clock may be wrong by
// hours, so a time that crosses between the two is converted.

// slack is the greatest difference between two clocks that count as equal. Reading one takes place
// a moment after reading the other, so they never agree exactly.
const slack = time.Second

// Skew returns the database's clock less this process's, both read at one moment; 0 when they agree
// within slack.
func Skew(database, local time.Time) time.Duration {
	if d := database.Sub(local); d.Abs() > slack {
		return d
	}
	return 0
}

// Corrected returns a time of this process's clock as the database's clock shows it. The zero time
// stays zero.
func (t *Tx) Corrected(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(t.skew())
}

// Local returns a time of the database's clock as this process's clock shows it. The zero time stays zero.
func (t *Tx) Local(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(-t.skew())
}

// skew returns the database's clock less this process's.
//
// The transaction's time was taken somewhere between began and the present, so there are two
// estimates. The smaller one is right or nearer to right: a transaction that began
// slowly must not look like a wrong clock.
func (t *Tx) skew() time.Duration {
	now := t.Now()
	before, after := Skew(now, t.began), Skew(now, time.Now()) // Now was read in between
	if after.Abs() < before.Abs() {
		return after
	}
	return before
}
