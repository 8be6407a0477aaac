package step

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// verbs returns the verb that each process of a world's host program does.
func (w *world) verbs() map[int]string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		w.t.Fatal(err)
	}
	verbs := map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")) // gone in the meantime
		_, words, ours := bytes.Cut(line, []byte(w.dir+"/.waybill/host-"))
		if parts := strings.Split(string(words), "\x00"); ours && len(parts) > 2 {
			verbs[pid] = parts[2]
		}
	}
	return verbs
}

// programs returns the processes that do what a caller waits for.
func (w *world) programs() (pids []int) {
	for pid, verb := range w.verbs() {
		if !slices.Contains([]string{"supervise", "collect", "await"}, verb) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// endPrograms ends the leftovers of a test: timers, and programs whose callers it has cut off. They would write into
// a folder that is being removed.
func (w *world) endPrograms() {
	until(w.t, "the programs end", func() bool {
		left := w.verbs()
		for pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone in the meantime
		}
		return len(left) == 0
	})
}

// services counts the living service processes of a world: those whose directory is a release. A child of one that has not become
// another program yet is the same service.
func (w *world) services() int {
	parents := map[string]string{}
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		dir := filepath.Dir(link)
		cwd, _ := os.Readlink(link)
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		status, _ := os.ReadFile(filepath.Join(dir, "status"))
		if strings.HasPrefix(cwd, w.dir+"/releases/") && bytes.Contains(line, []byte("greeter\x00oak")) {
			_, parent, _ := strings.Cut(string(status), "\nPPid:\t")
			parent, _, _ = strings.Cut(parent, "\n")
			parents[filepath.Base(dir)] = parent
		}
	}
	count := 0
	for _, parent := range parents {
		if _, child := parents[parent]; !child {
			count++
		}
	}
	return count
}

// finish tries a step until it is done; nothing may be fatal.
func (w *world) finish(n int64, event string) {
	w.t.Helper()
	for range 50 {
		o := w.do(w.t.Context(), n, event)
		switch o.Kind {
		case action.Done:
			return
		case action.Fatal, action.BadInput:
			w.t.Fatalf("%s of #%d: %s: %s", event, n, o.Kind, o.Error)
		}
	}
	w.t.Fatalf("%s of #%d is never done", event, n)
}

// wantShipped checks a host after everything has been interrupted and repaired.
func (w *world) wantShipped(n int64) {
	w.t.Helper()
	s := w.state()
	if s.Release != w.release(n) || s.Running != w.release(n) || s.Service == 0 || s.Supervisor == 0 || s.Unfinished || s.Rank != n {
		w.t.Errorf("after #%d: %+v", n, s)
	}
	if n > 1 && s.Previous != w.release(n-1) {
		w.t.Errorf("previous is %s, want %s", s.Previous, w.release(n-1))
	}
	if got := w.services(); got != 1 {
		w.t.Errorf("%d services are up", got)
	}
	if got := w.read("current/data/words.txt"); got != fmt.Sprintf("revision %d\n", n) {
		w.t.Errorf("content %q", got)
	}
}

// interruptions are the ways to cut off an attempt.
var interruptions = map[string]func(w *world, cut context.CancelCauseFunc){
	"caller":  func(_ *world, cut context.CancelCauseFunc) { cut(errors.New("cut")) },
	"program": func(w *world, _ context.CancelCauseFunc) { w.kill(func(pid int) int { return pid }) },
	"connection": func(w *world, cut context.CancelCauseFunc) {
		if w.cutConnection == nil {
			cut(errors.New("cut"))
			return
		}
		w.cutConnection()
	},
	"group": func(w *world, _ context.CancelCauseFunc) { w.kill(func(pid int) int { return -pid }) },
}

func (w *world) kill(who func(pid int) int) {
	for _, pid := range w.programs() {
		_ = syscall.Kill(who(pid), syscall.SIGKILL) // gone in the meantime, or no leader of a group
	}
}

var every = flag.Bool("every", false, "run each test of the host program under each shell and over each way to a host, instead of one of these")

// TestEveryVerbMayBeCutOff kills the caller, the host program, or all of its group at growing
// distances into each verb; the next attempt must always end where an undisturbed one would.
// Each distance is tried under one shell or over one way, and with the flag -every under all.
func TestEveryVerbMayBeCutOff(t *testing.T) {
	var turns atomic.Int64
	all := shellsAndWays()
	underThese(t, all, func(t *testing.T, w *world) {
		n, hit, turn := int64(0), 0, int(turns.Add(1))
		for how, interrupt := range interruptions {
			for i, after := range []time.Duration{5, 30, 80, 150, 250, 400, 700} {
				if !*every && (i+turn)%len(all) != 0 {
					continue
				}
				n++
				w.revise(n, forever+"; # "+how)
				for _, event := range []string{pipeline.HostReplicated, pipeline.HostDeployed} {
					ctx, cut := context.WithCancelCause(t.Context())
					timer := time.AfterFunc(after*time.Millisecond, func() { interrupt(w, cut) })
					if o := w.do(ctx, n, event); o.Kind != action.Done {
						hit++
						t.Logf("%s after %dms in %s: %s: %s", how, after, event, o.Kind, o.Error)
					}
					timer.Stop()
					cut(nil)
					w.finish(n, event)
				}
				w.wantShipped(n)
			}
		}
		if hit == 0 {
			t.Error("no attempt was cut off")
		}
	})
}

