//go:build services

package step

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// lend writes a unit of the account, which starts the current release on oak, and deploys with it from now on.
func (w *world) lend(name, more string) (file, text string) {
	w.t.Helper()
	file = filepath.Join(os.Getenv("HOME"), ".config/systemd/user", name)
	text = fmt.Sprintf("[Unit]\nDescription=%s, written by a person\n[Service]\nWorkingDirectory=%s/current\n"+
		"ExecStart=%[2]s/current/greeter lent\n%s\n", name, w.dir, more)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // a unit is public
		w.t.Fatal(err)
	}
	w.service.Manager, w.service.Unit, w.service.Exec = pipeline.ManagerSystemd, name, nil
	return file, text
}

// TestAnExistingUnitIsRestarted: systemd runs the current release by a unit that Waybill does not write.
func TestAnExistingUnitIsRestarted(t *testing.T) {
	w := newWorld(t, "/usr/bin:/bin")
	w.underSystemd()
	w.program(filepath.Join(filepath.Dir(w.home), "bin", "journalctl"), `echo "journal of $*"`)
	const unit = "greeter.service"
	file, text := w.lend(unit, "Restart=on-failure\nRestartSec=100ms\nStartLimitIntervalSec=0")
	w.service.After = []string{"./greeter", "hook"}
	const script = "[ \"$1\" = lent ] || exit 0\n"
	w.revise(1, script+forever)
	w.ship(1)
	s := w.state()
	if s.Service == 0 || s.Running != w.release(1) || s.Restarts != 0 || time.Since(s.Started).Abs() > time.Minute {
		t.Errorf("after the first deployment: %+v", s)
	}
	if got := w.systemctl("show", "--property=ActiveState,MainPID", unit); got != fmt.Sprintf("MainPID=%d\nActiveState=active", s.Service) &&
		got != fmt.Sprintf("ActiveState=active\nMainPID=%d", s.Service) {
		t.Errorf("systemd says %q, the host %+v", got, s)
	}

	// The same release again, and once more after a while: nothing is restarted.
	if out := w.done(1, pipeline.HostDeployed); !out.Already {
		t.Errorf("deployed again: %+v", out)
	}

	// A release that does not stay up is taken back, and the journal has the reason.
	w.service.Ready.Within = action.Duration(8 * time.Second) // systemctl alone takes seconds on a slow machine
	w.revise(2, script+"exit 3")
	w.done(2, pipeline.HostReplicated)
	w.wantOutcome(w.do(t.Context(), 2, pipeline.HostDeployed), action.Retry, "did not stay up", "last exit status 3",
		"journal of --user --unit=greeter.service", "went back to "+w.release(1))
	w.wantRuns(1)
	w.service.Ready.Within = action.Duration(20 * time.Second)

	// A switch that is not confirmed is taken back by the host.
	w.service.Ready.Checks, w.service.Confirm, w.service.ConfirmSet = listens(closedPort(t)), action.Duration(10*time.Second), true
	w.revise(3, script+forever+"; # three")
	w.done(3, pipeline.HostReplicated)
	w.leave(3)
	w.wantRuns(1)
	w.service.Ready.Checks, w.service.ConfirmSet, w.service.Confirm = nil, false, 0
	w.wantOutcome(w.do(t.Context(), 3, pipeline.HostDeployed), action.Retry, "reverted by the host: not confirmed within 10 seconds")
	w.done(3, pipeline.HostDeployed)
	w.wantRuns(3)

	// A person restarts it on the host, and by Waybill.
	three := w.state()
	w.systemctl("restart", unit)
	if s := w.state(); s.Service == 0 || s.Service == three.Service || s.Running != w.release(3) {
		t.Errorf("restarted by a person: %+v, before %+v", s, three)
	}
	if o := w.restart(t.Context(), 3, "restart"); o.Kind != action.Done {
		t.Errorf("restart: %s: %s", o.Kind, o.Error)
	}
	w.wantRuns(3)

	// Other managers take the service over, and give it back.
	w.service.Unit, w.service.Exec = "", []string{"./greeter", "lent"}
	for n, manager := range []string{pipeline.ManagerProcess, pipeline.ManagerSystemd} {
		w.service.Manager = manager
		w.revise(int64(4+n), fmt.Sprintf("%s%s; # %d", script, forever, n))
		w.ship(int64(4 + n))
		if state := w.systemctl("is-active", unit); state == "active" {
			t.Errorf("%s: the unit is still %s", manager, state)
		}
	}
	w.lend(unit, "Restart=on-failure")
	w.revise(6, script+forever+"; # six")
	w.ship(6)
	if s := w.state(); s.Running != w.release(6) || w.systemctl("is-active", "waybill-greeter.service") == "active" {
		t.Errorf("back at the unit: %+v", s)
	}

	// Another unit in its place: the first one ends.
	w.lend("other.service", "")
	w.done(6, pipeline.HostDeployed)
	if w.systemctl("is-active", unit) == "active" || w.systemctl("is-active", "other.service") != "active" {
		t.Errorf("the units did not change places: %s", w.systemctl("list-units"))
	}

	w.stopAll()
	if s := w.state(); s.Service != 0 || s.Supervisor != 0 {
		t.Errorf("after the stop: %+v", s)
	}
	if got, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(got), strings.Split(text, "Restart=")[0]) {
		t.Errorf("the unit was changed: %q, %v", got, err)
	}
}

