//go:build services

package step

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/ssh"
)

// counting is a service that notes each of its starts, with the word, in a shared folder.
func (w *world) counting(n int64) {
	w.service.Shared = []string{"count"}
	w.revise(n, fmt.Sprintf("echo %d >>count/starts; ", n)+forever)
}

// starts returns the revisions that were started, in order.
func (w *world) starts() []string { return strings.Fields(w.read("shared/count/starts")) }

// wantStarts checks that the revisions 1 to n were started once each.
func (w *world) wantStarts(n int64) {
	w.t.Helper()
	var want []string
	for i := int64(1); i <= n; i++ {
		want = append(want, strconv.FormatInt(i, 10))
	}
	until(w.t, "the service of the last one is up", func() bool { return len(w.starts()) >= len(want) })
	if got := w.starts(); strings.Join(got, " ") != strings.Join(want, " ") {
		w.t.Errorf("started %v, want %v", got, want)
	}
}

// deaths are lines of shell in which the sshd of a command dies, before the command, as it begins, or after its end,
// when only the answer is lost.
var deaths = map[string]string{
	"before": `kill -9 $PPID`,
	"during": `sh -c "$SSH_ORIGINAL_COMMAND" <&0 & kill -9 $PPID; wait`,
	"after":  `sh -c "$SSH_ORIGINAL_COMMAND" >/dev/null; kill -9 $PPID`,
}

