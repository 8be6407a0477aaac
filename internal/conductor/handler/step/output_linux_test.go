package step

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

const mebibyte = 1 << 20

// makeLarge makes a file of 100 MiB without blocks, except for its last line.
func makeLarge(t *testing.T, path, end string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(end), 100*mebibyte-int64(len(end))); err != nil {
		t.Fatal(err)
	}
}

// wantEnd checks the size of a file in the service's folder, and its last bytes.
func (w *world) wantEnd(name string, size int, end string) {
	w.t.Helper()
	content := w.read(name)
	if len(content) != size || content[max(0, len(content)-len(end)):] != end {
		w.t.Errorf("%s has %d bytes and ends in %q; want %d and %q", name, len(content), content[max(0, len(content)-40):], size, end)
	}
}

func TestTheLogOfAServiceIsTrimmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "/usr/bin:/bin")
	w.revise(1, forever)
	w.ship(1)
	programs, err := filepath.Glob(filepath.Join(w.dir, ".waybill", "host-*"))
	if err != nil || len(programs) != 1 {
		t.Fatal(programs, err)
	}
	once := t.TempDir() // the loop of trim sleeps; this sleep ends it before the second round
	if err := os.WriteFile(filepath.Join(once, "sleep"), []byte("#!/bin/sh\n[ ! -e \"$0.ran\" ] && : >\"$0.ran\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	round := func() {
		t.Helper()
		_ = os.Remove(filepath.Join(once, "sleep.ran"))
		trim := exec.CommandContext(t.Context(), w.shell(), programs[0], w.dir, "trim", fmt.Sprint("name=", os.Getpid()))
		trim.Env = []string{"PATH=" + once + ":/usr/bin:/bin"}
		if out, err := trim.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	log := filepath.Join(w.dir, ".waybill", "log")
	makeLarge(t, log, "the end\n")
	round()
	w.wantEnd(".waybill/log", 0, "")
	w.wantEnd(".waybill/log.1", 64*mebibyte, "the end\n")

	makeLarge(t, log+".1", "of one before it\n") // as a restart leaves it
	round()
	w.wantEnd(".waybill/log.1", 64*mebibyte, "of one before it\n")
}

func TestTheOutputOfHooksIsBounded(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.service.Before = []string{"sh", "-c", "head -c 3000000 /dev/zero; echo; echo because; exit 1"}
		w.revise(1, forever)
		w.done(1, pipeline.HostReplicated)
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostDeployed), action.Retry, "hook before ended with exit status 1", "because")
		w.wantEnd(".waybill/hook", mebibyte, "because\n")
	})
}

// TestTheOutputOfAProgramIsBoundedWhileItRuns: the program ends only after its output was emptied.
func TestTheOutputOfAProgramIsBoundedWhileItRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "/usr/bin:/bin")
	w.own = []pipeline.Step{{Name: "loud", Event: "host-loud", Policy: action.Policy{AttemptTimeout: action.Duration(w.timeout)},
		Run: []string{"sh", "-c", `head -c 68000000 /dev/zero; until [ "$(wc -c <../../.waybill/output)" -lt 1000 ]; do sleep 0.1; done; echo emptied`}}}
	w.revise(1, forever)
	w.ship(1)
	w.done(1, "host-loud")
	w.wantEnd(".waybill/output", len("emptied\n"), "emptied\n")
}

// TestOutputThatCannotBeWrittenIsNamed: a shell ends without a word of the host program when the redirection of a special
// built-in fails.
func TestOutputThatCannotBeWrittenIsNamed(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.own = []pipeline.Step{{Name: "warm", Event: "host-warm", Run: []string{"true"}}}
		w.revise(1, forever)
		w.ship(1)
		if err := os.Mkdir(filepath.Join(w.dir, ".waybill", "output"), 0o700); err != nil {
			t.Fatal(err)
		}
		w.wantOutcome(w.do(t.Context(), 1, "host-warm"), action.Fatal, "write "+w.dir+"/.waybill/output")
	})
}
