//go:build services

package step

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/ssh"
	"github.com/waybill-dev/waybill/internal/ssh/sshtest"
)

// sshHost is one of many hosts, which counts the commands that it gets.
type sshHost struct {
	*sshtest.Server
	name     string
	commands string // a file with a byte for each
	seen     int
}

// taken returns how many commands the host got since the last call.
func (h *sshHost) taken(t *testing.T) int {
	t.Helper()
	all, err := os.ReadFile(h.commands)
	if err != nil {
		t.Fatal(err)
	}
	fresh := len(all) - h.seen
	h.seen = len(all)
	return fresh
}

// sshFleet gives a world so many hosts besides oak, each with an sshd and a folder of its own.
func sshFleet(t *testing.T, w *world, hosts int) (fleet []*sshHost) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	sshtest.Keygen(t, key)
	w.ssh = &pipeline.SSH{Identity: key}
	for i := range hosts {
		home := t.TempDir()
		h := &sshHost{name: fmt.Sprintf("h%d", i), commands: filepath.Join(home, "commands")}
		h.Server = sshtest.Start(t, `ForceCommand cd `+home+` && printf . >>commands && exec sh -c "$SSH_ORIGINAL_COMMAND"`)
		h.Accept(key + ".pub")
		w.more = append(w.more, pipeline.Host{Name: h.name, URL: "ssh://" + h.User + "@" + h.Address, HostKey: h.Fingerprint()})
		fleet = append(fleet, h)
	}
	return fleet
}

var hosts = flag.Int("hosts", 8, "number of hosts that steps run on at the same time")

// TestManyHostsTakeOneConnectionEach from one process, at the same time, for all steps of two deployments. The
// commands of a step are as few as can be; a release that is there takes one.
func TestManyHostsTakeOneConnectionEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "/usr/bin:/bin")
	w.handler.config.SSH = ssh.NewPool(ssh.Config{Dials: 8, Idle: time.Hour, KeepAlive: time.Minute}) // the machine also runs each sshd
	t.Cleanup(w.handler.config.SSH.Close)
	w.service = pipeline.Service{Name: "greeter", Manager: "none", Restart: "restart", ConfirmSet: true}
	w.test = []pipeline.Check{{Run: []string{"grep", "-q", "revision", "data/words.txt"}, Timeout: action.Duration(w.timeout)}}
	fleet := sshFleet(t, w, *hosts)
	w.revise(1, forever)
	w.revise(2, forever+"; # two")
	for _, step := range []struct {
		what     string
		n        int64
		event    string
		commands int
	}{
		{"replicate to a new host", 1, pipeline.HostReplicated, 4}, // the program is missing: sent, requested again; contents
		{"replicate an unchanged release", 1, pipeline.HostReplicated, 1},
		{"deploy", 1, pipeline.HostDeployed, 1},
		{"test", 1, pipeline.HostTested, 1},
		{"replicate a new release", 2, pipeline.HostReplicated, 2},
	} {
		var all sync.WaitGroup
		for _, h := range fleet {
			all.Go(func() {
				if o := w.doOn(t.Context(), h.name, step.n, step.event); o.Kind != action.Done {
					t.Errorf("%s on %s: %s: %s", step.what, h.name, o.Kind, o.Error)
				}
			})
		}
		all.Wait()
		for _, h := range fleet {
			if got := h.taken(t); got != step.commands {
				t.Errorf("%s on %s takes %d commands, want %d", step.what, h.name, got, step.commands)
			}
		}
	}
	for _, h := range fleet {
		if n := h.Accepted(); n != 1 {
			t.Errorf("%s: %d connections, want 1", h.name, n)
		}
	}
}

// TestManyHostsAreDeployedThroughOneJumpHost: ten at a time, each confirmed over a connection of its own.
func TestManyHostsAreDeployedThroughOneJumpHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "/usr/bin:/bin")
	w.service = pipeline.Service{Name: "greeter", Manager: "none", Restart: "restart"}
	fleet := sshFleet(t, w, 12)
	bastion := sshtest.Start(t)
	bastion.Accept(w.ssh.Identity + ".pub")
	w.ssh.Jump, w.ssh.JumpKey = "ssh://"+bastion.User+"@"+bastion.Address, bastion.Fingerprint()
	for n := range int64(2) {
		w.revise(n+1, forever+fmt.Sprintf("; # %d", n))
		slots := make(chan struct{}, 10)
		var all sync.WaitGroup
		for _, h := range fleet {
			all.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				for _, event := range []string{pipeline.HostReplicated, pipeline.HostDeployed, pipeline.HostTested} {
					if o := w.answered(h.name, n+1, event); o.Kind != action.Done {
						t.Errorf("%s of #%d on %s: %s: %s", event, n+1, h.name, o.Kind, o.Error)
					}
				}
			})
		}
		all.Wait()
	}
	if got := bastion.Accepted(); got != 1 {
		t.Errorf("%d connections to the jump host, want 1", got)
	}
	for _, h := range fleet {
		if got := h.Accepted(); got != 3 {
			t.Errorf("%s: %d connections, want 1, and 1 more for each switch that was confirmed", h.name, got)
		}
	}
}
