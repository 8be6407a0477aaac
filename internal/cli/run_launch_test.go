package cli_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// launched runs `waybill run --launch -` with an input, and returns the output and its exit status.
func launched(t *testing.T, input, results string, arguments ...string) (text string, status int) {
	t.Helper()
	c := childtest.Command(t, "waybill", append([]string{"run", "--launch", "-", "--results-dir", results}, arguments...)...)
	c.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "HOME="+t.TempDir())
	c.Stdin = strings.NewReader(input)
	out, err := c.CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("%v\n%s", err, out)
	} else if ok {
		status = failed.ExitCode()
	}
	return string(out), status
}

func aLaunch() provisionerv1.Launch {
	return provisionerv1.Launch{Token: strings.Repeat("t", 40), CreateWorker: provisionerv1.CreateWorker{
		BuildID: 41, Project: "7", Instance: "shop", Nonce: strings.Repeat("n", 20), Inputs: map[string]string{"password": "swordfish"},
		Repository: &provisionerv1.Repository{URL: "file:///nowhere", Commit: strings.Repeat("a", 40)},
	}}
}

// TestAWorkerThatIsNotGivenEverythingDoesNothing: its provisioner died, or is of another version.
func TestAWorkerThatIsNotGivenEverythingDoesNothing(t *testing.T) {
	t.Parallel()
	whole, err := json.Marshal(aLaunch())
	if err != nil {
		t.Fatal(err)
	}
	unchecked := aLaunch()
	unchecked.BuildID = 0
	short := aLaunch()
	short.Token = "short"
	unfit := aLaunch()
	unfit.Push = &provisionerv1.Push{Size: 1, SHA256: "x"}
	for name, c := range map[string]struct{ input, want string }{
		"nothing":             {"", "want one whole object of JSON"},
		"a part":              {string(whole[:len(whole)/2]), "want one whole object of JSON"},
		"another version's":   {strings.Replace(string(whole), `"buildId"`, `"swordfishId"`, 1), "want one whole object of JSON"},
		"a request of no one": {text(t, unchecked), "want a number above zero"},
		"a short token":       {text(t, short), "want a token of at least 16 bytes"},
		"files twice":         {text(t, unfit), "want it with a snapshot or earlier, and without snapshotFile and bundleFile"},
		"too much":            {strings.Repeat(" ", 2<<20), "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := filepath.Join(t.TempDir(), "results")
			out, status := launched(t, c.input, results)
			if status != 2 || !strings.Contains(out, c.want) || strings.Contains(out, "swordfish") {
				t.Errorf("exit status %d:\n%s\nwant %s", status, out, c.want)
			}
			if _, err := os.Stat(results); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it made results: %v", err)
			}
		})
	}
	if out, status := launched(t, string(whole), t.TempDir(), "--in-place"); status != 2 ||
		!strings.Contains(out, "--launch wants --results-dir, and excludes") {
		t.Errorf("with --in-place: exit status %d\n%s", status, out)
	}
}

func text(t *testing.T, value any) string {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestAFileOfALaunchIsPrivate(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "launch.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o604); err != nil {
		t.Fatal(err)
	}
	out, err := childtest.Command(t, "waybill", "run", "--launch", file, "--results-dir", t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "chmod 600 "+file) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAWorkerIsSentItsFiles: it serves a port before it knows anything of the build, and the results at the same one.
func TestAWorkerIsSentItsFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, ".wharf-ci.yml"),
		[]byte("build: {app: {container: {image: i, cmds: [echo it was sent]}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	if _, _, err := workspace.Pack(t.Context(), &packed, folder, []string{".wharf-ci.yml"}); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(packed.Bytes())
	launch := aLaunch()
	launch.Repository, launch.Inputs, launch.Snapshot = nil, nil, "sha256/x"
	launch.Push = &provisionerv1.Push{Size: int64(packed.Len()), SHA256: hex.EncodeToString(sum[:])}
	results := filepath.Join(t.TempDir(), "results")
	c := childtest.Command(t, "waybill", "run", "--launch", "-", "--results-dir", results, "--runner", "process", "--linger", "0s")
	c.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "HOME="+t.TempDir())
	c.Stdin = strings.NewReader(text(t, launch))
	printed, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(printed)
	lines.Scan()
	address, found := strings.CutPrefix(lines.Text(), "files are awaited on ")
	if !found {
		t.Fatalf("printed %q", lines.Text())
	}
	for _, part := range []struct{ from, to, status int }{{0, 20, 200}, {0, 20, 409}, {20, packed.Len(), 200}} {
		r, err := http.NewRequestWithContext(childtest.Context(t), http.MethodPut,
			fmt.Sprintf("%s/api/workspace?offset=%d", address, part.from), bytes.NewReader(packed.Bytes()[part.from:part.to]))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+launch.Token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != part.status {
			t.Errorf("bytes %d to %d: %s", part.from, part.to, answer.Status)
		}
	}
	rest := ""
	for lines.Scan() {
		rest += lines.Text() + "\n"
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, rest)
	}
	log, err := childtest.Command(t, "waybill", "build", "log", results).Output()
	if err != nil || !strings.Contains(string(log), "it was sent") {
		t.Errorf("%v\n%s", err, log)
	}
}

// TestAWorkerTakesACloneThatWasMade by another container, or the reason why it was not.
func TestAWorkerTakesACloneThatWasMade(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	clone := filepath.Join(work, "clone")
	launch := aLaunch()
	launch.Clone, launch.Inputs = clone, nil
	if err := errors.Join(os.Mkdir(clone, 0o700),
		os.WriteFile(filepath.Join(clone, ".wharf-ci.yml"),
			[]byte("build: {app: {container: {image: i, cmds: [echo it was cloned]}}}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	results := filepath.Join(work, "results")
	run := func(into string) string {
		c := childtest.Command(t, "waybill", "run", "--launch", "-", "--results-dir", into, "--runner", "process",
			"--linger", "0s", "--cache-size", "0")
		c.Env = append(os.Environ(), "TMPDIR="+work, "HOME="+work)
		c.Stdin = strings.NewReader(text(t, launch))
		out, _ := c.CombinedOutput() // the results have it
		return string(out)
	}
	out := run(results)
	if log, err := os.ReadFile(filepath.Join(results, "steps", "1", "output.log")); err != nil ||
		!strings.Contains(string(log), "it was cloned") {
		t.Errorf("%s, %v\n%s", log, err, out)
	}
	if _, err := os.Stat(clone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the clone is still there: %v", err)
	}
	if err := os.WriteFile(clone+".error", []byte("fetch commit aaaa: not \x1b[31mfound"), 0o600); err != nil {
		t.Fatal(err)
	}
	out = run(filepath.Join(work, "failed"))
	if !strings.Contains(out, "fetch commit aaaa: not found") {
		t.Error(out)
	}
}
