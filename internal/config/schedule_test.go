package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cron"
)

const scheduled = `handlers:
  tidy:
    type: shell
    parameters: {days: {type: integer}}
    command: {argv: [tidy]}
workflows:
  mirror: {title: Mirror, version: 2, handler: tidy}
schedules:
`

func TestSchedulesMakeActions(t *testing.T) {
	t.Parallel()
	c, err := Read("server.yaml", []byte(scheduled+`  nightly: {cron: "0 3 * * *", timezone: Europe/Stockholm, handler: tidy, parameters: {days: 30}}
  hourly: {cron: "@hourly", process: mirror, parameters: {days: 1}, overlap: queue, catchUp: all}
`))
	if err != nil {
		t.Fatal(err)
	}
	nightly, hourly := c.Schedules["nightly"], c.Schedules["hourly"]
	if a := nightly.Action; a.Kind != KindAction || a.Name != "nightly" || a.Handler != "tidy" ||
		string(a.Parameters) != `{"days":30}` || a.CreatedBy != "schedule:nightly" {
		t.Errorf("nightly makes %+v", a)
	}
	if w := nightly.Window; w.Zone.String() != "Europe/Stockholm" || w.Overlap != cron.Skip || w.CatchUp != cron.CatchLast {
		t.Errorf("nightly is %+v", w)
	}
	if a := hourly.Action; a.Kind != KindJob || a.Name != "mirror" || a.Version != 2 || a.CacheKey != (action.ID{}) ||
		a.CreatedBy != "schedule:hourly" {
		t.Errorf("hourly makes %+v, want a job that no earlier answer replaces", a)
	}
	if w := hourly.Window; w.Zone.String() != "UTC" || w.Overlap != cron.Queue || w.CatchUp != cron.CatchAll {
		t.Errorf("hourly is %+v", w)
	}
}

func TestScheduleFaultsNameTheirPlace(t *testing.T) {
	t.Parallel()
	_, problems := Check("server.yaml", []byte(scheduled+`  a: {cron: "0 25 * * *", timezone: Europe/Stokholm, handler: tidi}
  b: {cron: "@daily", handler: tidy, process: mirror}
  c: {cron: "@daily", handler: tidy, parameters: {days: many, all: true}}
  d: {handler: tidy, overlap: wait, catchup: last}
  e: {cron: "@daily", process: miror}
  f: {cron: "@daily", handler: noop, catchUp: all}
  g/h: {cron: "@daily", handler: noop}
`))
	want := []string{
		`server.yaml:9:13: schedules.a.cron: hour "25": want 0 to 23, found "25"`,
		`server.yaml:9:37: schedules.a.timezone: time zone "Europe/Stokholm" not found: want one such as Europe/Stockholm, or UTC`,
		`server.yaml:9:63: schedules.a.handler: handler "tidi" not found (did you mean "tidy"?)`,
		`server.yaml:10:3: schedules.b: want either "handler" or "process"`,
		`server.yaml:11:50: schedules.c.parameters: unknown parameter "all"`,
		`server.yaml:11:57: schedules.c.parameters.days: got string, want integer`,
		`server.yaml:12:3: schedules.d: the field "cron" is missing`,
		`server.yaml:12:6: schedules.d.parameters: the parameter "days" is missing`,
		`server.yaml:12:31: schedules.d.overlap: "wait" is none of skip, queue, replace`,
		`server.yaml:12:37: unknown key "catchup" in schedules.d (did you mean "catchUp"?)`,
		`server.yaml:13:32: schedules.e.process: process "miror" not found (did you mean "mirror"?)`,
		`server.yaml:14:47: warning: schedules.f: times that were missed would overlap: without overlap: queue only the last one is made up for`,
		`server.yaml:15:3: schedule "g/h": want a name of letters, digits, -, _ and . with at most 63 characters`,
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
