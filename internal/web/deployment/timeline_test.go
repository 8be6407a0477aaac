package deployment

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// timed returns the page of an active deployment whose only host has waited for 20 s and failed to
// deploy once, 100 s after its creation.
func timed() deploymentPage {
	begun := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	step := func(event string, state pipeline.State, from, to time.Time) service.StepRun {
		return service.StepRun{StepState: pipeline.StepState{StepKey: pipeline.StepKey{Target: "p/prod/all/elm", Event: event}, State: state},
			Name: service.StepName(event), Word: "done", StartedAt: from, EndedAt: to}
	}
	deploy := step(pipeline.HostDeployed, pipeline.StateClaimed, at(80), time.Time{})
	deploy.Attempt, deploy.Spent, deploy.Attempts, deploy.Status = 2, 1, 3, action.Running
	deploy.Earlier = []service.Try{{Status: action.Failed, StartedAt: at(50), EndedAt: at(60)}}
	host := service.HostRun{Name: "elm",
		Steps: []service.StepRun{step(pipeline.HostReplicated, pipeline.StateComplete, at(40), at(50)), deploy},
		Run:   service.Run{Target: "p/prod/all/elm", State: service.RunRunning, ReadyAt: at(20), StartedAt: at(40)}}
	late := service.HostRun{Name: "fir", Run: service.Run{Target: "p/prod/all/fir", State: service.RunWaiting,
		ReadyAt: at(20), Reason: "1 of 1 hosts in flight"}}
	group := service.GroupRun{Name: "all", Hosts: []service.HostRun{host, late},
		Run: service.Run{Target: "p/prod/all", State: service.RunRunning, StartedAt: at(20)}}
	stages := []service.StageRun{
		{Name: "prod", Run: service.Run{Target: "p/prod", State: service.RunRunning, ReadyAt: begun, StartedAt: at(20)},
			Groups: []service.GroupRun{group}},
		{Name: "last", Run: service.Run{Target: "p/last", State: service.RunWaiting, Reason: "waits for prod"},
			Groups: []service.GroupRun{{Name: "all", Run: service.Run{Target: "p/last/all", State: service.RunWaiting}}}},
	}
	commands := []service.RecordedCommand{
		{At: at(10), Target: "p", Text: "held by ana"}, {At: at(19), Target: "p/prod", Text: "approved by bob"},
		{At: at(15), Target: "p/last", Text: "approved by cyd"}, {At: at(30), Target: "p/prod", Text: "retried by ana"},
	}
	return deploymentPage{DeploymentView: service.DeploymentView{Commands: commands,
		Deployment: journal.Deployment{Pipeline: "p", Number: 1, Status: pipeline.StatusActive, CreatedAt: begun}, Now: at(100), Stages: stages,
	}}
}

// A timeline has a bar for each wait, run and failure, at its place on the axis.
func TestTimelineShowsWaitsStepsAndRetries(t *testing.T) {
	t.Parallel()
	data := timed()
	got := data.Timeline()
	if diff := cmp.Diff([]string{"0s", "30s", "1m", "1m30s"}, got.Ticks); diff != "" {
		t.Errorf("ticks: %s", diff)
	}
	now := data.CreatedAt
	per := func(seconds int) int { return seconds * axisWidth / 120 }
	want := map[string][]bar{
		"prod": {{"w-waiting", 0, per(20), "waited, 20.0s", time.Time{}},
			{"t-running", per(20), per(80) + 1, "running", now.Add(20 * time.Second)}},
		"elm": {
			{"w-waiting", per(20), per(20) + 1, "waited, 20.0s", time.Time{}},
			{"w-begun", per(40), per(60), "running", now.Add(40 * time.Second)},
			{"t-finished", per(40), per(10), "replicate done, 10.0s", time.Time{}},
			{"t-failed", per(50), per(10) + 1, "deploy failed, 10.0s", time.Time{}},
			{"t-running", per(80), per(20) + 1, "deploy done", now.Add(80 * time.Second)},
		},
		"fir":  {{"w-waiting", per(20), per(80) + 1, "waits", now.Add(20 * time.Second)}},
		"last": nil,
	}
	bars, why := map[string][]bar{}, map[string]string{}
	for _, row := range got.Rows {
		bars[row.Name], why[row.Name] = row.Bars, row.Why()
		if row.Name == "elm" {
			if diff := cmp.Diff([]string{"deploy: retried", "deploy: attempt 2, 1 of 3 counted"}, row.Notes); diff != "" {
				t.Errorf("notes: %s", diff)
			}
		}
	}
	if diff := cmp.Diff(want, bars); diff != "" {
		t.Errorf("bars: %s", diff)
	}
	if why["elm"] != "retried by ana" || why["prod"] != "held by ana; approved by bob" {
		t.Errorf("elm says %q and prod %q, want what was done while they waited", why["elm"], why["prod"])
	}
	if why["fir"] != "1 of 1 hosts in flight" || why["last"] != "" {
		t.Errorf("the rows say why %q; want the reason of fir only, whose turn has come", why)
	}
}

