package step

import (
	"archive/tar"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// shell returns the sh that the host program runs under.
func (w *world) shell() string {
	path, _, _ := strings.Cut(strings.TrimPrefix(w.handler.config.Env[0], "PATH="), ":")
	return filepath.Join(path, "sh")
}

// verb calls the host program as an attempt that is not this process's own: with the number it has,
// and with a reader of its answer or none. It returns the exit status and the answer.
func (w *world) verb(listens bool, verb, stdin string, args ...string) (int, string) {
	w.t.Helper()
	programs, err := filepath.Glob(filepath.Join(w.dir, ".waybill", "host-*"))
	if err != nil || len(programs) != 1 {
		w.t.Fatalf("host programs: %v, %v", programs, err)
	}
	c := exec.CommandContext(w.t.Context(), w.shell(),
		append([]string{programs[0], w.dir, verb}, args...)...)
	c.Env, c.Stdin = w.handler.config.Env, strings.NewReader(stdin)
	var out strings.Builder
	c.Stdout = &out
	if !listens {
		r, dead, err := os.Pipe()
		if err != nil {
			w.t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = dead.Close() }) // no reader
		c.Stdout = dead
	}
	err = c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), out.String()
	} else if err != nil {
		w.t.Fatal(err)
	}
	return 0, out.String()
}

// traces returns what a build or a switch would leave behind: the inode of a release, its content, and its links.
func (w *world) traces(release string) string {
	w.t.Helper()
	folder := filepath.Join(w.dir, "releases", release)
	info, err := os.Stat(folder)
	if err != nil {
		w.t.Fatal(err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		w.t.Fatal("no inodes here")
	}
	text := fmt.Sprintf("%d, changed %v\n", stat.Ino, info.ModTime())
	if err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		link, _ := os.Readlink(path) // "" unless it is a link
		text += path + " " + link + "\n"
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return text + w.read(".waybill/fence") + w.read(".waybill/units/"+release)
}

// identity returns the arguments by which the host recognizes an attempt.
func (w *world) identity(n int64, event string, attempt int) []string {
	return []string{"action=" + actionID(n, event).String(), fmt.Sprint("attempt=", attempt), "release=" + w.release(n),
		"ledger=ledger-1", fmt.Sprint("rank=", n),
		fmt.Sprint("name=greeter#", n)}
}

// An attempt whose input was cut off fails before it has the lock, perhaps while a newer one is at work: its record
// stays.
func TestAttemptWithoutTheLockRecordsNothing(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.ship(1)
		recorded := w.read(".waybill/results/" + actionID(1, pipeline.HostReplicated).String())
		manifest := w.read(".waybill/manifests/" + w.release(1))
		args := append(w.identity(1, pipeline.HostReplicated, 0), fmt.Sprint("bytes=", len(manifest)+1))
		if exit, out := w.verb(true, "replicate", manifest, args...); exit != exitDisk {
			t.Errorf("replicate with input that is cut off ends with %d: %s", exit, out)
		}
		if now := w.read(".waybill/results/" + actionID(1, pipeline.HostReplicated).String()); now != recorded {
			t.Errorf("recorded\n%snow\n%s", recorded, now)
		}
	})
}

