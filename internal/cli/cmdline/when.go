package cmdline

import (
	"time"

	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
)

// ReadAt reads a flag's value: a time, or a duration from now. It returns the zero time for "".
func ReadAt(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ahead, err := definition.ParseDuration(text)
	if err != nil || ahead < 0 {
		return time.Time{}, fault.New(fault.Invalid,
			"%s %s: want a time such as 2026-12-01T03:00:00Z, or a duration such as 2h or 7d", flag, text)
	}
	return now.Add(ahead), nil
}

// ReadPast reads the value of a flag with service.ParsePast.
func ReadPast(flag, text string, now time.Time) (time.Time, error) {
	at, err := service.ParsePast(text, now)
	if err != nil {
		return at, fault.New(fault.Invalid, "%s %w", flag, err)
	}
	return at, nil
}
