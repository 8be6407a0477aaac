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
	"github.com/waybill-dev/waybill/internal/ssh/sshtest"
)

// ways are the ways to reach a world's host besides a folder of this machine.
var ways = map[string]func(w *world){"ssh": func(w *world) { w.overSSH() }}

// overSSH moves the world's host behind an sshd on this machine. Its folder stays where it is.
func (w *world) overSSH(config ...string) *sshtest.Server {
	s := sshtest.Start(w.t, config...)
	w.cutConnection = s.Cut
	w.ssh = &pipeline.SSH{Identity: s.Key, KnownHosts: s.KnownHosts()}
	w.url, w.root = "ssh://"+s.User+"@"+s.Address, w.home+"/hosts/oak"
	return s
}

func sshWorld(t *testing.T, config ...string) (*world, *sshtest.Server) {
	t.Helper()
	w := newWorld(t, "/usr/bin:/bin")
	return w, w.overSSH(config...)
}

// TestTheStepsOfAHostShareOneConnection: also those of a later deployment, and looks at the service.
func TestTheStepsOfAHostShareOneConnection(t *testing.T) {
	t.Parallel()
	w, s := sshWorld(t)
	for n := range int64(2) {
		w.revise(n+1, forever+fmt.Sprintf("; # %d", n))
		w.ship(n + 1)
		w.done(n+1, pipeline.HostTested)
	}
	w.state()
	if n := s.Accepted(); n != 3 {
		t.Errorf("%d connections, want 1, and 1 more for each switch that was confirmed", n)
	}
}

