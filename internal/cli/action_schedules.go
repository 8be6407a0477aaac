package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/server"
)

func (a *app) actionSchedulesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schedules",
		Short: "Show what is done again and again: when last, when next",
		Long: `Shows the schedules of server.yaml: what the last tick of each led to, and the times of the next,
in the schedule's time zone. Conductors make their actions.`,
		Example: examples("waybill action schedules", "waybill action schedules -o json"),
		Args:    arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withSession(c, func(ctx context.Context, s *session) error {
				views, err := s.Schedules(ctx)
				if err != nil {
					return err
				}
				if a.json() {
					return a.printJSON(list(views))
				}
				return a.showSchedules(views)
			})
		},
	}
}

func (a *app) showSchedules(views []server.ScheduleView) error {
	if len(views) == 0 {
		_, err := fmt.Fprintln(a.err, "no schedules; server.yaml describes them under schedules")
		return err
	}
	var t table
	t.add("SCHEDULE", "CRON", "DOES", "LAST", "NEXT")
	for _, v := range views {
		last := "-"
		if v.Last != nil {
			last = v.Last.At.Format(tickForm) + " " + strings.ToLower(v.Last.Status.String())
		}
		if v.Waiting > 0 {
			last += fmt.Sprintf(", %d waiting", v.Waiting)
		}
		does := v.Handler
		if v.Process != "" {
			does = "process " + v.Process
		}
		next := make([]string, len(v.Next))
		for i, at := range v.Next {
			next[i] = at.Format(tickForm)
		}
		t.add(v.Name, v.Cron+" "+v.Timezone, does, last, strings.Join(next, ", "))
	}
	return t.write(a.out)
}

// tickForm is a tick's time; its zone stands beside it.
const tickForm = "Mon 2006-01-02 15:04"

// ticking is what a conductor goes by.
func ticking(schedules map[string]config.Schedule) []conductor.Schedule {
	var all []conductor.Schedule
	for _, s := range schedules {
		all = append(all, conductor.Schedule{Name: s.Name, Window: s.Window, Action: s.Action})
	}
	return all
}
