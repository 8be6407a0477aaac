package service

import (
	"time"

	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
)

// ParsePast parses a time, or a duration before now; "" is the zero time.
func ParsePast(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := definition.ParseDuration(text)
	if err != nil || ago < 0 {
		return time.Time{}, fault.New(fault.Invalid, "%q: want a time such as 2026-12-01T03:00:00Z, or how long ago, such as 2h or 7d", text)
	}
	return now.Add(-ago).Truncate(time.Second), nil
}