// TestAnSSHServerMayDieInEachCommand of a deployment. Completed work is found, and nothing is done twice.
func TestAnSSHServerMayDieInEachCommand(t *testing.T) {
	t.Parallel()
	for when, death := range deaths {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			count, fatal, script := filepath.Join(dir, "count"), filepath.Join(dir, "fatal"), filepath.Join(dir, "script")
			line := `echo >>` + count + `; if [ "$(wc -l <` + count + `)" -eq "$(cat ` + fatal + `)" ]; then ` + death +
				`; else exec sh -c "$SSH_ORIGINAL_COMMAND"; fi`
			if err := os.WriteFile(script, []byte(line+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			w, _ := sshWorld(t, "ForceCommand . "+script)
			arm := func(command int64) { // counted from 1; 0: none dies
				if err := os.WriteFile(fatal, fmt.Appendln(nil, command), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for n, reached := int64(1), true; reached; n++ {
				w.counting(n)
				_ = os.Remove(count) // missing before the first round
				arm(n)
				w.finish(n, pipeline.HostReplicated)
				w.finish(n, pipeline.HostDeployed)
				sent, err := os.ReadFile(count)
				if err != nil {
					t.Fatal(err)
				}
				reached = int64(len(sent)) > n // the command that dies is sent again
				arm(0)
				w.wantShipped(n)
				w.wantStarts(n)
				if !reached && n < 5 {
					t.Errorf("a deployment takes %d commands, want at least replicate, receive, deploy and confirm", len(sent))
				}
			}
		})
	}
}

// TestASilentNetworkInTheSwitch swallows everything once the new service is up. The attempt ends and costs nothing, the
// next one finds the switch made.
func TestASilentNetworkInTheSwitch(t *testing.T) {
	t.Parallel()
	w, s := sshWorld(t)
	w.handler.config.SSH = ssh.NewPool(ssh.Config{KeepAlive: 100 * time.Millisecond})
	t.Cleanup(w.handler.config.SSH.Close)
	w.service.Ready.For = action.Duration(time.Second)
	for n := int64(1); n <= 2; n++ {
		w.counting(n)
		w.finish(n, pipeline.HostReplicated) // a busy machine may be silent for as long as the network
		ended := make(chan action.Outcome, 1)
		go func() { ended <- w.do(t.Context(), n, pipeline.HostDeployed) }()
		until(t, "the service is up", func() bool { return int64(len(w.starts())) == n })
		s.Swallow(true)
		w.wantOutcome(<-ended, action.Throttle, "reach host oak")
		s.Swallow(false)
		w.finish(n, pipeline.HostDeployed)
		w.wantShipped(n)
		w.wantStarts(n)
	}
}

// TestAHostThatReboots: a reboot during a deploy ends every process and keeps every file. The recorded process ids then belong
// to other programs, which must not be ended.
func TestAHostThatReboots(t *testing.T) {
	t.Parallel()
	w, s := sshWorld(t)
	w.service.Ready.For = action.Duration(time.Second)
	w.counting(1)
	w.ship(1)
	w.counting(2)
	w.done(2, pipeline.HostReplicated)
	ended := make(chan action.Outcome, 1)
	go func() { ended <- w.do(t.Context(), 2, pipeline.HostDeployed) }()
	until(t, "the service is up", func() bool { return len(w.starts()) == 2 })
	s.Refuse(true)
	w.wantOutcome(<-ended, action.Throttle, "reach host oak")
	w.endPrograms()
	w.kill(func(pid int) int { return pid })
	until(t, "all processes are gone", func() bool { w.endServices(); return w.services() == 0 })
	bystander := exec.Command("sleep", "600")
	bystander.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
	state := fmt.Sprintf("%d %[1]d 0 %d %s x \n", bystander.Process.Pid, time.Now().Unix(), w.release(2))
	if err := os.WriteFile(filepath.Join(w.dir, ".waybill", "state"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Refuse(false)
	if s := w.state(); s.Service != 0 || s.Supervisor != 0 || s.Release != w.release(2) || !s.Unfinished {
		t.Errorf("after the reboot: %+v", s)
	}
	w.finish(2, pipeline.HostDeployed)
	w.wantShipped(2)
	if got := strings.Join(w.starts(), " "); got != "1 2 2" { // once more, since nothing starts it at boot
		t.Errorf("started %s", got)
	}
	if !alive(bystander.Process.Pid) {
		t.Error("a process that the test did not start was ended")
	}
}

// endServices kills the living service processes of a world.
func (w *world) endServices() {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if cwd, _ := os.Readlink(link); strings.HasPrefix(cwd, w.dir+"/releases/") {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL) // gone in the meantime
			}
		}
	}
}

// TestControllersThatDisagree deploy to one host at the same time, each until it is done or refused. The newer deployment
// stays, and the older one is never started after it.
func TestControllersThatDisagree(t *testing.T) {
	t.Parallel()
	w, _ := sshWorld(t)
	w.service.Ready.For = action.Duration(100 * time.Millisecond)
	const rounds = 4
	var all sync.WaitGroup
	for n := int64(1); n <= 2*rounds; n++ {
		w.counting(n)
	}
	for n := int64(1); n <= 2*rounds; n += 2 {
		for _, rank := range []int64{n, n + 1} {
			all.Go(func() {
				for _, event := range []string{pipeline.HostReplicated, pipeline.HostDeployed, pipeline.HostDeployed} {
					o := w.do(t.Context(), rank, event)
					for o.Kind == action.RetryAfter || o.Kind == action.Throttle { // the other one has the lock
						o = w.do(t.Context(), rank, event)
					}
					if fenced := fmt.Sprintf("greeter#%d was here", n+1); o.Kind != action.Done && (rank != n || !strings.Contains(o.Error, fenced)) {
						t.Errorf("%s of #%d: %s: %s", event, rank, o.Kind, o.Error)
					}
				}
			})
		}
		all.Wait()
		if s := w.state(); s.Rank != n+1 || s.Release != w.release(n+1) || s.Running != w.release(n+1) || s.Unfinished {
			t.Errorf("after #%d and #%d: %+v", n, n+1, s)
		}
	}
	last := 0
	for _, start := range w.starts() {
		n, _ := strconv.Atoi(start)
		if n <= last {
			t.Errorf("started %v: an older one after a newer one, or one twice", w.starts())
		}
		last = n
	}
}

// TestAClockThatJumps on the host decides nothing: neither the time that is asked for, nor that of files.
func TestAClockThatJumps(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	jump := filepath.Join(bin, "jump")
	date := "#!/bin/sh\nexec /usr/bin/date -d \"@$(($(/usr/bin/date +%s) + $(cat " + jump + ")))\" \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "date"), []byte(date), 0o755); err != nil {
		t.Fatal(err)
	}
	w, _ := sshWorld(t, `ForceCommand export PATH=`+bin+`:$PATH; exec sh -c "$SSH_ORIGINAL_COMMAND"`)
	const day = 24 * time.Hour
	for i, by := range []time.Duration{0, -day, 400 * day, -400 * day, 0, 5 * day} {
		n := int64(i + 1)
		if err := os.WriteFile(jump, fmt.Appendln(nil, int(by.Seconds())), 0o600); err != nil {
			t.Fatal(err)
		}
		w.counting(n)
		w.ship(n)
		w.wantShipped(n)
		if out := w.done(n, pipeline.HostDeployed); !out.Already {
			t.Errorf("with the clock off by %s it is deployed again: %+v", by, out)
		}
		then := time.Now().Add(by)
		for _, name := range []string{"releases/" + w.release(n), ".waybill/results/" + actionID(n, pipeline.HostDeployed).String()} {
			if err := os.Chtimes(filepath.Join(w.dir, name), then, then); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.wantStarts(6)
}

// TestAHostThatLosesACommand reports which, and the former release runs on.
func TestAHostThatLosesACommand(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	linkTools(t, "/usr/bin", bin)
	linkTools(t, "/bin", bin)
	w, _ := sshWorld(t, `ForceCommand export PATH=`+bin+`; exec sh -c "$SSH_ORIGINAL_COMMAND"`)
	w.counting(1)
	w.ship(1)
	for i, tool := range []string{"tar", "sync", "find"} {
		if err := os.Remove(filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
		w.counting(int64(i + 2))
		w.wantOutcome(w.do(t.Context(), int64(i+2), pipeline.HostReplicated), action.Fatal, tool, "not found",
			"install what is missing on the host")
		if s := w.state(); s.Release != w.release(1) || s.Running != w.release(1) || s.Service == 0 {
			t.Errorf("without %s: %+v", tool, s)
		}
		linkTools(t, "/usr/bin", bin)
	}
	w.ship(4)
	if s := w.state(); s.Running != w.release(4) || s.Previous != w.release(1) {
		t.Errorf("with everything again: %+v", s)
	}
}
