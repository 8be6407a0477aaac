//go:build services

package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pgtest"
)

const privateBlobs = "where processes with another home do not find them; name a store that all of them reach: blob.url in server.yaml"

// TestBlobsThatOthersDoNotFindAreWarnedOf runs both commands that store blobs beside a shared log.
func TestBlobsThatOthersDoNotFindAreWarnedOf(t *testing.T) {
	t.Parallel()
	url, dir := pgtest.URL(t), t.TempDir()
	for name, text := range map[string]string{
		"waybill.yaml": "pipeline: greeter\nservice: {manager: none}\nstages:\n" +
			"- {name: build, build: .wharf-ci.yml, artifacts: {any: a}}\n- {name: beta, hosts: [\"local://oak\"]}\n",
		".wharf-ci.yml":  "s: {a: {artifacts: [a], container: {image: i, cmds: [touch a]}}}\n",
		"../shared.yaml": "blob: {url: " + t.TempDir() + "}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"},
		{"-c", "user.name=Ana", "-c", "user.email=ana@example.net", "commit", "-q", "-m", "first"}} {
		git := childtest.Command(t, "git", args...)
		git.Dir = dir
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	// The server fails to listen, after it has opened the log.
	for command, want := range map[string]int{"ship --detach --again": fault.ExitDone, "serve api --listen 127.0.0.1:none": fault.ExitUsage} {
		for config, warned := range map[string]bool{"": true, "--config ../shared.yaml": false} {
			var said bytes.Buffer
			a := &cmdline.App{Place: assembly.Place{Dir: dir, Environment: func(string) string { return "" }},
				In: strings.NewReader(""), Out: io.Discard, Err: &said}
			line := append(strings.Fields(command+" "+config), "--store", url)
			status := runLine(t.Context(), a, line)
			if got := strings.Contains(said.String(), privateBlobs); got != warned || status != want {
				t.Errorf("waybill %s: exit status %d, want %d; warned %v, want %v\n%s", strings.Join(line, " "), status, want, got,
					warned, said.String())
			}
		}
	}
}
