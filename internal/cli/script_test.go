package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/goldentest"
)

// TestMain puts the waybill command into PATH, and makes it a command of the stories.
func TestMain(m *testing.M) {
	testscript.Main(withProgram{m}, map[string]func(){"waybill": func() {}})
}

// withProgram runs tests with the program itself where testscript has put this binary under its name.
type withProgram struct{ *testing.M }

func (m withProgram) Run() int {
	place, err := exec.LookPath("waybill")
	if err == nil {
		err = os.Remove(place)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	path, err := childtest.Program(context.Background(), "../..", filepath.Dir(place))
	if err == nil && path != place {
		err = os.Symlink(path, place)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.M.Run()
}

// storyLimit bounds one story, with the time for which it waits until others leave it room: all of one test begin to wait at the same time.
const storyLimit = 35 * time.Minute

// TestStories runs testdata/script/*.txtar. Each is a story of a user, in a folder and a home of its own.
func TestStories(t *testing.T) {
	t.Parallel()
	stories, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(stories) == 0 {
		t.Fatal("no stories", err)
	}
	for _, story := range stories {
		t.Run(strings.TrimSuffix(filepath.Base(story), ".txtar"), func(t *testing.T) {
			t.Parallel()
			play(t, story)
		})
	}
}

// play runs one story. A program in it that does not end is ended, and fails it.
func play(t *testing.T, story string, more ...func(*testscript.Env) error) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Files:               []string{story},
		Deadline:            time.Now().Add(storyLimit),
		RequireUniqueNames:  true,
		RequireExplicitExec: false,
		UpdateScripts:       goldentest.Rewrite(),
		Setup: func(env *testscript.Env) error {
			for _, set := range append([]func(*testscript.Env) error{setUp}, more...) {
				if err := set(env); err != nil {
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"commit": commit,
			"status": status,
			"edit":   edit,
			"answer": answer, "promote": promote, "flowcluster": flowCluster,
		},
	})
}

// setUp gives a story its own git identity, and ends the services that it leaves behind.
func setUp(env *testscript.Env) error {
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("USER", "ana")
	env.Setenv("WAYBILL_RUNNER", "process") // whether or not this computer has Docker
	env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	env.Setenv("GORACE", os.Getenv("GORACE")) // settings of the race detector
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env.Setenv("GIT_"+who+"_NAME", "Ana")
		env.Setenv("GIT_"+who+"_EMAIL", "ana@example.net")
	}
	for _, name := range []string{"PORT", "PORT2"} {
		port, err := childtest.FreePort(context.Background())
		if err != nil {
			return err
		}
		env.Setenv(name, strconv.Itoa(port))
	}
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		return err
	}
	env.Setenv("DOCS", docs)
	env.Defer(func() { stopServices(env.WorkDir) })
	return acceptHomes(env)
}

// acceptHomes accepts the homes that a story begins with, but for that of a folder named clone.
func acceptHomes(env *testscript.Env) error {
	for _, pattern := range []string{".waybill", "*/.waybill"} {
		homes, _ := filepath.Glob(filepath.Join(env.WorkDir, pattern)) // the pattern is a good one
		for _, home := range homes {
			if filepath.Base(filepath.Dir(home)) == "clone" {
				continue
			}
			ctx, cancel := context.WithTimeoutCause(context.Background(), childtest.Limit, childtest.ErrLimit)
			accept := exec.CommandContext(ctx, "waybill", "config", "accept")
			accept.Dir, accept.Env, accept.WaitDelay = filepath.Dir(home), append(os.Environ(), env.Vars...), childtest.Linger
			out, err := accept.CombinedOutput()
			cancel()
			if err != nil {
				return fmt.Errorf("accept %s: %w\n%s", home, err, out)
			}
		}
	}
	return nil
}

// stopServices ends the programs that still run on the local hosts of every home below a folder.
func stopServices(root string) {
	homes, _ := filepath.Glob(filepath.Join(root, "*", ".waybill", "waybill.db")) // the pattern is a good one
	for _, database := range homes {
		project := filepath.Dir(filepath.Dir(database))
		ctx, cancel := context.WithTimeoutCause(context.Background(), childtest.Limit, childtest.ErrLimit)
		stop := exec.CommandContext(ctx, "waybill", "pipeline", "stop")
		stop.Dir, stop.Env, stop.WaitDelay = project, append(os.Environ(), "HOME="+root), childtest.Linger
		out, err := stop.CombinedOutput()
		cancel()
		if err != nil {
			fmt.Fprintf(os.Stderr, "stop the services of %s: %v\n%s", project, err, out)
		}
	}
}

// commit MESSAGE commits everything in the current folder; the first time it makes the repository.
func commit(ts *testscript.TestScript, _ bool, args []string) {
	if _, err := os.Stat(ts.MkAbs(".git")); err != nil {
		ts.Check(ts.Exec("git", "init", "-q", "-b", "main"))
	}
	ts.Check(ts.Exec("git", "add", "-A"))
	ts.Check(ts.Exec("git", "commit", "-q", "-m", strings.Join(args, " ")))
}

// status N COMMAND… runs a command and wants exit status N.
func status(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: status N command…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}

// edit FILE OLD NEW replaces a text of the file.
func edit(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: edit file old new")
	}
	content := ts.ReadFile(args[0])
	if !strings.Contains(content, args[1]) {
		ts.Fatalf("%s does not contain %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(content, args[1], args[2])), 0o644))
}
