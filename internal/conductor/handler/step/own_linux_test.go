package step

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// TestOwnStepsBeforeTheSwitchHaveWhatTheServiceHas: a migration finds the shared folder and the password of the database. A step
// with `env: false` gets neither env nor secrets.
func TestOwnStepsBeforeTheSwitchHaveWhatTheServiceHas(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		secret := "it's $HOME \"quoted\""
		if err := os.WriteFile(filepath.Join(filepath.Dir(w.home), "password"), []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.service.Secrets = map[string]string{"PASSWORD": "password"}
		w.service.Env = map[string]string{"WHERE": "${host}", "PATH": "/nowhere", "IFS": "x"}
		w.service.Shared = []string{"data/db", "state"}
		script := `echo "$${WHERE-unset} $${PASSWORD-unset}" >>state/got; echo one; echo "password $${PASSWORD-}"`
		w.own = []pipeline.Step{{Name: "migrate", Event: "host-migrate", Run: []string{"/bin/sh", "-c", script}, Env: true},
			{Name: "check", Event: "host-check", Run: []string{"/bin/sh", "-c", script}}}
		w.revise(1, forever)
		w.done(1, pipeline.HostReplicated)
		if out := w.done(1, "host-migrate"); !out.Kept {
			t.Error("the output is not kept")
		}
		w.done(1, "host-check")
		if got, want := w.read("shared/state/got"), "oak "+secret+"\nunset unset\n"; got != want {
			t.Errorf("the steps wrote %q, want %q", got, want)
		}
		w.service.Env = nil // the program of the service needs a PATH
		w.done(1, pipeline.HostDeployed)
		if info, err := os.Stat(filepath.Join(w.dir, "current", "data", "db")); err != nil || !info.IsDir() {
			t.Errorf("the shared folder: %v", err)
		}
		left, err := filepath.Glob(filepath.Join(w.dir, ".waybill", ".new.*"))
		if err != nil || len(left) > 0 {
			t.Errorf("environments stay on the host: %q, %v", left, err)
		}
		keys := 0
		for number := 1; number < 4; number++ {
			seen, err := blob.Load(t.Context(), w.blobs, nil, evidence.Exchange(actionID(1, "host-migrate"), number))
			if err != nil {
				continue // it is of another step
			}
			keys++
			text := string(seen)
			if !strings.Contains(text, `"one"`) || !strings.Contains(text, `"password [secret:PASSWORD]"`) || strings.Contains(text, "quoted") {
				t.Errorf("kept is %s", text)
			}
		}
		if keys != 1 {
			t.Errorf("the output of the step is kept %d times", keys)
		}
	})
}

// TestAnOwnStepThatSharesWhatTheReleaseHasFails as the switch would, before it has run.
func TestAnOwnStepThatSharesWhatTheReleaseHasFails(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.service.Shared = []string{"data"}
		w.own = []pipeline.Step{{Name: "migrate", Event: "host-migrate", Run: []string{"sh", "-c", "echo ran >../../shared/ran"}}}
		w.revise(1, forever)
		w.done(1, pipeline.HostReplicated)
		w.wantOutcome(w.do(t.Context(), 1, "host-migrate"), action.Fatal, "has data itself, so it cannot be shared")
		if w.read("shared/ran") != "" {
			t.Error("the step ran")
		}
	})
}
