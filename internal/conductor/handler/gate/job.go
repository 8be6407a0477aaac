package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// Blobs holds the files of revisions.
type Blobs interface {
	Get(ctx context.Context, key string) (io.ReadCloser, int64, error)
}

const (
	jobGrace  = 10 * time.Second // between SIGTERM and SIGKILL
	maxStream = 4 << 10          // bytes of each stream that are kept: its last ones
)

// Exit statuses of a job that mean more than a failure: EX_TEMPFAIL and EX_CONFIG of sysexits.h.
const (
	exitLater = 75
	exitFatal = 78
)

// job runs the program of a gate once, in a folder of its own that has the files of the revision. A
// revision that was registered without files has an empty one.
func (h Handler) job(ctx context.Context, q question, pause time.Duration) action.Outcome {
	argv := make([]string, len(q.gate.Job.Run))
	for i, text := range q.gate.Job.Run {
		var err error
		if argv[i], err = definition.Expand(text, q.vars); err != nil {
			return unread(fault.New(fault.Invalid, "run of gate %s: %w", q.gate.Name, err))
		}
	}
	dir, err := os.MkdirTemp("", "waybill-gate-")
	if err != nil {
		return later("not_started", fmt.Sprintf("make a folder for the job: %s", err), pause)
	}
	defer func() { _ = workspace.Remove(dir) }() // the rest is in the folder for temporary files
	files := filepath.Join(dir, "files")
	if err := h.unpack(ctx, q.revision.Snapshot, files); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return action.Outcome{Kind: action.Retry, Error: cause.Error()}
		}
		return unread(fmt.Errorf("unpack revision %s: %w", q.revision.Label, err))
	}
	stdout, stderr := command.Tail{Limit: maxStream}, command.Tail{Limit: maxStream}
	exit, err := command.Command{Argv: argv, Dir: files, Env: environment(), Stdin: bytes.NewReader(nil), Stdout: &stdout, Stderr: &stderr,
		Grace: jobGrace}.Run(ctx)
	switch cause := context.Cause(ctx); {
	case cause != nil && (err != nil || exit.Code != 0): // the conductor knows why the attempt was ended
		return action.Outcome{Kind: action.Retry, Error: cause.Error()}
	case err != nil:
		return action.Outcome{Kind: action.Fatal, Code: "not_started", Error: err.Error()}
	}
	return judgeJob(argv[0], exit, lastLine(&stderr, &stdout), pause)
}

// judgeJob returns the meaning of a job's end for the gate.
func judgeJob(program string, exit command.Exit, said string, pause time.Duration) action.Outcome {
	text := fmt.Sprintf("%s: %s", program, exit)
	if said != "" {
		text += ": " + said
	}
	switch {
	case exit.Signal != 0:
	case exit.Code == 0:
		output, _ := json.Marshal(map[string]string{"text": text}) // strings always marshal
		return action.Outcome{Kind: action.Done, Output: output}
	case exit.Code == exitLater:
		return later("exit_status", text, pause)
	case exit.Code == exitFatal:
		return action.Outcome{Kind: action.Fatal, Code: "exit_status", Error: text}
	}
	return action.Outcome{Kind: action.Retry, Code: "exit_status", Error: text}
}

// later returns the outcome of a request that has no answer yet.
func later(code, text string, pause time.Duration) action.Outcome {
	return action.Outcome{Kind: action.RetryAfter, Code: code, Error: text, At: time.Now().Add(pause)}
}

// unpack writes the files of a snapshot into dir, which is made. A key that ends in a digest is
// compared with the bytes.
func (h Handler) unpack(ctx context.Context, snapshot, dir string) error {
	if snapshot == "" {
		return os.Mkdir(dir, 0o700)
	}
	in, _, err := h.Blobs.Get(ctx, snapshot)
	if err != nil {
		return err
	}
	sum := sha256.New()
	stored := io.TeeReader(in, sum)
	err = workspace.Extract(ctx, stored, dir, "")
	if err == nil {
		_, err = io.Copy(io.Discard, stored)
	}
	if err = errors.Join(err, in.Close()); err != nil {
		return err
	}
	if want := path.Base(snapshot); len(want) == hex.EncodedLen(sha256.Size) && want != hex.EncodeToString(sum.Sum(nil)) {
		return fault.New(fault.Corrupt, "the stored bytes are not those that were registered (%s)", want)
	}
	return nil
}

// environment returns the variables that a job gets from this process.
func environment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// lastLine returns the last line of the first stream that has one.
func lastLine(streams ...*command.Tail) string {
	for _, stream := range streams {
		text, _ := stream.Text()
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
			return last
		}
	}
	return ""
}
