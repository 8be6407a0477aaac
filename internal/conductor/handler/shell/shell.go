// Package shell is the handler that runs a command. The command is an argument list: no shell reads it unless it
// names one. It gets the action's parameters, with defaults filled in, as JSON on its standard input, may write its
// output to the file $WAYBILL_OUTPUT, and reports its outcome by its exit status.
//
// It runs in a process group of its own, which ends with it: processes that it leaves in the background are killed.
// When the attempt is canceled or takes too long the group gets SIGTERM, and SIGKILL ten seconds later; when this
// process dies, the command is killed by the kernel.
package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/webhook"
)

const (
	grace     = 10 * time.Second // between SIGTERM and SIGKILL
	maxStream = 64 << 10         // bytes of each stream that are archived: its last ones
)

// Codes of outcomes.
const (
	codeNotStarted = "not_started"
	codeExit       = "exit_status"
)

// exits maps exit statuses to verdicts unless the handler sets others; 75 and 78 are EX_TEMPFAIL and EX_CONFIG of
// sysexits.h. All others are errors that may pass.
var exits = map[int]webhook.Verdict{0: webhook.Success, 75: webhook.Throttle, 78: webhook.Fatal}

// Handler runs one configured command.
type Handler struct {
	cfg     config.Handler
	archive evidence.Archive
}

// New makes the handler of a configuration whose type is shell.
func New(cfg config.Handler, archive evidence.Archive) *Handler { return &Handler{cfg, archive} }

// exchange is the evidence of an attempt.
type exchange struct {
	Action     string    `json:"action"`
	Attempt    int       `json:"attempt"`
	Argv       []string  `json:"argv"`
	StartedAt  time.Time `json:"startedAt"`
	DurationMS int64     `json:"durationMs"`
	Exit       string    `json:"exit,omitempty"`
	Error      string    `json:"error,omitempty"`
	Stdout     string    `json:"stdout"` // the last 64 KiB
	Stderr     string    `json:"stderr"`
	StdoutCut  bool      `json:"stdoutCut,omitempty"` // there was more before
	StderrCut  bool      `json:"stderrCut,omitempty"`
}

// Do runs the command once.
func (h *Handler) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	filled, problems := h.cfg.Parameters.Fill(a.Action.Parameters)
	if err := problems.Err(); err != nil {
		return action.Outcome{Kind: action.BadInput, Code: string(fault.InvalidParameters), Error: err.Error()}
	}
	stdin, err := json.Marshal(filled)
	if err != nil {
		return action.Outcome{Kind: action.BadInput, Code: string(fault.InvalidParameters), Error: err.Error()}
	}
	dir, err := os.MkdirTemp("", "waybill-shell-")
	if err != nil {
		return action.Outcome{Kind: action.Throttle, Code: codeNotStarted, Error: fmt.Sprintf("make a folder for the output: %s", err)}
	}
	defer os.RemoveAll(dir)
	run := run{handler: h, attempt: a, output: filepath.Join(dir, "output"), stdout: command.Tail{Limit: maxStream},
		stderr: command.Tail{Limit: maxStream}}
	return run.do(ctx, stdin)
}

// run is one run of the command.
type run struct {
	handler        *Handler
	attempt        conductor.Attempt
	output         string // path of the file that the command may write
	stdout, stderr command.Tail
}

func (r *run) do(ctx context.Context, stdin []byte) action.Outcome {
	argv := r.handler.cfg.Command.Argv
	seen := exchange{Action: r.attempt.Action.ID.String(), Attempt: r.attempt.Number, Argv: argv, StartedAt: time.Now().UTC()}
	exit, err := command.Command{Argv: argv, Env: r.environment(), Stdin: bytes.NewReader(stdin),
		Stdout: &r.stdout, Stderr: &r.stderr, Grace: grace}.Run(ctx)
	seen.DurationMS = time.Since(seen.StartedAt).Milliseconds()
	outcome := r.outcome(ctx, exit, err)
	if err == nil {
		seen.Exit = exit.String()
	}
	seen.Error = outcome.Error
	seen.Stdout, seen.StdoutCut = r.stdout.Text()
	seen.Stderr, seen.StderrCut = r.stderr.Text()
	outcome.Ref = r.handler.archive.Exchange(ctx, r.attempt.Action.ID, r.attempt.Number, seen)
	return outcome
}

