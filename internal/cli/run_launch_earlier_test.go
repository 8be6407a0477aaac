package cli_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// resumedFile is a build's file. Its steps leave their names in runs of the user's folder.
const resumedFile = `one: {tool: {artifacts: [tool], container: {image: i, cmds: ['echo tool >>"$HOME/runs"', 'echo "echo it was made" >tool']}}}
two: {use: {needs: [tool], container: {image: i, cmds: ['echo use >>"$HOME/runs"', sh tool]}}}
`

// bundle returns the files that the step one/tool of an earlier build of resumedFile has left.
func bundle(t *testing.T) []byte {
	t.Helper()
	node, problems := yamltree.Parse(build.FileName, []byte(resumedFile), yamltree.BuildFile)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	file, problems := build.Parse(node)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	plan, problems := build.MakePlan(file, build.Choice{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	b, err := results.NewBundle(&out)
	if err != nil {
		t.Fatal(err)
	}
	log := build.FormatEntry(nil, build.Entry{At: time.Unix(1, 0).UTC(), Text: []byte("made before")})
	const tool = "echo it was made\n"
	err = b.AddStep(results.BundledStep{ID: 1, Log: bytes.NewReader(log),
		Artifacts: []build.Artifact{{ID: 1, Name: "tool", Size: int64(len(tool)), SHA256: sumOf([]byte(tool)), Kind: build.KindFile}},
		End:       build.Update{Status: build.Completed, Trailer: &build.Trailer{Entries: 1, Bytes: int64(len(log)), SHA256: sumOf(log)}},
		Open:      func(build.Artifact) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(tool)), nil }})
	if err := errors.Join(err, b.Close(results.Earlier{Build: "40",
		Steps: plan.Earlier(func(id int) string { return map[int]string{2: "it failed"}[id] })})); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// resumer is a worker that resumes build 40.
type resumer struct {
	t       *testing.T
	command *exec.Cmd
	lines   *bufio.Scanner // the output
	address string         // at which it awaits the bundle; "": it does not
	token   string
	work    string
	results string
}

// resuming starts a worker on a clone with resumedFile.
func resuming(t *testing.T, change func(l *provisionerv1.Launch)) *resumer {
	t.Helper()
	w := &resumer{t: t, work: t.TempDir()}
	w.results = filepath.Join(w.work, "results")
	launch := aLaunch()
	launch.Clone, launch.Inputs = filepath.Join(w.work, "clone"), nil
	launch.Earlier = &provisionerv1.Earlier{BuildID: 40, Bundle: "build/41/earlier/x"}
	change(&launch)
	w.token = launch.Token
	if err := errors.Join(os.Mkdir(launch.Clone, 0o700),
		os.WriteFile(filepath.Join(launch.Clone, build.FileName), []byte(resumedFile), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.command = childtest.Command(t, "waybill", "run", "--launch", "-", "--results-dir", w.results, "--runner", "process",
		"--linger", "0s", "--cache-size", "0")
	w.command.Env = append(os.Environ(), "TMPDIR="+w.work, "HOME="+w.work)
	w.command.Stdin = strings.NewReader(text(t, launch))
	printed, err := w.command.StderrPipe()
	if err == nil {
		err = w.command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if w.lines = bufio.NewScanner(printed); launch.Push != nil {
		w.lines.Scan()
		w.address = strings.TrimPrefix(w.lines.Text(), "files are awaited on ")
	}
	return w
}

// put sends a part of a bundle, and returns the status of the answer.
func (w *resumer) put(offset int, part []byte) int {
	w.t.Helper()
	r, err := http.NewRequestWithContext(childtest.Context(w.t), http.MethodPut,
		fmt.Sprintf("%s/api/workspace?offset=%d", w.address, offset), bytes.NewReader(part))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// ends waits for the end of the worker, and returns the steps that it ran and its log.
func (w *resumer) ends() (ran, log string) {
	w.t.Helper()
	rest := ""
	for w.lines.Scan() {
		rest += w.lines.Text() + "\n"
	}
	if err := w.command.Wait(); err != nil {
		w.t.Errorf("%v\n%s", err, rest)
	}
	runs, err := os.ReadFile(filepath.Join(w.work, "runs"))
	if err != nil {
		w.t.Errorf("%v\n%s", err, rest)
	}
	own, err := childtest.Command(w.t, "waybill", "build", "log", w.results, "0").Output()
	if err != nil {
		w.t.Errorf("%v\n%s", err, own)
	}
	r, err := results.Open(w.results)
	if err == nil {
		err = r.Verify()
	}
	if err != nil {
		w.t.Error(err)
	}
	return strings.Join(strings.Fields(string(runs)), " "), string(own)
}

func pushOf(data []byte) *provisionerv1.Push {
	return &provisionerv1.Push{Size: int64(len(data)), SHA256: sumOf(data)}
}

// TestAWorkerReusesStepsThatItIsSent: in parts, since the provisioner may die in the middle and another continue; or
// as a file.
func TestAWorkerReusesStepsThatItIsSent(t *testing.T) {
	t.Parallel()
	data := bundle(t)
	file := filepath.Join(t.TempDir(), "bundle")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(l *provisionerv1.Launch){
		"pushed": func(l *provisionerv1.Launch) { l.Push = pushOf(data) }, "copied": func(l *provisionerv1.Launch) { l.BundleFile = file }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := resuming(t, change)
			if w.address != "" {
				for _, part := range []struct{ from, to, status int }{{0, 100, 200}, {0, 100, 409}, {100, len(data), 200}} {
					if status := w.put(part.from, data[part.from:part.to]); status != part.status {
						t.Errorf("bytes %d to %d: %d", part.from, part.to, status)
					}
				}
			}
			ran, log := w.ends()
			if ran != "use" || !strings.Contains(log, "one/tool is reused from build 40\n") ||
				!strings.Contains(log, "two/use runs again: it failed\n") {
				t.Errorf("it ran %s:\n%s", ran, log)
			}
			shown, err := childtest.Command(t, "waybill", "build", "log", w.results).Output()
			if err != nil || !strings.Contains(string(shown), "made before") || !strings.Contains(string(shown), "it was made") {
				t.Errorf("%v\n%s", err, shown)
			}
		})
	}
}

// TestAWorkerRunsEveryStepWithoutAWholeBundle, and reports why.
func TestAWorkerRunsEveryStepWithoutAWholeBundle(t *testing.T) {
	t.Parallel()
	data := bundle(t)
	for name, c := range map[string]struct {
		sent []byte
		push *provisionerv1.Push
		want string
	}{
		"another digest": {data, &provisionerv1.Push{Size: int64(len(data)), SHA256: sumOf(nil)},
			"has the digest " + sumOf(data) + ", want " + sumOf(nil) + ", 3 times"},
		"a torn one":       {data[:len(data)/2], pushOf(data[:len(data)/2]), "unexpected EOF"},
		"no bundle at all": {[]byte("a bundle"), pushOf([]byte("a bundle")), "magic number mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := resuming(t, func(l *provisionerv1.Launch) { l.Push = c.push })
			for tries := 0; tries < 3 && w.put(0, c.sent) == http.StatusUnprocessableEntity; tries++ {
				continue
			}
			ran, log := w.ends()
			if ran != "tool use" || !strings.Contains(log,
				"one/tool runs again: the results of the earlier build cannot be used: ") || !strings.Contains(log, c.want) {
				t.Errorf("it ran %s:\n%s", ran, log)
			}
		})
	}
}

// TestAWorkerThatDiesWhileItIsSentStepsLeavesNothing that looks like a build.
func TestAWorkerThatDiesWhileItIsSentStepsLeavesNothing(t *testing.T) {
	t.Parallel()
	data := bundle(t)
	w := resuming(t, func(l *provisionerv1.Launch) { l.Push = pushOf(data) })
	if status := w.put(0, data[:len(data)/2]); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if err := w.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = w.command.Wait() // it was killed
	if _, err := os.Stat(w.results); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there are results: %v", err)
	}
}
