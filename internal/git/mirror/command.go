package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// setting is a variable of git's configuration and its value.
type setting struct{ name, value string }

// fixed settings hold for every command.
var fixed = []setting{
	{"core.quotePath", "false"}, {"core.hooksPath", os.DevNull}, {"core.fsmonitor", "false"}, {"core.autocrlf", "false"},
	{"core.attributesFile", os.DevNull}, {"core.packedGitWindowSize", "32m"}, {"core.packedGitLimit", "512m"},
	{"gc.auto", "0"}, {"maintenance.auto", "false"}, {"fetch.unpackLimit", "1"}, {"submodule.recurse", "false"},
	{"fetch.recurseSubmodules", "false"}, {"push.recurseSubmodules", "no"}, {"init.defaultBranch", "main"},
	{"advice.detachedHead", "false"},
	{"commit.gpgSign", "false"}, {"push.gpgSign", "false"}, {"transfer.credentialsInUrl", "die"}, {"safe.bareRepository", "all"},
}

// Bounds of git's output.
const (
	mostPrinted = 128 << 20
	mostSaid    = 16 << 10
	waitDelay   = 5 * time.Second
)

// call configures one run of git.
type call struct {
	arguments []string
	input     io.Reader
	environ   []string
	settings  []setting
	output    io.Writer // gets the standard output instead of run's result
}

// git runs a command in the mirror and returns its standard output.
func (o *session) git(ctx context.Context, arguments ...string) (string, error) {
	return o.run(ctx, call{arguments: arguments})
}

// run runs git in the mirror. It knows the settings of the operation and no other configuration of this machine, and its group of
// processes ends with the context.
func (o *session) run(ctx context.Context, c call) (string, error) {
	stdout, stderr := bounded{most: mostPrinted}, ending{}
	cmd := exec.CommandContext(ctx, "git", c.arguments...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = o.store.Dir, c.input, &stdout, &stderr, waitDelay
	if c.output != nil {
		cmd.Stdout = c.output
	}
	cmd.Env = append(o.environment(append(o.set, c.settings...)), c.environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.ExtraFiles = []*os.File{o.lock} // a git that outlives this process keeps the mirror locked
	err := cmd.Start()
	if err == nil {
		boundFiles(cmd.Process.Pid, uint64(o.room)) //nolint:gosec // it is positive
		err = cmd.Wait()
	}
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case stdout.over:
		return "", fatal("TooLarge", "git %s prints more than %d bytes", c.arguments[0], mostPrinted)
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("run git: %w", err)
	case err != nil:
		// push reports on its standard output why a branch was rejected
		return stdout.text.String(), classify(c.arguments[0], string(stderr.text)+"\n"+rejections(&stdout), err)
	}
	return stdout.text.String(), nil
}

// environment returns the variables of git.
func (o *session) environment(settings []setting) []string {
	env := []string{
		"HOME=" + o.private, "LC_ALL=C", "GIT_DIR=" + o.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_LITERAL_PATHSPECS=0", "GIT_CEILING_DIRECTORIES=/",
	}
	for _, name := range []string{"PATH", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_EXEC_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	all := append(fixed[:len(fixed):len(fixed)], settings...)
	for i, s := range all {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+s.name, "GIT_CONFIG_VALUE_"+n+"="+s.value)
	}
	return append(append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(all))), o.environ...)
}

// rejections returns the lines of git push --porcelain about rejected branches.
func rejections(out *bounded) string {
	var lines []string
	for line := range bytes.Lines(out.text.Bytes()) {
		if bytes.HasPrefix(line, []byte("!\t")) && len(lines) < 10 {
			lines = append(lines, strings.TrimSpace(string(line[2:])))
		}
	}
	return strings.Join(lines, "\n")
}

// bounded keeps its input, up to a bound.
type bounded struct {
	text bytes.Buffer
	most int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > b.most {
		b.over = true
		return 0, fmt.Errorf("more than %d bytes", b.most)
	}
	return b.text.Write(p)
}

// ending keeps the end of its input.
type ending struct{ text []byte }

func (e *ending) Write(p []byte) (int, error) {
	e.text = append(e.text, p...)
	e.text = e.text[max(0, len(e.text)-mostSaid):]
	return len(p), nil
}
