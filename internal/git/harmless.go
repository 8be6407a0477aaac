package git

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// harmless finds, once, which settings keep git from executing programs of a repository's own configuration.
type harmless struct {
	mu    sync.Mutex
	known bool
	found []setting
}

// setting is a variable of git's configuration and its value.
type setting struct{ name, value string }

// fixed settings hold in every repository. Filters have names of their own, and are searched for.
var fixed = []setting{ //nolint:gochecknoglobals // a constant table
	{"core.quotePath", "false"},
	{"core.fsmonitor", "false"},
	{"core.hooksPath", os.DevNull},
	{"log.showSignature", "false"}, // would run gpg.program
	{"core.autocrlf", "false"},     // the same content for everyone
	{"core.safecrlf", "false"},
}

// settings returns the fixed settings, and one for each filter that the repository itself defines.
// Those of the person's own configuration stay, since files stored by them, as with Git LFS, would
// look changed.
func (h *harmless) settings(ctx context.Context, dir string) ([]setting, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known {
		return h.found, nil
	}
	found := slices.Clone(fixed)
	out, err := command{dir: dir, settings: fixed}.run(ctx, "config", "--list", "--show-scope", "--name-only", "--includes", "-z")
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil { // git may read the configuration all the same, and would execute what it names
		return nil, err
	}
	fields := strings.Split(string(out), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		scope, name := fields[i], fields[i+1]
		if (scope == "local" || scope == "worktree") && runsProgram(name) {
			found = append(found, setting{name, ""})
		}
	}
	h.known, h.found = true, found
	return found, nil
}

// waitDelay bounds the time for which a child of git keeps its output open after git has ended.
const waitDelay = 5 * time.Second

// runsProgram reports whether a variable names the program of a filter, or reports that its failure is an error.
func runsProgram(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "filter.") &&
		(strings.HasSuffix(name, ".clean") || strings.HasSuffix(name, ".smudge") || strings.HasSuffix(name, ".process") ||
			strings.HasSuffix(name, ".required"))
}

// command configures how git is run.
type command struct {
	dir      string    // a folder
	settings []setting // win over those of files
	environ  []string  // wins over the environment that keeps git to this machine
	input    string    // its standard input
}

// run runs git and returns its standard output.
func (r command) run(ctx context.Context, arguments ...string) ([]byte, error) {
	stdout := printed{most: mostPrinted}
	var stderr ending
	c := exec.CommandContext(ctx, "git", append([]string{"-C", r.dir}, arguments...)...)
	c.Stdin, c.Stdout, c.Stderr, c.WaitDelay = strings.NewReader(r.input), &stdout, &stderr, waitDelay
	// A repository of which a part is missing would fetch it, by a program that its configuration
	// names.
	c.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none",
		"GIT_NO_REPLACE_OBJECTS=1") // a label is that of the commit itself
	given, _ := strconv.Atoi(os.Getenv("GIT_CONFIG_COUNT")) // the person's own; 0 without
	for i, s := range r.settings {
		n := strconv.Itoa(given + i)
		c.Env = append(c.Env, "GIT_CONFIG_KEY_"+n+"="+s.name, "GIT_CONFIG_VALUE_"+n+"="+s.value)
	}
	c.Env = append(c.Env, "GIT_CONFIG_COUNT="+strconv.Itoa(given+len(r.settings)))
	c.Env = append(c.Env, r.environ...)
	err := c.Start()
	if err == nil && arguments[0] == "ls-remote" {
		boundMemory(c.Process.Pid, mostGitTakes)
	}
	if err == nil {
		err = c.Wait()
	}
	if stdout.over {
		return nil, fmt.Errorf("git %s prints more than %d bytes", arguments[0], mostPrinted)
	}
	if err != nil {
		if said := strings.TrimSpace(strings.ToValidUTF8(string(stderr.text), "\ufffd")); said != "" {
			return nil, &failure{fmt.Sprintf("git %s: %s", arguments[0], said), err}
		}
		return nil, fmt.Errorf("git %s: %w", arguments[0], err)
	}
	return stdout.text.Bytes(), nil
}

// mostSaid bounds the bytes that are kept of git's error output. A server may have it write without end.
const mostSaid = 16 << 10

// ending keeps the end of its input.
type ending struct{ text []byte }

func (e *ending) Write(p []byte) (int, error) {
	e.text = append(e.text, p...)
	e.text = e.text[max(0, len(e.text)-mostSaid):]
	return len(p), nil
}

// failure holds git's error output for a failed command, and the command's end.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() error { return f.err }
