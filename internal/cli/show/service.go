package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/server"
)

// Services returns the rows of a list of the services of a pipeline.
func Services(pipelineName string, all []server.ServiceView, now time.Time) []string {
	var t table
	t.add("HOST", "RUNS", "STATE", "RESTARTS", "SINCE", "REMARK")
	for i := range all {
		v := &all[i]
		host, runs := strings.TrimPrefix(v.Target, pipelineName+"/"), runsText(v)
		if v.State == nil {
			t.add(host, runs, "-", "-", "-", "")
			continue
		}
		restarts, remark := strconv.Itoa(v.State.Restarts), v.State.Error
		if v.State.Error != "" {
			restarts = "-"
		} else if v.State.Exit != "" {
			remark = "last exit status " + v.State.Exit
		}
		t.add(host, runs, v.State.State, restarts, sinceText(v.State.Since, now), remark)
	}
	return t.lines()
}

// ServiceStatus returns what is known of the service of a host.
func ServiceStatus(v server.ServiceStatusView, now time.Time) []string {
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
	}
	switch {
	case len(v.Changed) > 0:
		t.add("files", fmt.Sprintf("changed by hand: %s; waybill ship --again puts the release beside and switches to it", strings.Join(v.Changed, ", ")))
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

// revertText returns what a host does with a switch that is not confirmed.
func revertText(previous string) string {
	if previous == "" {
		return "the host stops the service"
	}
	return "the host goes back to " + previous
}

// stateText returns the state of a service with the time since when it is up, or why it is not known.
func stateText(s *server.Services, now time.Time) string {
	switch {
	case s.Error != "":
		return s.State + ": " + s.Error
	case s.Since.IsZero():
		return s.State
	}
	return s.State + ", started " + sinceText(s.Since, now)
}

// runsText returns the release on a host: what the host reports, such as "88d0e17 (#2), untested", "?" while that is not known,
// with what the log says, or "-".
func runsText(v *server.ServiceView) string {
	unknown := v.State != nil && v.State.State == server.ServiceUnknown
	switch {
	case v.Found != nil:
		return v.Found.String()
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
