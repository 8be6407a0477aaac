//go:build linux && services

package faults_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/test/chaos"
)

// printing are the ids of the steps that print: each half of a build's lines, in pieces, between which there is some time.
var printing = []int{1, 2}

const (
	pieces  = 20
	errorsN = 7 // lines of a piece that go to standard error
	ending  = "the end, without a newline"
	padding = "that is made longer by these words until it has about a hundred bytes, as most have"
)

// repository makes the repository of a pipeline that has nothing but a build.
func (w *world) repository(name string) {
	w.t.Helper()
	folder := filepath.Join(w.folder, name)
	w.must(os.MkdirAll(folder, 0o755))
	steps := ""
	for _, id := range printing {
		steps += fmt.Sprintf(`
  step%[1]d:
    artifacts: [data%[1]d]
    container:
      image: none
      cmds:
        - set -e
        - n=%[2]d
        - for i in $(seq 0 %[3]d); do seq -f "line %%.0f of step %[1]d %[4]s" $((i*n+1)) $((i*n+n)); seq -f "error %%.0f" $((i*%[5]d+1)) $((i*%[5]d+%[5]d)) >&2; sleep 0.1; done
        - printf '%[6]s'
        - seq 1 50000 >data%[1]d
        - ln -f %[7]s/${BUILD_REF}/results/steps/%[1]d/output.log %[8]s/${BUILD_REF}-%[1]d
`, id, w.perPiece(), pieces-1, padding, errorsN, ending, w.workers(), w.kept())
	}
	for file, text := range map[string]string{
		"waybill.yaml": "pipeline: " + name +
			"\nstages:\n- {name: build, build: .wharf-ci.yml, retry: {backoff: {retries: 50, initial: 100ms, max: 1s}}, artifacts: {any: data1}}\n",
		".wharf-ci.yml": "print:" + steps + "pack:\n  zip: {container: {image: none, cmds: [echo packed]}}\n",
	} {
		w.must(os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644))
	}
	w.git(name, "init", "-q", "-b", "main")
}

// perPiece returns how many lines each printing step prints at a time.
func (w *world) perPiece() int { return max(1, *lines/len(printing)/pieces) }

