package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
)

// pause is an action's wait for a condition that passes soon.
const pause = time.Second

// codeNextRound is the code of an attempt that went well and after which the action is not done.
const codeNextRound = "next_round"

// throttled marks an error as news about the host, not about the action.
type throttled struct{ error }

func (t throttled) Unwrap() error { return t.error }

func isThrottled(err error) bool {
	_, is := errors.AsType[throttled](err)
	return is
}

// outcomeOf converts an attempt's error to an outcome.
func outcomeOf(ctx context.Context, err error) action.Outcome {
	if next, ok := errors.AsType[nextRound](err); ok {
		return action.Outcome{Kind: action.RetryAfter, At: next.at, Code: codeNextRound}
	}
	o := action.Outcome{Kind: action.Retry, Code: string(fault.CodeOf(err)), Error: explain(err)}
	cause := context.Cause(ctx)
	at, later := fault.RetryAt(err)
	slow := isThrottled(err)
	switch {
	case fault.IsPermanent(err):
		o.Kind = action.Fatal
	case errors.Is(cause, conductor.ErrCanceled):
		o.Kind = action.Stopped
	case errors.Is(cause, conductor.ErrShutdown), errors.Is(cause, conductor.ErrLeaseLost):
		o.Kind = action.GivenBack
	case errors.Is(cause, conductor.ErrAttemptTimeout):
		o.Code = action.CodeAttemptTimeout
	case later:
		o.Kind, o.At = action.RetryAfter, at
	case slow:
		o.Kind = action.Throttle
	}
	return o
}

// explain adds the remedy to an error.
func explain(err error) string {
	text := err.Error()
	if hint := fault.HintOf(err); hint != "" {
		text += "; " + hint
	}
	return text
}

// unread returns the outcome of an error of the ledger or the blob store: missing data never comes, the rest passes.
func unread(err error, format string, args ...any) error {
	err = fmt.Errorf(format+": %w", append(args, err)...)
	switch fault.CodeOf(err) {
	case fault.NotFound, fault.Invalid, fault.Corrupt:
		return fault.Permanent(err)
	case fault.Unavailable, fault.LedgerUnavailable:
		return fault.RetryAfter(err, time.Now().Add(pause))
	}
	return err
}

// unreachable returns the outcome of an error on the way to a host, or of the end of the attempt.
func unreachable(ctx context.Context, host string, err error) error {
	if context.Cause(ctx) != nil {
		return fmt.Errorf("host %s: %w", host, err)
	}
	return throttled{fault.New(fault.Unavailable, "reach host %s: %w", host, err)}
}

// failure returns the meaning of the host program's exit status.
func (p *program) failure(exit int, verb, reason string, answer report) error {
	reason = cmp.Or(lastLines(reason), fmt.Sprintf("the host program ended with exit status %d", exit))
	switch exit {
	case exitFenced:
		return fault.Permanent(fault.New(fault.Refused, "host %s refuses %s: %s", p.name, verb, reason))
	case exitAbsent:
		return fault.Permanent(fault.New(fault.NotFound, "host %s: %s", p.name, reason))
	case exitDisk:
		return fault.Permanent(fault.New(fault.Unavailable, "host %s: %s", p.name, reason).WithHint("%s", p.remedy(reason)))
	case exitForeign:
		return fault.Permanent(fault.New(fault.Refused, "host %s: %s", p.name, reason).
			WithHint("if you trust what is in it, give it to this account: chown -R USER %s", p.folder))
	case exitUsage:
		return fault.Permanent(fault.New(fault.Internal, "host %s: %s", p.name, reason))
	case exitBusy:
		return fault.RetryAfter(fault.New(fault.Unavailable, "host %s: %s", p.name, reason), time.Now().Add(pause))
	case exitNotReady:
		return p.notReady(reason, answer)
	case exitNotFound:
		return fault.Permanent(fault.New(fault.Unavailable, "host %s: %s", p.name, reason).WithHint("install what is missing on the host"))
	}
	if strings.HasPrefix(reason, "sudo: ") {
		return fault.Permanent(fault.New(fault.Refused, "host %s: %s", p.name, reason).
			WithHint(
				"let the user of the host's URL run sh as root without a password, by a line in /etc/sudoers.d there: USER ALL=(root) NOPASSWD: ALL"))
	}
	return fault.New(fault.Failed, "host %s: %s", p.name, reason)
}

// remedy returns the remedy of an error of the host's disk or tools.
func (p *program) remedy(reason string) string {
	switch {
	case strings.Contains(reason, "No space left"):
		return "make room on the disk of " + p.folder
	case strings.Contains(reason, "Permission denied"), strings.Contains(reason, "Read-only"), strings.Contains(reason, "not permitted"):
		return "let the user that runs Waybill there write to " + p.folder
	case strings.Contains(reason, "not found"): // as shells report a command
		return "install what is missing on the host"
	}
	return "look at " + p.folder + " on the host, then retry"
}

// logTail is the number of a service's last lines that an error shows.
const logTail = 20

func (p *program) notReady(reason string, answer report) error {
	lines := answer.printed()
	err := fault.New(fault.Failed, "host %s: %s", p.name, reason)
	switch former, known := answer["reverted"]; {
	case !known: // the host did not go back now
	case former[0] == "":
		err.Err = fmt.Errorf("%w; nothing ran there before, so it was stopped", err.Err)
	default:
		err.Err = fmt.Errorf("%w; the host went back to %s", err.Err, former[0])
	}
	if len(lines) > 0 {
		err.Err = fmt.Errorf("%w; its last lines:\n%s", err.Err, strings.Join(lines[max(0, len(lines)-logTail):], "\n"))
	}
	if strings.Contains(strings.Join(lines, "\n"), "address already in use") {
		return err.WithHint("end the program that holds the port, or set another one in vars")
	}
	return err
}

// lastLines keeps an error readable: a tool may repeat itself without end.
func lastLines(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-logTail):], "\n")
}
