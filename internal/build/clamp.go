package build

import "time"

// ClampTime returns a time in UTC, changed to the nearest one whose year there has four digits: no other can be written as JSON.
func ClampTime(at time.Time) time.Time {
	at = at.UTC()
	switch year := at.Year(); {
	case year > 9999:
		return time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
	case year < 0:
		return time.Time{}
	}
	return at
}
