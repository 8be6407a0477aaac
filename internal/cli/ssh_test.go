//go:build services

package cli_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/waybill-dev/waybill/internal/ssh/sshtest"
)

// TestSSHStories runs testdata/ssh/*.txtar: stories with two ssh hosts, $OAK and $ELM, whose accounts
// begin in the folders oak and elm of the story and accept the private key $KEY.
func TestSSHStories(t *testing.T) {
	t.Parallel()
	stories, err := filepath.Glob("testdata/ssh/*.txtar")
	if err != nil || len(stories) == 0 {
		t.Fatal("no stories", err)
	}
	for _, story := range stories {
		t.Run(strings.TrimSuffix(filepath.Base(story), ".txtar"), func(t *testing.T) {
			t.Parallel()
			play(t, story, func(env *testscript.Env) error { return sshHosts(t, env) })
		})
	}
}

// sshHosts starts the hosts of a story.
func sshHosts(t *testing.T, env *testscript.Env) error {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	sshtest.Keygen(t, key)
	env.Setenv("KEY", key)
	for _, name := range []string{"oak", "elm"} {
		home := filepath.Join(env.WorkDir, name)
		if err := os.Mkdir(home, 0o700); err != nil {
			return err
		}
		s := sshtest.Start(t, `ForceCommand cd `+home+` && exec sh -c "$SSH_ORIGINAL_COMMAND"`)
		s.Accept(key + ".pub")
		env.Setenv(strings.ToUpper(name), s.User+"@"+s.Address)
		env.Defer(func() { endService(home) })
	}
	return nil
}

// endService ends the services that a deployment started below the home of an account.
func endService(home string) {
	states, _ := filepath.Glob(filepath.Join(home, "waybill", "*", ".waybill", "state"))
	for _, file := range states {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(text))[:2] { // the supervisor, the service
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				_ = syscall.Kill(-pid, syscall.SIGKILL) // each has a group of its own; it may have ended
			}
		}
	}
}