// TestAnExistingUnitIsReloaded, or left alone, as restart requires; one that cannot be reloaded is taken back.
func TestAnExistingUnitIsReloaded(t *testing.T) {
	w := newWorld(t, "/usr/bin:/bin")
	w.underSystemd()
	reloads := filepath.Join(w.dir, "reloads")
	w.lend("greeter.service", "ExecReload=/bin/sh -c 'echo $MAINPID >>"+reloads+"'")
	w.service.Restart = "reload"
	w.revise(1, forever)
	w.ship(1)
	first := w.state()
	if _, err := os.Stat(reloads); err == nil || first.Service == 0 {
		t.Errorf("a service that did not run was reloaded: %v, %+v", err, first)
	}
	w.revise(2, forever+"; # two")
	w.ship(2)
	if s := w.state(); w.read("reloads") != fmt.Sprintf("%d\n", first.Service) || s.Service != first.Service || s.Running != w.release(2) {
		t.Errorf("reloads %q, %+v", w.read("reloads"), s)
	}

	w.service.Restart = "none"
	w.revise(3, forever+"; # three")
	w.ship(3)
	if s := w.state(); s.Service != first.Service || s.Release != w.release(3) || s.Running != w.release(2) {
		t.Errorf("left alone: %+v", s)
	}

	w.service.Restart = "reload"
	w.lend("greeter.service", "ExecReload=/bin/false")
	w.systemctl("daemon-reload")
	w.revise(4, forever+"; # four")
	w.done(4, pipeline.HostReplicated)
	w.wantOutcome(w.do(t.Context(), 4, pipeline.HostDeployed), action.Retry, "systemctl cannot reload greeter.service",
		"went back to "+w.release(3))
	w.wantRuns(3)
}

// TestAUnitThatIsNotThereIsRefusedBeforeTheSwitch, and one that cannot be restarted is stopped when nothing ran before.
func TestAUnitThatIsNotThereIsRefusedBeforeTheSwitch(t *testing.T) {
	w := newWorld(t, "/usr/bin:/bin")
	w.underSystemd()
	w.service.Unit, w.service.Exec = "absent.service", nil
	w.revise(1, forever)
	w.done(1, pipeline.HostReplicated)
	w.wantOutcome(w.do(t.Context(), 1, pipeline.HostDeployed), action.Fatal, "has no unit absent.service on this host: put it there")
	if s := w.state(); s.Release != "" || s.Unfinished {
		t.Errorf("refused: %+v", s)
	}
	w.service.Ready.Within = action.Duration(3 * time.Second)
	for _, limit := range []string{"1s", "infinity"} { // it never reports that it is ready
		w.lend("greeter.service", "Type=notify\nTimeoutStartSec="+limit)
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostDeployed), action.Retry, "systemctl cannot restart greeter.service",
			"nothing ran there before")
		if s := w.state(); s.Release != "" || s.Service != 0 || w.systemctl("is-active", "greeter.service") == "active" {
			t.Errorf("stopped: %+v", s)
		}
	}
}