// An attempt whose caller is dead, or that a newer attempt has replaced, gets the lock after all is
// done.
func TestDeadAttemptChangesNothing(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.service.Shared = []string{"state"}
		w.own = []pipeline.Step{{Name: "warm", Event: "host-warm", Run: []string{"sh", "-c", "echo warmed >>../../shared/state/count"}}}
		w.revise(1, forever)
		w.ship(1)
		w.done(1, "host-warm")
		before, manifest := w.traces(w.release(1)), w.read(".waybill/manifests/"+w.release(1))
		bytes := fmt.Sprint("bytes=", len(manifest))
		for name, c := range map[string]struct {
			listens bool
			attempt int
			exit    int
		}{
			"the caller is dead":   {false, 100, exitBusy},
			"a newer attempt came": {true, 0, exitFenced},
		} {
			if exit, out := w.verb(c.listens, "replicate", manifest,
				append(w.identity(1, pipeline.HostReplicated, c.attempt), bytes)...); exit != c.exit || strings.Contains(out, "state=") {
				t.Errorf("%s: replicate ends with %d: %s", name, exit, out)
			}
			if exit, out := w.verb(c.listens, "receive", "", w.identity(1, pipeline.HostReplicated, c.attempt)...); exit != c.exit {
				t.Errorf("%s: receive ends with %d: %s", name, exit, out)
			}
			if exit, out := w.verb(c.listens, "deploy", "x", append(w.identity(1, pipeline.HostDeployed, c.attempt), "bytes=1")...); exit != c.exit {
				t.Errorf("%s: deploy ends with %d: %s", name, exit, out)
			}
			if exit, out := w.verb(c.listens, "run", "",
				append(w.identity(1, "host-warm", c.attempt), "--", "sh", "-c", "echo again >>../../shared/state/count")...); exit != c.exit {
				t.Errorf("%s: run ends with %d: %s", name, exit, out)
			}
		}
		if diff := cmp.Diff(before, w.traces(w.release(1))); diff != "" {
			t.Errorf("the release that runs has changed (-before +after)\n%s", diff)
		}
		if got := w.read("shared/state/count"); got != "warmed\n" {
			t.Errorf("the step ran as %q", got)
		}
		if out := w.done(1, pipeline.HostDeployed); !out.Already {
			t.Errorf("the next attempt: %+v", out)
		}
	})
}

// The answer of a replicate is lost at the moment at which it is written: the caller listens until
// the lock is had.
func TestLostAnswerBuildsNothing(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.ship(1)
		before, manifest := w.traces(w.release(1)), w.read(".waybill/manifests/"+w.release(1))
		program := "echo() { case $1 in entered=1) return 0 ;; *) return 1 ;; esac; }\n" + hostProgram
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append(w.identity(1, pipeline.HostReplicated, 100), fmt.Sprint("bytes=", len(manifest)))
		c := exec.CommandContext(t.Context(), w.shell(), append([]string{path, w.dir, "replicate"}, args...)...)
		c.Env, c.Stdin = w.handler.config.Env, strings.NewReader(manifest)
		_ = c.Run() // how it ends is lost, too
		if diff := cmp.Diff(before, w.traces(w.release(1))); diff != "" {
			t.Errorf("the release that runs has changed (-before +after)\n%s", diff)
		}
	})
}

// TestAReleaseInUseWhoseFilesChangedIsBuiltBeside: a running release is never replaced. The next deployment of the
// same revision switches to a whole one in another folder, again and again.
func TestAReleaseInUseWhoseFilesChangedIsBuiltBeside(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.ship(1)
		folder := w.release(1)
		if err := os.WriteFile(filepath.Join(w.dir, "releases", folder, "data", "cache"), []byte("made by the service"), 0o600); err != nil {
			t.Fatal(err)
		}
		if changed := w.verify(); changed != nil {
			t.Errorf("with a file that was added: changed: %q", changed)
		}
		for _, beside := range []string{w.release(1) + ".2", w.release(1) + ".3"} {
			words := filepath.Join(w.dir, "releases", folder, "data", "words.txt")
			if err := errors.Join(os.Chmod(words, 0o644), os.WriteFile(words, []byte("edited"), 0o644)); err != nil {
				t.Fatal(err)
			}
			if changed := w.verify(); !slices.Equal(changed, []string{"data/words.txt"}) {
				t.Errorf("changed: %q", changed)
			}
			damaged := w.traces(folder)
			if out := w.ship(1); out.Release != beside || out.Already {
				t.Errorf("%+v, want the release in %s", out, beside)
			}
			if diff := cmp.Diff(damaged, w.traces(folder)); diff != "" {
				t.Errorf("the release that ran has changed (-before +after)\n%s", diff)
			}
			if s := w.state(); s.Release != beside || s.Running != beside || s.Previous != folder ||
				w.read("current/data/words.txt") != "revision 1\n" {
				t.Errorf("%+v", s)
			}
			if changed := w.verify(); changed != nil {
				t.Errorf("changed: %q", changed)
			}
			folder = beside
		}
		if out := w.ship(1); !out.Already || out.Release != folder {
			t.Errorf("once more: %+v", out)
		}
	})
}