// Each attempt has a bar of its own, and a step between two attempts has no bar at work.
func TestTimelineHasABarForEachAttempt(t *testing.T) {
	t.Parallel()
	data := timed()
	deploy := &data.Stages[0].Groups[0].Hosts[0].Steps[1]
	deploy.Action = action.DerivedID(data.CreatedAt, "deploy")
	at := func(seconds int) time.Time { return data.CreatedAt.Add(time.Duration(seconds) * time.Second) }
	data.tries = map[action.ID][]service.Try{deploy.Action: {
		{Status: action.Backoff, StartedAt: at(72), EndedAt: at(78)}, {Status: action.Running, StartedAt: at(84)},
	}}
	classes := func() (list []string) {
		for _, row := range data.Timeline().Rows {
			for _, bar := range row.Bars {
				if row.Name == "elm" && bar.X >= 60*axisWidth/120 {
					list = append(list, fmt.Sprintf("%s at %d", bar.Class, bar.X*120/axisWidth))
				}
			}
		}
		return list
	}
	if diff := cmp.Diff([]string{"t-failed at 72", "t-running at 84"}, classes()); diff != "" {
		t.Errorf("at work: %s", diff)
	}
	data.tries[deploy.Action][1].Status, data.tries[deploy.Action][1].EndedAt, deploy.Status = action.Backoff, at(90), action.Backoff
	if diff := cmp.Diff([]string{"t-failed at 72", "t-failed at 84"}, classes()); diff != "" {
		t.Errorf("between two attempts: %s", diff)
	}
}

// The axis of a deployment on its way does not change with every second, or its page would be sent
// every second.
func TestAxisOfATimelineIsSteady(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	changes, last := 0, ""
	for s := range 24 * 60 * 60 {
		axis := newAxis(begun, begun.Add(time.Duration(s)*time.Second))
		if axis.To.Before(begun.Add(time.Duration(s) * time.Second)) {
			t.Fatalf("after %d s the axis ends at %s", s, axis.To)
		}
		if len(axis.Ticks) > 6 {
			t.Fatalf("after %d s the axis has %d parts, want at most 6", s, len(axis.Ticks))
		}
		if text := axis.To.String() + axis.Grid; text != last {
			changes, last = changes+1, text
		}
	}
	if changes > 80 {
		t.Errorf("the axis changed %d times in a day", changes)
	}
	for d, want := range map[time.Duration]string{0: "0s", 200 * time.Millisecond: "0.2s", 90 * time.Second: "1m30s", 2 * time.Hour: "2h",
		150 * time.Minute: "2h30m", 48 * time.Hour: "2d", 36 * time.Hour: "36h", 10 * time.Minute: "10m"} {
		if got := partText(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

// A live page of a deployment on its way is the same a second later, or it would be sent every
// second.
func TestLivePageDoesNotChangeWithTheClock(t *testing.T) {
	t.Parallel()
	site, data := page.NewSite(nil, nil), timed()
	data.Hosts = &page.Hosts{Page: 1}
	shown := site.Template(templateFiles, functions(), "deployment")
	render := func(live bool) string {
		t.Helper()
		body, err := page.Render(shown, page.View{Content: page.Content{Data: data}, Now: data.Now, Live: live})
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	live, still := render(true), render(false)
	data.Now = data.Now.Add(time.Second)
	if diff := cmp.Diff(live, render(true)); diff != "" {
		t.Error(diff)
	}
	if still == render(false) {
		t.Error("without the script the bars do not grow either")
	}
}
