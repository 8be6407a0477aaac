//go:build services

package step

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// systemdLine runs the systemd of an account in the folder $1, as the account's home and runtime folder. It has namespaces,
// a cgroup, /run and /tmp of its own, and knows no units but those of the test, so it can change nothing else on this machine.
const systemdLine = `set -eu
cgroup=$2 dir=$1
mkdir "$cgroup" && echo $$ >"$cgroup/cgroup.procs"
exec unshare --mount --pid --fork --cgroup --mount-proc --kill-child sh -eu -c '
mount -t tmpfs run /run && mkdir -p /run/systemd/system /run/keep /run/units
mount --bind "$1" /run/keep && mount -t tmpfs tmp /tmp && mkdir -p "$1" && mount --move /run/keep "$1"
umount -l /sys/fs/cgroup && mount -t cgroup2 cgroup /sys/fs/cgroup
for unit in default basic shutdown exit; do printf "[Unit]\nDefaultDependencies=no\n" >"/run/units/$unit.target"; done
export HOME="$1/account" XDG_RUNTIME_DIR="$1/run" SYSTEMD_UNIT_PATH="$1/account/.config/systemd/user:/run/units"
/lib/systemd/systemd --user --log-target=console &
wait
' systemd "$dir"`

// underSystemd starts a systemd for the world's host. The programs id and loginctl are stand-ins: the host program takes the
// test for an account that is not root, whose systemd outlives its logins.
func (w *world) underSystemd() {
	w.t.Helper()
	if os.Getuid() != 0 {
		w.t.Fatal("this test runs a systemd in namespaces and a cgroup of its own: run it as root")
	}
	dir := filepath.Dir(w.home)
	w.program(filepath.Join(dir, "bin", "id"), "echo 1000")
	w.program(filepath.Join(dir, "bin", "loginctl"), "exit 0")
	for _, name := range []string{"account", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Setenv("PATH", filepath.Join(dir, "bin")+":/usr/bin:/bin")
	w.t.Setenv("HOME", filepath.Join(dir, "account"))
	w.handler.config.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	cgroup := filepath.Join(ownCgroup(w.t), fmt.Sprintf("waybill-test-%d", os.Getpid()))
	out, err := os.Create(filepath.Join(dir, "systemd.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	systemd := exec.Command("sh", "-c", systemdLine, "systemd", dir, cgroup)
	systemd.Stdout, systemd.Stderr = out, out
	systemd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := systemd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.program(filepath.Join(dir, "bin", "systemctl"), fmt.Sprintf( // it must be in the namespaces of the systemd that it calls
		"XDG_RUNTIME_DIR=%[2]s/run exec nsenter --target $(cat /proc/%[1]d/task/%[1]d/children) --mount --pid /usr/bin/systemctl \"$@\"",
		systemd.Process.Pid, dir))
	w.t.Cleanup(func() {
		w.stopAll()
		_ = syscall.Kill(-systemd.Process.Pid, syscall.SIGKILL) // all of its namespace ends with it
		_ = systemd.Wait()
		until(w.t, "the cgroup of the systemd is empty", func() bool { return removeCgroup(cgroup) == nil })
	})
	w.t.Cleanup(func() {
		if text, err := os.ReadFile(out.Name()); err == nil && w.t.Failed() {
			w.t.Logf("systemd printed:\n%s", text)
		}
	})
	until(w.t, "systemd answers", func() bool { return w.systemctl("show", "--property=Version") != "" })
	w.service.Manager = pipeline.ManagerSystemd
}

// program writes a shell program.
func (w *world) program(path, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil { //nolint:gosec // a program
		w.t.Fatal(err)
	}
}

// systemctl returns the output of systemctl about the account's services; "" when it fails.
func (w *world) systemctl(words ...string) string {
	out, err := exec.Command(filepath.Join(filepath.Dir(w.home), "bin", "systemctl"), append([]string{"--user"}, words...)...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// ownCgroup returns the folder of the cgroup that this process is in.
func ownCgroup(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(root + "/cgroup.procs"); err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
				return filepath.Join(root, path)
			}
		}
	}
	t.Fatal("this test needs cgroup version 2 at /sys/fs/cgroup or /sys/fs/cgroup/unified")
	return ""
}

// removeCgroup removes a cgroup and those in it, once no process is there.
func removeCgroup(dir string) error {
	inside, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, each := range inside {
		if each.IsDir() {
			if err := removeCgroup(filepath.Join(dir, each.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(dir)
}

// TestSystemdRunsTheService of the release that was deployed, in the place of the supervisor.
func TestSystemdRunsTheService(t *testing.T) {
	w := newWorld(t, "/usr/bin:/bin")
	w.underSystemd()
	const unit = "waybill-greeter.service"
	w.revise(1, "echo one of $1; "+forever)
	w.ship(1)
	s := w.state()
	if s.Service == 0 || s.Supervisor == 0 || s.Running != w.release(1) || s.Restarts != 0 || s.Started.IsZero() {
		t.Errorf("after the first deployment: %+v", s)
	}
	if got := w.systemctl("show", "--property=ActiveState,UnitFileState", unit); !strings.Contains(got,
		"ActiveState=active") || !strings.Contains(got, "UnitFileState=enabled") {
		t.Errorf("systemd says %q", got)
	}
	if got := w.read(".waybill/log"); !strings.HasPrefix(got, "one of oak\n") {
		t.Errorf("log %q", got)
	}

	// The same release again: nothing is restarted.
	w.done(1, pipeline.HostDeployed)
	if again := w.state(); again.Service != s.Service {
		t.Errorf("restarted: %+v, before %+v", again, s)
	}

	// systemd restarts ended services, and counts.
	w.systemctl("kill", "--signal=KILL", unit)
	until(t, "the service is up again", func() bool {
		now := w.state()
		return now.Restarts == 1 && now.Service != 0 && now.Service != s.Service
	})

	// A release that does not stay up is taken back.
	w.service.Ready.Within = action.Duration(2e9)
	w.revise(2, "echo address already in use; exit 3")
	w.done(2, pipeline.HostReplicated)
	w.wantOutcome(w.do(t.Context(), 2, pipeline.HostDeployed), action.Retry, "did not stay up", "last exit status 3",
		"address already in use", "went back to "+w.release(1))
	until(t, "the service of #1 is up again", func() bool { s := w.state(); return s.Running == w.release(1) && s.Service != 0 })
	w.service.Ready.Within = action.Duration(20e9)

	w.revise(3, "echo three; "+forever)
	w.ship(3)
	if s := w.state(); s.Running != w.release(3) || s.Previous != w.release(1) {
		t.Errorf("after a switch: %+v", s)
	}

	// The supervisor takes the service over, and gives it back.
	for n, manager := range []string{pipeline.ManagerProcess, pipeline.ManagerSystemd} {
		w.service.Manager = manager
		w.revise(int64(4+n), fmt.Sprintf("echo %d; ", n)+forever)
		w.ship(int64(4 + n))
		state := w.systemctl("is-active", unit)
		if s := w.state(); s.Running != w.release(int64(4+n)) || s.Service == 0 || (state == "active") != (manager == pipeline.ManagerSystemd) {
			t.Errorf("%s: systemd says %q, %+v", manager, state, s)
		}
	}

	// A person ends the service: it does not come back with the host.
	w.stopAll()
	if s := w.state(); s.Service != 0 || s.Supervisor != 0 {
		t.Errorf("after the stop: %+v", s)
	}
	if _, err := os.Stat(filepath.Join(os.Getenv("HOME"), ".config/systemd/user", unit)); !os.IsNotExist(err) {
		t.Errorf("the unit is still there: %v", err)
	}
}

// TestAHostWithoutSystemdIsRefusedBeforeTheSwitch, and reports the remedy.
func TestAHostWithoutSystemdIsRefusedBeforeTheSwitch(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.ship(1)
		w.service.Manager = pipeline.ManagerSystemd
		w.revise(2, "echo two; "+forever)
		w.done(2, pipeline.HostReplicated)
		w.wantOutcome(w.do(t.Context(), 2, pipeline.HostDeployed), action.Fatal, "systemd does not answer account ", "set manager: process")
		if s := w.state(); s.Running != w.release(1) || s.Service == 0 || s.Unfinished {
			t.Errorf("what ran does not run on: %+v", s)
		}
	})
}
