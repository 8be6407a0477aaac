package step

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

const mebibyte = 1 << 20

// wantEnd checks the size of a file in the service's folder, and its last bytes.
func (w *world) wantEnd(name string, size int, end string) {
	w.t.Helper()
	content := w.read(name)
	if len(content) != size || content[max(0, len(content)-len(end)):] != end {
		w.t.Errorf("%s has %d bytes and ends in %q; want %d and %q", name, len(content), content[max(0, len(content)-40):], size, end)
	}
}

// TestTheLogOfAServiceIsBounded however fast the service prints, and has its last lines.
func TestTheLogOfAServiceIsBounded(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, "echo begun; head -c 100000000 /dev/zero; echo; echo the end; "+forever)
		w.ship(1)
		size := func(name string) int64 {
			info, err := os.Stat(filepath.Join(w.dir, ".waybill", name))
			if err != nil {
				return 0
			}
			return info.Size()
		}
		ends := func() bool {
			if log, before := size("log"), size("log.1"); log > 25*mebibyte || before > 25*mebibyte {
				t.Fatalf("the log has %d bytes, the one before it %d", log, before)
			}
			log, _, err := w.handler.config.ReadLog(t.Context(),
				pipeline.Place{Host: &pipeline.Host{Name: "oak", URL: w.url, Root: w.root}, SSH: w.ssh},
				&pipeline.Service{Name: "greeter"}, LogQuery{Most: 100})
			return err == nil && strings.HasSuffix(string(log.Text), "the end\nI am oak\n")
		}
		until(t, "the last lines are in the log", ends)
		if size("log.1") < 8*mebibyte {
			t.Errorf("of what came before only %d bytes are kept", size("log.1"))
		}
	})
}

// TestALogThatCannotBeWrittenKeepsNoServiceWaiting: the output is dropped in the meantime.
func TestALogThatCannotBeWrittenKeepsNoServiceWaiting(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, "head -c 30000000 /dev/zero; echo printed >$0.done; until [ -e ../../go ]; do sleep 0.1; done; "+forever)
		w.done(1, pipeline.HostReplicated)
		log := filepath.Join(w.dir, ".waybill", "log")
		if err := os.MkdirAll(filepath.Join(log, "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
		w.service.Exec = []string{"sh", "./greeter", "oak"}
		w.done(1, pipeline.HostDeployed)
		done := filepath.Join("releases", w.release(1), "greeter.done")
		until(t, "the service has printed", func() bool { return w.read(done) != "" })
	})
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
		Run: []string{"sh", "-c",
			`head -c 68000000 /dev/zero; until [ "$(wc -c <../../.waybill/output)" -lt 1000 ]; do sleep 0.1; done; echo emptied`}}}
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

// TestALogThatWasRemovedReturns: a person may remove it to make room.
func TestALogThatWasRemovedReturns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, "while sleep 0.05; do echo a line; done")
	w.ship(1)
	log := filepath.Join(w.dir, ".waybill", "log")
	until(t, "the service prints", func() bool { info, err := os.Stat(log); return err == nil && info.Size() > 0 })
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	until(t, "the log returns", func() bool { info, err := os.Stat(log); return err == nil && info.Size() > 0 })
}
