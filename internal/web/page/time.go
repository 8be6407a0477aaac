package page

import (
	"time"

	"github.com/waybill-dev/waybill/internal/server"
)

func iso(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// clock returns the time of day in UTC. The script replaces it by the time in the reader's zone,
// with the zone in its title.
func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// when returns the day and the time.
func when(t time.Time) string { return t.UTC().Format("2 Jan 15:04 UTC") }

// moment returns the day and the time with seconds.
func moment(t time.Time) string { return t.UTC().Format("2 Jan 15:04:05 UTC") }

// Took returns the time between two moments for people.
func Took(from, to time.Time) string { return server.Took(to.Sub(from)) }
