package step

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// lose leaves of a file on the host what a power loss may: its first bytes, at most most.
func (w *world) lose(name string, most int) {
	w.t.Helper()
	content := []byte(w.read(name))
	if err := os.WriteFile(filepath.Join(w.dir, name), content[:min(most, len(content))], 0o644); err != nil { //nolint:gosec // as the host program makes it
		w.t.Fatal(err)
	}
}

// hostPrograms returns the names of the host programs in a world, below the folder of the service.
func (w *world) hostPrograms() (names []string) {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.dir, ".waybill", "host-*"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range found {
		names = append(names, ".waybill/"+filepath.Base(name))
	}
	return names
}

func TestDamagedHostProgramIsSentAgain(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.own = []pipeline.Step{{Name: "warm", Event: "host-warm", Run: []string{"sh", "-c", "echo warmed >>../../shared/count"}}}
		w.test = []pipeline.Check{{Run: []string{"sh", "-c", "echo tested >>../../shared/count"}, Timeout: action.Duration(20_000_000_000)}}
		n := int64(0)
		for _, most := range []int{0, 3000, len(hostProgram) - 10} {
			n++
			w.revise(n, forever+"; # "+strings.Repeat("x", int(n)))
			for _, event := range []string{pipeline.HostReplicated, pipeline.HostDeployed, pipeline.HostTested, "host-warm"} {
				for _, name := range w.hostPrograms() {
					w.lose(name, most)
				}
				w.done(n, event)
			}
			w.wantShipped(n)
			if got := w.read("shared/count"); got != strings.Repeat("tested\nwarmed\n", int(n)) {
				t.Errorf("after #%d the steps ran as %q", n, got)
			}
		}
		if err := os.Chmod(filepath.Join(w.dir, w.hostPrograms()[0]), 0o644); err != nil {
			t.Fatal(err)
		}
		w.lose(w.hostPrograms()[0], 0)
		w.stopAll()
		if s := w.state(); s.Service != 0 || s.Supervisor != 0 {
			t.Errorf("after stop: %+v", s)
		}
	})
}

// A host program that ends with success and prints nothing, as an empty one does, has done nothing.
func TestAnswerWithoutItsEndIsNoSuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.own = []pipeline.Step{{Name: "warm", Event: "host-warm", Run: []string{"true"}}}
	w.test = []pipeline.Check{{Run: []string{"true"}, Timeout: action.Duration(20_000_000_000)}}
	w.revise(1, forever)
	w.ship(1)
	dir := t.TempDir()
	env := w.handler.config.Env
	for name, script := range map[string]string{
		"says nothing":     `exit 0`,
		"loses its answer": `dash "$@" | head -n 1`,
	} {
		// In place of the shell that runs the program; the call's own shell checks the program's
		// digest before.
		calls := filepath.Join(dir, name)
		program := fmt.Sprintf("#!/bin/dash\ncase $1 in */host-*) echo call >>'%s' ;; *) exec dash \"$@\" ;; esac\n%s\n", calls, script)
		if err := os.WriteFile(filepath.Join(dir, "sh"), []byte(program), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		w.handler.config.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
		for _, event := range []string{pipeline.HostReplicated, pipeline.HostDeployed, pipeline.HostTested, "host-warm"} {
			if err := os.WriteFile(calls, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan action.Outcome, 1)
			go func() { ended <- w.do(ctx, 1, event) }()
			if event == pipeline.HostTested { // tries its checks until its time is over
				until(t, "four tries of "+event, func() bool {
					content, err := os.ReadFile(calls)
					return err == nil && bytes.Count(content, []byte("\n")) > 3
				})
				cancel()
			}
			o := <-ended
			cancel()
			if o.Kind != action.Retry || !strings.Contains(o.Error, "is not complete") {
				t.Errorf("%s: %s is %s: %s", name, event, o.Kind, o.Error)
			}
		}
		w.handler.config.Env = env
	}
}

// The output of own steps, however long and with or without a line end, never hides the end of the answer.
func TestLongOutputOfAStepKeepsItsAnswerWhole(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.own = []pipeline.Step{{Name: "long", Event: "host-long",
			Run: []string{"sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; printf 'the end'; exit 1"}},
			{Name: "short", Event: "host-short", Run: []string{"printf", "done=replicate"}}}
		w.revise(1, forever)
		w.done(1, pipeline.HostReplicated)
		w.wantOutcome(w.do(t.Context(), 1, "host-long"), action.Retry, "exit status 1", "the end")
		w.done(1, "host-short")
	})
}