// TestServicesAreInTheHomeOfTheAccount: without a root the folder is waybill, from where the account begins.
func TestServicesAreInTheHomeOfTheAccount(t *testing.T) {
	t.Parallel()
	account := t.TempDir()
	w, _ := sshWorld(t, `ForceCommand cd `+account+` && exec sh -c "$SSH_ORIGINAL_COMMAND"`)
	w.root = ""
	w.revise(1, `echo "in $PWD"; `+forever)
	w.ship(1)
	w.done(1, pipeline.HostDeployed)
	if s := w.state(); s.Service == 0 || s.Running != w.release(1) {
		t.Errorf("%+v", s)
	}
	if target, err := os.Readlink(filepath.Join(account, "waybill", "greeter", "current")); target != "releases/"+w.release(1) {
		t.Errorf("current is %q, %v", target, err)
	}
	d := w.definition()
	at, _ := d.Place("greeter/beta/all/oak")
	log, known, err := w.handler.config.ReadLog(t.Context(), at, &pipeline.Service{Name: "greeter"}, LogQuery{Most: 1000})
	if !known || err != nil || !strings.Contains(string(log.Text), "in "+account+"/waybill/greeter/releases/") {
		t.Errorf("log %q, %v, %v", log.Text, known, err)
	}
	if err := os.MkdirAll(filepath.Dir(w.dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(account, "waybill", "greeter"), w.dir); err != nil { // where the world ends it
		t.Fatal(err)
	}
}

// TestAHostOutOfReachCostsNoAttempt: the lane slows down, whatever the step; a key that changed is fatal.
func TestAHostOutOfReachCostsNoAttempt(t *testing.T) {
	t.Parallel()
	w, s := sshWorld(t)
	w.test = []pipeline.Check{{HTTP: "http://127.0.0.1:1/", Status: []int{200}, Timeout: action.Duration(time.Second)},
		{TCP: "127.0.0.1:1", Timeout: action.Duration(time.Second)}}
	w.revise(1, forever)
	w.ship(1)
	s.Refuse(true)
	for _, event := range []string{pipeline.HostReplicated, pipeline.HostDeployed, pipeline.HostTested} {
		w.wantOutcome(w.do(t.Context(), 1, event), action.Throttle, "reach host oak")
	}
	s.Refuse(false)
	s.NewHostKey()
	w.wantOutcome(w.do(t.Context(), 1, pipeline.HostDeployed), action.Fatal, "has changed", s.Fingerprint())
}

// TestAHostIsReachedAsTheVersionInForceSays: by its jump host and keys, whatever the version of the action has. The
// owners of services are fixed for as long as the action lasts.
func TestAHostIsReachedAsTheVersionInForceSays(t *testing.T) {
	t.Parallel()
	w, s := sshWorld(t)
	bastion := sshtest.Start(t)
	bastion.Accept(s.Key + ".pub")
	w.revise(1, forever)
	right := *w.ssh
	w.ssh.Jump, w.ssh.JumpKey, w.ssh.Identity = "ssh://"+s.User+"@"+closedPort(t), bastion.Fingerprint(), s.Key
	w.wantOutcome(w.do(t.Context(), 1, pipeline.HostReplicated), action.Throttle, "jump host")
	w.inForce = func(d *pipeline.Definition) {
		way := right
		way.Jump, way.JumpKey, way.KnownHosts, way.Sudo = "ssh://"+bastion.User+"@"+bastion.Address, bastion.Fingerprint(), "none", true
		d.SSH, d.Stages[0].Groups[0].Hosts[0].HostKey = &way, s.Fingerprint()
	}
	w.ship(1)
	if bastion.Accepted() == 0 {
		t.Error("the jump host was not used")
	}
	w.ssh = &right
	w.inForce = nil
}

// TestChecksReachTheHostsOwnPorts: through the connection, unless the server of the host refuses that.
func TestChecksReachTheHostsOwnPorts(t *testing.T) {
	t.Parallel()
	w, _ := sshWorld(t, "AllowTcpForwarding no")
	w.test = []pipeline.Check{{TCP: "127.0.0.1:1", Timeout: action.Duration(time.Second)}}
	w.revise(1, forever)
	w.ship(1)
	w.wantOutcome(w.do(t.Context(), 1, pipeline.HostTested), action.Fatal, "does not forward to 127.0.0.1:1", "AllowTcpForwarding")
}

// TestALoginShellThatIsNotPOSIX: the host program runs under sh whatever the account's shell is.
func TestALoginShellThatIsNotPOSIX(t *testing.T) {
	t.Parallel()
	w, _ := sshWorld(t, `ForceCommand exec tcsh -c "$SSH_ORIGINAL_COMMAND"`)
	w.revise(1, forever)
	w.ship(1)
	w.wantRuns(1)
}

// TestSudo: commands run by sudo -n. A refusal of sudo, and a host without it, is fatal with the remedy.
func TestSudo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sudo string // the program; "": none
		want []string
	}{
		"allowed": {`[ "$1 $2" = "-n --" ] && shift 2 && exec "$@"`, nil},
		"refused": {`echo "sudo: a password is required" >&2; exit 1`, []string{"sudo: a password is required", "NOPASSWD"}},
		"absent":  {"", []string{"sudo", "install what is missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := t.TempDir()
			if c.sudo != "" {
				if err := os.WriteFile(filepath.Join(bin, "sudo"), []byte("#!/bin/sh\n"+c.sudo+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, tool := range []string{"/usr/bin", "/bin"} {
				linkTools(t, tool, bin)
			}
			w, _ := sshWorld(t, `ForceCommand export PATH=`+bin+`; exec sh -c "$SSH_ORIGINAL_COMMAND"`)
			w.ssh.Sudo = true
			w.revise(1, forever)
			if c.want == nil {
				w.ship(1)
				return
			}
			w.wantOutcome(w.do(t.Context(), 1, pipeline.HostReplicated), action.Fatal, c.want...)
		})
	}
}

// linkTools makes links in bin to the programs of a folder, but for sudo.
func linkTools(t *testing.T, dir, bin string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "sudo" {
			_ = os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(bin, e.Name())) // there is one of that name already
		}
	}
}