func TestStopMayBeCutOff(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.ship(1)
		timer := time.AfterFunc(100*time.Millisecond, func() { interruptions["group"](w, nil) })
		cut, err := w.stop() // it may have been quicker
		timer.Stop()
		t.Logf("the stop that was cut off: %+v, %v", cut, err)
		w.stopAll()
		if s := w.state(); s.Service != 0 || s.Supervisor != 0 || w.services() != 0 {
			t.Errorf("%+v, %d services", s, w.services())
		}
	})
}

func TestRunGoesOnWhenItsProgramIsKilled(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.own = []pipeline.Step{{Name: "warm", Event: "host-warm",
			Run: []string{"sh", "-c", "echo begun >>../../shared/count; sleep 2; echo ended >>../../shared/count"}}}
		w.revise(1, forever)
		w.done(1, pipeline.HostReplicated)
		ctx, cut := context.WithCancelCause(t.Context())
		ended := make(chan action.Outcome, 1)
		go func() { ended <- w.do(ctx, 1, "host-warm") }()
		until(t, "the step has begun", func() bool { return w.read("shared/count") != "" })
		cut(conductor.ErrLeaseLost)
		if o := <-ended; o.Kind != action.GivenBack {
			t.Errorf("outcome %s", o.Kind)
		}
		w.finish(1, "host-warm")
		if got := w.read("shared/count"); got != "begun\nended\n" {
			t.Errorf("ran as %q", got)
		}
	})
}

func TestHostWithoutPermissionIsFatal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// Root may write everywhere, so the host program gives its rights away; any other user has none
	// in a folder without them.
	script := "#!/bin/dash\nexec setpriv --reuid=65534 --regid=65534 --clear-groups /bin/dash \"$@\"\n"
	if os.Getuid() != 0 {
		script = "#!/bin/dash\nexec /bin/dash \"$@\"\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "sh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, dir+":/usr/bin:/bin")
	if os.Getuid() != 0 {
		forbid(t, filepath.Dir(w.dir))
	}
	w.revise(1, forever)
	w.wantOutcome(w.do(t.Context(), 1, pipeline.HostReplicated), action.Fatal, "Permission denied",
		"let the user that runs Waybill there write to "+w.dir)
}

func TestFolderOfAnotherUserIsRefused(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.ship(1)
		w.revise(2, forever)
		if os.Getuid() != 0 {
			return // only root can give a folder away
		}
		give := func(user int) {
			t.Helper()
			if err := os.Chown(w.dir, user, -1); err != nil {
				t.Fatal(err)
			}
		}
		give(12345)
		const refused = "greeter belongs to another user"
		w.wantOutcome(w.do(t.Context(), 2, pipeline.HostReplicated), action.Fatal, refused, "if you trust what is in it")
		if err := os.Remove((&program{folder: w.dir}).path()); err != nil {
			t.Fatal(err)
		}
		w.wantOutcome(w.do(t.Context(), 2, pipeline.HostReplicated), action.Fatal, refused)
		for sudo, want := range map[string]int{"12345": 0, "12346": exitForeign, "": exitForeign} {
			c := exec.CommandContext(t.Context(), "sh", "-c", ownLine+`own "$1"`, "sh", w.dir)
			c.Env = append(os.Environ(), "SUDO_UID="+sudo)
			if out, _ := c.CombinedOutput(); c.ProcessState.ExitCode() != want {
				t.Errorf("for root of the user %q by sudo: exit status %d, want %d\n%s", sudo, c.ProcessState.ExitCode(), want, out)
			}
		}
		give(0)
		w.ship(2)
	})
}

// forbid makes a folder in which its own user may not write until the test ends.
func forbid(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Error(err)
		}
	})
}

func TestHostThatLacksToolsSaysWhich(t *testing.T) {
	t.Parallel()
	dir := pathWith(t, "dash")
	for _, tool := range []string{"mkdir", "chmod", "cat", "wc", "mv", "sed", "find"} {
		if err := os.Symlink("/usr/bin/"+tool, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, dir)
	w.revise(1, forever)
	w.wantOutcome(w.do(t.Context(), 1, pipeline.HostReplicated), action.Fatal, "host oak lacks tar, df,",
		"flock or lockf", "install what is missing")
}

func TestAlteredArtifactIsFatal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, forever)
	blob := filepath.Join(w.home, "blobs", w.revisions[1].Artifacts[0].Blob)
	if err := os.WriteFile(blob, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := w.do(t.Context(), 1, pipeline.HostReplicated)
	w.wantOutcome(o, action.Fatal, "was registered with SHA-256", "build the revision again")
	if o.Code != string(fault.Corrupt) {
		t.Errorf("code %s", o.Code)
	}
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	w.wantOutcome(w.do(t.Context(), 1, pipeline.HostReplicated), action.Fatal, "not found")
}

// TestAToolThatVanishesIsNamed: a host without flock has no other command at work.
func TestAToolThatVanishesIsNamed(t *testing.T) {
	t.Parallel()
	tools := t.TempDir()
	for _, dir := range []string{"/usr/bin", "/bin"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			_ = os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(tools, e.Name())) // both folders may have it
		}
	}
	w := newWorld(t, tools)
	w.revise(1, forever)
	w.ship(1)
	for _, tool := range []string{"flock", "gzip"} {
		path := filepath.Join(tools, tool)
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostDeployed), action.Fatal, tool, "not found on this host any more",
			"install what is missing")
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
	}
}