func TestDamagedFenceIsRefused(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.revise(2, forever+"; # two")
		w.ship(2)
		fence := w.read(".waybill/fence")
		for _, most := range []int{0, 3, len(fence) - 1} {
			w.lose(".waybill/fence", most)
			w.wantOutcome(w.do(t.Context(), 1, pipeline.HostReplicated), action.Fatal, ".waybill/fence is damaged", "remove the file")
			w.wantOutcome(w.do(t.Context(), 2, pipeline.HostDeployed), action.Fatal, ".waybill/fence is damaged")
		}
		if err := os.Remove(filepath.Join(w.dir, ".waybill", "fence")); err != nil {
			t.Fatal(err)
		}
		w.ship(2)
	})
}

// An empty manifest describes no release: an archive received under it is not built, and the next attempt sends it
// again.
func TestEmptyManifestBuildsNothing(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.done(1, pipeline.HostReplicated)
		manifest := ".waybill/manifests/" + w.release(1)
		if err := os.RemoveAll(filepath.Join(w.dir, "releases", w.release(1))); err != nil {
			t.Fatal(err)
		}
		w.lose(manifest, 0)
		var stream bytes.Buffer
		zipped := gzip.NewWriter(&stream)
		if _, err := zipped.Write(tarOf(t, tar.Header{Name: incomingDir + strings.Repeat("0", 64), Mode: 0o444},
			tar.Header{Name: freshDir + "greeter", Mode: 0o444})); err != nil {
			t.Fatal(err)
		}
		if err := zipped.Close(); err != nil {
			t.Fatal(err)
		}
		if exit, out := w.verb(true, "receive", stream.String(),
			w.identity(1, pipeline.HostReplicated, 100)...); exit != exitDamaged || strings.Contains(out, "state=") {
			t.Errorf("receive ends with %d: %s", exit, out)
		}
		w.attempts = 100
		w.ship(1)
		w.wantShipped(1)
	})
}

// An attempt that was cut off after its switch left it to the next one to make the switch durable.
func TestSwitchIsSyncedBeforeItIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t)) // a busybox need not search for sync in PATH
	tool, err := filepath.EvalSymlinks(filepath.Join("/usr/bin", "sync"))
	if err != nil {
		t.Fatal(err)
	}
	dir, list := t.TempDir(), filepath.Join(t.TempDir(), "list")
	script := fmt.Sprintf("#!/bin/dash\nfor f; do echo \"$PWD $f\" >>%s; done\nexec %s \"$@\"\n", quote(list), tool)
	if err := os.WriteFile(filepath.Join(dir, "sync"), []byte(script), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	w.handler.config.Env = []string{"PATH=" + dir + ":" + strings.TrimPrefix(w.handler.config.Env[0], "PATH=")}
	synced := func(names ...string) {
		t.Helper()
		content, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !bytes.Contains(content, []byte(w.dir+" "+name)) {
				t.Errorf("%s was not synced: %s", name, content)
			}
		}
		if err := os.Remove(list); err != nil {
			t.Fatal(err)
		}
	}
	w.revise(1, forever)
	w.done(1, pipeline.HostReplicated)
	synced(w.dir+"/.waybill/host-", ".waybill\n", ".waybill/fence.new", ".waybill/manifests/.new.",
		".waybill/manifests\n", "releases\n", "cas\n")
	w.done(1, pipeline.HostReplicated)
	synced("releases\n")
	w.done(1, pipeline.HostDeployed)
	synced(".waybill/revert.new", ".waybill/units/.new.", ".waybill/units\n", ".\n", ".waybill\n")
	// as an attempt leaves it that ends between its switch and its sync
	if err := os.WriteFile(filepath.Join(w.dir, ".waybill", "revert"), []byte("armed - -\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.done(1, pipeline.HostDeployed)
	synced(".\n", ".waybill\n")
}

// Files that a host has lost since they were replicated are replicated again by the step that needs it, until the
// host has switched.
func TestReleaseThatAHostHasLostIsReplicatedAgain(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		for _, lost := range []string{".", "releases", ".waybill"} {
			w.done(1, pipeline.HostReplicated)
			if err := os.RemoveAll(filepath.Join(w.dir, lost)); err != nil {
				t.Fatal(err)
			}
			if out := w.done(1, pipeline.HostDeployed); out.Already {
				t.Errorf("without %s: %+v", lost, out)
			}
			w.wantShipped(1)
			w.stopAll()
			if err := os.RemoveAll(w.dir); err != nil {
				t.Fatal(err)
			}
		}
		w.own = []pipeline.Step{{Name: "warm", Event: "host-warm", Run: []string{"true"}}}
		w.wantOutcome(w.do(t.Context(), 1, "host-warm"), action.Fatal, "release "+w.release(1)+" is not on the host", "waybill ship --again")
	})
}