// environment returns the variables that the command gets from this process.
func (r *run) environment() []string {
	env := []string{"WAYBILL_OUTPUT=" + r.output}
	for _, name := range append([]string{"PATH", "HOME"}, r.handler.cfg.Command.Env...) {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// outcome converts the end of the command to an outcome. The conductor judges why the context
// ended, if it did.
func (r *run) outcome(ctx context.Context, exit command.Exit, err error) action.Outcome {
	cause := context.Cause(ctx)
	switch {
	case err != nil && cause != nil:
		return action.Outcome{Kind: action.Retry, Error: cause.Error()}
	case err != nil: // a program that ran is an exit, so this one did not
		return action.Outcome{Kind: action.Throttle, Code: codeNotStarted, Error: err.Error()}
	}
	verdict, ok := r.handler.cfg.Command.ExitCodes[exit.Code]
	if !ok || exit.Signal != 0 {
		if verdict, ok = exits[exit.Code]; !ok {
			verdict = webhook.Error
		}
	}
	if cause != nil && verdict != webhook.Success {
		return action.Outcome{Kind: action.Retry, Error: fmt.Sprintf("%s: %s", cause, exit)}
	}
	said := exit.String()
	if line := r.lastLine(); line != "" {
		said += ": " + line
	}
	switch verdict {
	case webhook.Success:
		return r.done(ctx)
	case webhook.Throttle:
		return action.Outcome{Kind: action.Throttle, Code: codeExit, Error: said}
	case webhook.Fatal:
		return action.Outcome{Kind: action.Fatal, Code: codeExit, Error: said}
	}
	return action.Outcome{Kind: action.Retry, Code: codeExit, Error: said}
}

// lastLine returns the last line that the command printed, on standard error if it printed any
// there.
func (r *run) lastLine() string {
	for _, stream := range []*command.Tail{&r.stderr, &r.stdout} {
		text, _ := stream.Text()
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
			return last
		}
	}
	return ""
}

// done reads the content of $WAYBILL_OUTPUT: JSON, else a text. Output that is too big for the log goes into the blob
// store.
func (r *run) done(ctx context.Context) action.Outcome {
	outcome := action.Outcome{Kind: action.Done}
	f, _, err := file.Open(r.output)
	switch {
	case errors.Is(err, file.ErrKind):
		outcome.Output = textOutput("the output cannot be read: " + err.Error())
		return outcome
	case err != nil:
		return outcome // it wrote none
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, blob.Inline+1))
	switch {
	case err != nil:
		outcome.Output = textOutput("the output cannot be read: " + err.Error())
	case len(content) > blob.Inline:
		r.large(ctx, f, &outcome)
	case len(bytes.TrimSpace(content)) == 0:
	case json.Valid(content) && utf8.Valid(content):
		outcome.Output = content
	default:
		outcome.Output = textOutput(strings.TrimRight(strings.ToValidUTF8(string(content), "�"), "\n"))
	}
	return outcome
}

// large puts an output into the blob store. JSON is the action's output there, too; of anything else the log has the
// address.
func (r *run) large(ctx context.Context, f *os.File, outcome *action.Outcome) {
	document := isJSON(io.NewSectionReader(f, 0, blob.MaxDocument+1))
	key := blob.ActionKey(r.attempt.Action.ID, fmt.Sprintf("output-%d", r.attempt.Number))
	switch err := r.handler.archive.Put(ctx, key, io.NewSectionReader(f, 0, math.MaxInt64)); {
	case err != nil:
		outcome.Output = textOutput(fmt.Sprintf("the output has more than %d bytes and could not be stored: %s", blob.Inline, err))
	case document:
		outcome.OutputRef = key
	default:
		outcome.Output = marshal(map[string]string{"blob": key})
	}
}

// isJSON reports whether all of r is one JSON value, without keeping it.
func isJSON(r io.Reader) bool {
	decoder := json.NewDecoder(r)
	decoder.UseNumber()
	for values, depth := 0, 0; ; {
		token, err := decoder.Token()
		if err != nil {
			return errors.Is(err, io.EOF) && values == 1 && depth == 0
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			values++
		}
	}
}

func textOutput(text string) json.RawMessage { return marshal(map[string]string{"text": text}) }

func marshal(fields map[string]string) json.RawMessage {
	raw, _ := json.Marshal(fields) // strings always marshal
	return raw
}