// TestTheHostsEnvironmentDamagesNoRelease: options of tar and of other tools in the environment of the account change nothing.
func TestTheHostsEnvironmentDamagesNoRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "/usr/bin:/bin")
	w.handler.config.Env = append(slices.Clone(w.handler.config.Env),
		"TAR_OPTIONS=--exclude=* --transform=s,words,other,", "TAPE=/dev/full", "GZIP=-l",
		"GREP_OPTIONS=-v", "CDPATH=/tmp:.")
	w.revise(1, forever)
	w.ship(1)
	if changed := w.verify(); changed != nil || w.read("current/data/words.txt") != "revision 1\n" {
		t.Errorf("changed: %q", changed)
	}
}

// verify returns the files of the current release that are not those of its artifact.
func (w *world) verify() []string {
	w.t.Helper()
	d := w.definition()
	at, _ := d.Place("greeter/beta/all/oak")
	changed, err := w.handler.config.Verify(w.t.Context(), at, "greeter")
	if err != nil {
		w.t.Fatal(err)
	}
	return changed
}

// Names and links in an artifact are names, whatever they look like.
func TestNamesInArtifactsAreNeverOptions(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.service = pipeline.Service{Name: "greeter", Manager: "none", Restart: "restart"}
		victim := t.TempDir()
		if err := os.WriteFile(filepath.Join(victim, "authorized_keys"), []byte("key\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		link := func(name, target string) tar.Header {
			return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
		}
		links := []tar.Header{link("authorized_keys", "-ft"+victim), link("zzz", "-ft."), link("y/current", "-ft."), link("-s", "--help")}
		odd := []tar.Header{{Name: "x/current/index.html", Size: 1, Mode: 0o644}, {Name: "-rf", Size: 1, Mode: 0o755},
			{Name: `back\slash\n`, Size: 2, Mode: 0o644},
			{Name: " space ", Size: 3, Mode: 0o644}, {Name: "Ä/ä", Size: 4, Mode: 0o644}, {Name: "A", Size: 5, Mode: 0o644},
			{Name: "a", Size: 6, Mode: 0o644}, {Name: "$(id)`id`", Size: 7, Mode: 0o644}}
		w.register(1, "a.tar", tarOf(t, append(links, odd...)...))
		w.ship(1)
		if out := w.done(1, pipeline.HostReplicated); !out.Already {
			t.Errorf("replicated again: %+v", out)
		}
		for _, l := range links {
			if got, err := os.Readlink(filepath.Join(w.dir, "releases", w.release(1), l.Name)); got != l.Linkname {
				t.Errorf("%s leads to %q (%v), want %q", l.Name, got, err, l.Linkname)
			}
		}
		if got, err := os.ReadFile(filepath.Join(victim, "authorized_keys")); string(got) != "key\n" {
			t.Errorf("a file outside is %q, %v", got, err)
		}
		if got, err := os.Readlink(filepath.Join(w.dir, "current")); got != "releases/"+w.release(1) {
			t.Errorf("current leads to %q, %v", got, err)
		}
	})
}

func TestProgramsOfStepsMayLookLikeOptions(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.own = []pipeline.Step{{Name: "odd", Event: "host-odd", Run: []string{"--help"}}}
		w.revise(1, forever)
		w.done(1, pipeline.HostReplicated)
		if o := w.do(t.Context(), 1, "host-odd"); o.Kind == action.Done {
			t.Errorf("a program that does not exist has run: %s", o.Output)
		}
	})
}

// A service's time begins when its program does, however late that is: here its shell is slow to
// find it.
func TestReadyCountsFromTheStartOfTheService(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		slow := t.TempDir()
		sh := w.shell()
		// every shell that is to become the service waits for longer than ready.for
		script := "#!/bin/dash\ncase ${2-} in cd*service*) sleep 1 ;; esac\nexec " + sh + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(slow, "sh"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		w.handler.config.Env = []string{"PATH=" + slow + ":" + strings.TrimPrefix(w.handler.config.Env[0], "PATH=")}
		w.service.Ready = pipeline.Ready{For: action.Duration(500 * time.Millisecond), Within: action.Duration(4 * time.Second)}
		w.revise(1, "exit 3")
		w.done(1, pipeline.HostReplicated)
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostDeployed), action.Retry, "did not stay up")
	})
}
