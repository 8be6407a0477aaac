package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/service"
)

// Services returns the rows of a list of the services of a pipeline.
func Services(pipelineName string, all []service.ServiceView, s Style, now time.Time) []string {
	t := table{Style: s}
	var drift []service.Drift
	t.add("HOST", "RUNS", "STATE", "RESTARTS", "SINCE", "REMARK")
	for i := range all {
		v := &all[i]
		host, runs := strings.TrimPrefix(v.Target, pipelineName+"/"), runsText(v)
		if v.Drift != nil {
			drift = append(drift, *v.Drift)
		}
		if v.State == nil {
			t.add(host, runs, "-", "-", "-", serviceRemark(v))
			continue
		}
		restarts := strconv.Itoa(v.State.Restarts)
		if v.State.Error != "" {
			restarts = "-"
		}
		t.add(host, runs, v.State.State, restarts, sinceText(v.State.Since, now), serviceRemark(v))
	}
	return append(t.lines(), CatchUp(pipelineName, drift)...)
}

// serviceRemark returns the facts about a service that a person should know besides its state.
func serviceRemark(v *service.ServiceView) string {
	switch {
	case v.Drift != nil && v.Drift.Lost:
		return v.Drift.Reason
	case v.State == nil:
		return ""
	case v.State.Error == "" && v.State.Exit != "":
		return "last exit status " + v.State.Exit
	}
	return v.State.Error
}

// CatchUp returns the command that brings hosts the revision of their group, for those that one can bring it to.
func CatchUp(pipelineName string, drift []service.Drift) []string {
	var common []string // the parts that the paths of these hosts share
	count := 0
	for _, d := range drift {
		if !d.CatchUp {
			continue
		}
		parts := strings.Split(strings.TrimPrefix(d.Target, pipelineName+"/"), "/")
		if count++; count == 1 {
			common = parts
		}
		for i := range common {
			if i == len(parts) || common[i] != parts[i] {
				common = common[:i]
				break
			}
		}
	}
	command := "waybill deployment create " + strings.TrimSpace(pipelineName+" "+strings.Join(common, "/")) + " --catch-up"
	switch count {
	case 0:
		return nil
	case 1:
		return []string{command + " deploys to it what its group has"}
	}
	return []string{fmt.Sprintf("%s deploys to the %d hosts that lack what their group has", command, count)}
}

// ServiceStatus returns the known state of the service of a host.
func ServiceStatus(v service.ServiceStatusView, now time.Time) []string {
	var t table
	t.add("host", v.Target)
	t.add("service", v.Name)
	t.add("manager", v.Manager)
	t.add("runs", runsText(&v.ServiceView))
	if v.State != nil {
		t.add("state", stateText(v.State, now))
	}
	if v.Drift != nil {
		t.add("drift", v.Drift.Reason)
		name, _, _ := strings.Cut(v.Target, "/")
		for _, line := range CatchUp(name, []service.Drift{*v.Drift}) {
			t.add("", line)
		}
		if v.Drift.Rejected {
			t.add("", v.Drift.Remedy(name)+" deploys to it what its group has")
		}
	}
	switch {
	case len(v.Changed) > 0:
		t.add("files", fmt.Sprintf("changed by hand: %s; waybill service restart %s --verify builds the release beside and switches to it",
			strings.Join(v.Changed, ", "), strings.Replace(v.Target, "/", " ", 1)))
	case v.Verified:
		t.add("files", "those of the artifact")
	}
	h := v.Host
	if h == nil {
		return t.lines()
	}
	t.add("release", dash(h.Release))
	t.add("previous", dash(h.Previous))
	if h.Deployment != "" {
		t.add("last deployment", fmt.Sprintf("%s of ledger %s", h.Deployment, h.Ledger))
	}
	if h.Supervisor != 0 {
		t.add("supervisor", fmt.Sprintf("pid %d", h.Supervisor))
	}
	if h.Service != 0 {
		t.add("process", fmt.Sprintf("pid %d of %s", h.Service, h.Running))
	}
	if h.Supervisor != 0 {
		t.add("restarts", strconv.Itoa(h.Restarts))
		t.add("last exit", dash(h.Exit))
	}
	if h.Unfinished {
		t.add("switch", "not final yet: unless it is confirmed, "+revertText(h.Previous))
	}
	if h.Busy {
		t.add("at work", "the host program")
	}
	return t.lines()
}

// revertText returns a host's handling of a switch that is not confirmed.
func revertText(previous string) string {
	if previous == "" {
		return "the host stops the service"
	}
	return "the host goes back to " + previous
}

// stateText returns the state of a service with the time since when it is up, or why it is not known.
func stateText(s *service.Services, now time.Time) string {
	switch {
	case s.Error != "":
		return s.State + ": " + s.Error
	case s.Since.IsZero():
		return s.State
	}
	return s.State + ", started " + sinceText(s.Since, now)
}

// runsText returns the release on a host: the host's report, such as "88d0e17 (#2), untested", "?" while that is not
// known, with the log's state, or "-".
func runsText(v *service.ServiceView) string {
	unknown := v.State != nil && v.State.State == service.ServiceUnknown
	switch {
	case v.Found != nil:
		return v.Found.String()
	case v.Drift != nil && v.Drift.Lost && v.Runs != nil:
		return "nothing, by the log " + v.Runs.String()
	case unknown && v.Runs != nil:
		return "?, by the log " + v.Runs.String()
	case unknown:
		return "?"
	case v.Runs == nil:
		return "-"
	case v.Runs.Doubt != "":
		return v.Runs.String() + ", " + v.Runs.Doubt
	}
	return v.Runs.String()
}

func sinceText(since, now time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return Ago(now, since)
}
