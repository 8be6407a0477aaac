package cron_test

import (
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/cron"
)

// An expression is a set of minutes of the local time. In spring, 02:30 does not exist for a day in
// Stockholm; the tick comes at the next minute that does.
func ExampleExpression_Next() {
	daily, err := cron.Parse("30 2 * * *")
	if err != nil {
		fmt.Println(err)
		return
	}
	stockholm, err := time.LoadLocation("Europe/Stockholm")
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 3, 28, 0, 0, 0, 0, stockholm)
	for range 3 {
		at = daily.Next(at, stockholm)
		fmt.Println(at.Format("2006-01-02 15:04"))
	}
	// Output:
	// 2026-03-28 02:30
	// 2026-03-29 03:00
	// 2026-03-30 02:30
}

// A schedule that was not served from 03:00 to 06:30 makes up for the last tick that it missed.
func ExampleSchedule_Due() {
	hourly, err := cron.Parse("@hourly")
	if err != nil {
		fmt.Println(err)
		return
	}
	day := func(hour, minute int) time.Time { return time.Date(2026, 11, 23, hour, minute, 0, 0, time.UTC) }
	s := cron.Schedule{Cron: hourly, Zone: time.UTC, Overlap: cron.Skip, CatchUp: cron.CatchLast}
	past := cron.Past{At: day(3, 0), Ended: day(3, 1)}
	due := s.Due(past, day(6, 30), day(6, 31))
	fmt.Println(due.Tick.Format("15:04"))
	// Output: 06:00
}