func (w *world) git(name string, args ...string) {
	w.t.Helper()
	command := childtest.Command(w.t, "git", append([]string{"-c", "user.name=Ana", "-c", "user.email=ana@example.com"}, args...)...)
	command.Dir = filepath.Join(w.folder, name)
	if out, err := command.CombinedOutput(); err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// ship registers a new revision of each pipeline.
func (w *world) ship() {
	w.t.Helper()
	w.revision++
	for _, name := range pipelines {
		folder := filepath.Join(w.folder, name)
		w.must(os.WriteFile(filepath.Join(folder, "change"), fmt.Append(nil, w.revision), 0o644))
		w.git(name, "add", "-A")
		w.git(name, "commit", "-q", "-m", fmt.Sprintf("Change %d", w.revision))
		command := w.command(childtest.Context(w.t), false, "ship", "--detach", "--yes")
		command.Dir = folder
		if out, err := command.CombinedOutput(); err != nil {
			w.t.Fatalf("ship %s: %v\n%s", name, err, out)
		}
	}
}

// judge compares each build that is new with what its worker has recorded and its steps have printed.
func (w *world) judge() {
	w.t.Helper()
	found, err := w.ledger.Builds.List(w.t.Context(), builds.Query{})
	w.must(err)
	for i := range found {
		if b := found[i]; !w.judged[b.ID] {
			w.judged[b.ID] = true
			w.builds++
			w.ends[string(b.Status)]++
			w.judgeBuild(b)
			for step := range 4 {
				_ = os.Remove(w.keptLog(b.ID, step))
			}
			w.must(w.ledger.Builds.Delete(w.t.Context(), b.ID))
		}
	}
}

func (w *world) judgeBuild(b builds.Build) {
	w.t.Helper()
	whole := b.Status == build.Completed
	switch {
	case whole && b.Final == nil:
		w.t.Errorf("build %d is Completed without a final marker", b.ID)
	case !whole && (b.Status != build.Lost || !w.killed[b.ID] || b.Message == ""):
		w.t.Errorf("build %d is %s: %s %s; its worker was killed: %t", b.ID, b.Status, b.Reason, b.Message, w.killed[b.ID])
	}
	for _, step := range printing {
		w.judgeLog(b.ID, step, whole)
	}
	w.judgeEvents(b, whole)
	if whole {
		w.judgeArtifacts(b.ID)
	}
}

// judgeLog compares a log with the worker's file, and what it says the step printed with the output of the step. One
// that is not whole may end anywhere.
func (w *world) judgeLog(id builds.ID, step int, whole bool) {
	w.t.Helper()
	stored, err := io.ReadAll(w.ledger.Builds.OpenLog(w.t.Context(), id, step, 0))
	w.must(err)
	file, err := os.ReadFile(w.keptLog(id, step))
	if err != nil && whole {
		w.t.Errorf("build %d: %v", id, err)
	}
	if whole && sha256.Sum256(stored) != sha256.Sum256(file) || !bytes.HasPrefix(file, stored) {
		w.t.Errorf("build %d, step %d: %d bytes are stored, other than the %d of the worker's file", id, step, len(stored), len(file))
	}
	var printed [2][]byte // by standard output and error
	var next int64
	w.must(w.ledger.Builds.Log(w.t.Context(), id, step, 0, func(e build.Line) error {
		if next++; e.ID != next {
			return fmt.Errorf("build %d, step %d: entry %d comes after entry %d", id, step, e.ID, next-1)
		}
		stream := 0
		if e.Stderr {
			stream = 1
		}
		printed[stream] = e.AppendPrinted(printed[stream])
		return nil
	}))
	for stream, want := range w.expected(step) {
		if got := printed[stream]; whole && !bytes.Equal(got, want) || !bytes.HasPrefix(want, got) {
			w.t.Errorf("build %d, step %d, stream %d: %d bytes of output are stored, other than the %d that were printed", id,
				step, stream+1, len(got), len(want))
		}
	}
}

// expected returns the output of a step to standard output and error.
func (w *world) expected(step int) [2][]byte {
	var out, errs bytes.Buffer
	for i := range w.perPiece() * pieces {
		fmt.Fprintf(&out, "line %d of step %d %s\n", i+1, step, padding)
	}
	out.WriteString(ending)
	for i := range errorsN * pieces {
		fmt.Fprintf(&errs, "error %d\n", i+1)
	}
	return [2][]byte{out.Bytes(), errs.Bytes()}
}

// judgeEvents wants the events of the worker once each and in order.
func (w *world) judgeEvents(b builds.Build, whole bool) {
	w.t.Helper()
	events, err := w.ledger.Builds.Events(w.t.Context(), b.ID, 0, 0)
	w.must(err)
	next := int64(0)
	for _, e := range events {
		if e.Source != builds.Worker {
			continue
		}
		if next++; e.EventID != fmt.Sprint(next) || whole && !e.Applied {
			w.t.Errorf("build %d: event %d is %+v", b.ID, next, e)
		}
	}
	if whole && next != b.Final.Events {
		w.t.Errorf("build %d: %d events of the worker are stored, of %d", b.ID, next, b.Final.Events)
	}
}

// judgeArtifacts wants each step's artifact once, with the right bytes.
func (w *world) judgeArtifacts(id builds.ID) {
	w.t.Helper()
	var data bytes.Buffer
	for i := range 50_000 {
		fmt.Fprintln(&data, i+1)
	}
	want := sha256.Sum256(data.Bytes())
	stored, err := w.ledger.Builds.Artifacts(w.t.Context(), id, 0)
	w.must(err)
	names := map[string]int{}
	for _, a := range stored {
		names[a.Name]++
		if a.State != builds.Stored || a.SHA256 != hex.EncodeToString(want[:]) {
			w.t.Errorf("build %d: the artifact is %+v", id, a)
		}
	}
	if len(stored) != 2 || names["data1"] != 1 || names["data2"] != 1 {
		w.t.Errorf("build %d: its artifacts are %v", id, names)
	}
}

// leftLimit bounds how long it takes until everything is removed: the folders of killed workers are kept for a minute.
const leftLimit = 5 * time.Minute

// nothingLeft wants no worker, no step, no folder of either, and no action.
func (w *world) nothingLeft() {
	w.t.Helper()
	var left []string
	err := chaos.Until(w.t.Context(), "nothing is left", leftLimit, func(ctx context.Context) (bool, error) {
		left = w.left()
		live, err := w.ledger.Actions(ctx, queue.ActionQuery{LiveOnly: true, Limit: 1})
		for _, a := range live {
			left = append(left, fmt.Sprintf("action %s is %s", a.Name, a.Thread.Status))
		}
		return len(left) == 0, err
	})
	if err != nil {
		w.t.Errorf("%v:\n%s", err, strings.Join(left, "\n"))
	}
}

// left lists the processes and folders of workers.
func (w *world) left() []string {
	left, _ := filepath.Glob(filepath.Join(w.workers(), "[0-9]*"))
	scratch, _ := filepath.Glob(filepath.Join(w.temporary(), "*", "*", "*", "*"))
	left = append(left, scratch...)
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		line, err := os.ReadFile(filepath.Join(p, "cmdline"))
		if text := strings.ReplaceAll(string(line), "\x00", " "); err == nil &&
			(strings.Contains(text, w.workers()) || strings.Contains(text, w.kept())) {
			left = append(left, text)
		}
	}
	return left
}
