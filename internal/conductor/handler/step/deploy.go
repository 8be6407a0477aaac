package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/secret"
)

// deploy switches the host to the release and waits until its service is ready.
func (t *attempt) deploy(ctx context.Context) (Output, error) {
	unit, err := t.unit()
	if err != nil {
		return Output{}, err
	}
	s := &t.Service
	manager := s.Manager
	if manager == pipeline.ManagerSystemd {
		manager = pipeline.ManagerProcess // its unit has the rest
	}
	common := append(t.common(ctx), pair("manager", manager), pair("restart", s.Restart), pair("keep", t.keep), pair("hooks", t.hooks()))
	args := append(slices.Clone(common), pair("hold", tenths(s.Ready.For)), pair("within", tenths(t.within(ctx))), pair("bytes", len(unit)))
	confirm := t.confirm()
	if confirm > 0 || len(s.Ready.Checks) > 0 {
		args = append(args, pair("confirm", int(confirm.Seconds())))
	}
	begin, within := time.Now(), t.within(ctx)
	answer, err := t.callWithRelease(ctx, func() io.Reader { return strings.NewReader(unit) }, "deploy",
		append(append(args, "--"), s.Shared...)...)
	if err == nil && answer.first("armed") == "1" {
		err = t.finishSwitch(ctx, common, begin.Add(time.Duration(within)))
	}
	if err != nil && t.isOver(ctx) {
		err = t.withdraw(ctx, common, err)
	}
	if err != nil {
		return Output{}, t.hurried(err, within)
	}
	out := Output{Release: cmp.Or(answer.first("folder"), t.release), Already: answer.first("already") == "1"}
	if out.Already && s.Manager != "none" {
		out.Text = fmt.Sprintf("already runs %s, not restarted", t.revision.Label)
	}
	return out, nil
}

// spare is the time between the end of the wait for a service and the host's going back on its own.
const spare = 30 * time.Second

// confirm returns after how long the host goes back unless the switch is confirmed; 0: never on its own. By default
// it does so where the controller may lose it.
func (t *attempt) confirm() time.Duration {
	s := &t.Service
	switch {
	case s.ConfirmSet:
		return time.Duration(s.Confirm)
	case t.Host.Remote():
		return time.Duration(s.Ready.Within) + spare
	}
	return 0
}

// finishSwitch makes a switch final that the host keeps open: once the checks of ready pass, it
// confirms, over a connection that the new release has let through. If they do not pass by the given
// time, the host goes back.
func (t *attempt) finishSwitch(ctx context.Context, common []string, by time.Time) error {
	if err := t.becomesReady(ctx, by); err != nil {
		if isThrottled(err) || ctx.Err() != nil {
			return err // the next attempt goes on, or the host goes back
		}
		_, backErr := t.program().call(ctx, nil, "back", common...)
		return fault.New(fault.CodeOf(err), "%w; %w", err, backErr)
	}
	if fresh, ok := t.host.(interface{ Renew() }); ok {
		fresh.Renew()
	}
	_, err := t.program().call(ctx, nil, "confirm", common...)
	return err
}

// hurried adds to the error of a service that was not ready that the limits of the step gave it less time than `ready` does.
func (t *attempt) hurried(err error, within action.Duration) error {
	ready, p := t.Service.Ready, t.step.Policy
	if within >= ready.Within || !fault.Is(err, fault.Failed) || fault.HintOf(err) != "" {
		return err
	}
	return fault.Wrap(fault.Failed, err).WithHint(
		"it had %s of ready.within (%s), by attemptTimeout (%s) and deadline (%s): make these longer",
		time.Duration(within).Round(time.Second/10), time.Duration(ready.Within), time.Duration(p.AttemptTimeout), time.Duration(p.Deadline))
}

// isOver reports whether the attempt's context has ended and no later attempt continues its work.
func (t *attempt) isOver(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, conductor.ErrDeadline) || t.last && errors.Is(cause, conductor.ErrAttemptTimeout)
}

// withdrawTakes bounds the request of withdraw. It is less than action.LeaseGrace, after which the claim is lost.
const withdrawTakes = 8 * time.Second

// withdraw asks the host to take a switch back that is not final, and that no attempt will confirm: a release that
// the log does not have must not run. Without an error the host has made the switch final just before. why is what
// the attempt met.
func (t *attempt) withdraw(ctx context.Context, common []string, why error) error {
	detached, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), withdrawTakes, fmt.Errorf("no answer within %s", withdrawTakes))
	defer cancel()
	answer, err := t.program().call(detached, nil, "withdraw", replaced(common, "limit", t.limit(detached))...)
	switch {
	case err != nil && t.confirm() > 0:
		return fault.New(fault.Failed, "%w; it cannot be asked to go back (%s), and does so by itself within %s of a switch",
			why, explain(err), t.confirm())
	case err != nil:
		return fault.New(fault.Failed, "%w; it cannot be asked to go back: %s", why, explain(err)).
			WithHint("waybill service status %s %s", t.facts.Pipeline, strings.TrimPrefix(t.facts.Target, t.facts.Pipeline+"/"))
	case answer.first("state") == "final":
		return nil
	}
	return t.program().notReady(strings.TrimPrefix(why.Error(), "host "+t.Host.Name+": "), answer)
}

// becomesReady tries the checks of ready until all pass in one round, at the latest by the given time.
func (t *attempt) becomesReady(ctx context.Context, by time.Time) error {
	if len(t.Service.Ready.Checks) == 0 {
		return nil
	}
	limited, cancel := context.WithDeadlineCause(ctx, by, errNotReady)
	defer cancel()
	return t.repeat(limited, t.Service.Ready.Checks)
}

var errNotReady = errors.New("the service is not ready in time")

func (t *attempt) program() *program {
	return &program{host: t.host, name: t.Host.Name, folder: t.folder, passed: t.passes}
}

// callWithRelease runs a verb that needs the release on the host. Until the host has switched to
// it, a release that the host has lost since it was replicated is replicated again; afterwards the
// switch is lost as well, and only a new deployment makes it.
func (t *attempt) callWithRelease(ctx context.Context, stdin func() io.Reader, verb string, args ...string) (report, error) {
	answer, err := t.program().call(ctx, stdin, verb, args...)
	if !fault.Is(err, fault.NotFound) {
		return answer, err
	}
	hint := "waybill ship --again deploys the revision again"
	switch {
	case !t.follows(pipeline.HostReplicated):
		hint = fmt.Sprintf("put replicate before %s in steps, and deploy the revision again", t.step.Name)
	case !t.follows(pipeline.HostDeployed):
		if _, err := t.replicate(ctx); err != nil {
			return nil, err
		}
		return t.program().call(ctx, stdin, verb, args...)
	}
	return nil, fault.Permanent(fault.New(fault.NotFound, "%w", err).WithHint("%s", hint))
}

// follows reports whether the step comes after that of an event.
func (t *attempt) follows(event string) bool {
	for _, s := range t.Chain {
		if s.Event == event || s.Event == t.step.Event {
			return s.Event != t.step.Event
		}
	}
	return false
}

// common returns the arguments by which the host recognizes an attempt.
func (t *attempt) common(ctx context.Context) []string {
	return []string{pair("action", t.id), pair("attempt", ranked(t.era, t.number)), pair("release", t.release),
		pair("ledger", t.config.LedgerID),
		pair("rank", t.rank), pair("name", t.owner), pair("limit", t.limit(ctx))}
}

// replaced returns arguments with another value of a key.
func replaced(args []string, key string, value any) []string {
	others := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, key+"=") })
	return append(others, pair(key, value))
}

// ranked makes a number of a log comparable on hosts: a log that was restored from a backup counts
// again from where the backup ends, and what it does now outranks all that the hosts have seen of
// it.
func ranked[N int | int64](era int64, n N) int64 { return era<<queue.EraBits + int64(n) }

// limit returns the number of seconds after which the host ends a program on its own: a little before the attempt
// ends here.
func (t *attempt) limit(ctx context.Context) int {
	left := time.Duration(t.step.Policy.AttemptTimeout)
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	if left <= 0 {
		left = time.Hour
	}
	return max(1, int((left - 2*time.Second).Seconds()))
}

// within returns how long the service has to become ready. An attempt that is shorter leaves time to go back to what
// ran before, and to report the service's own output, instead of only that it took too long. The host switches
// nothing that cannot become ready in that time.
func (t *attempt) within(ctx context.Context) action.Duration {
	return min(t.Service.Ready.Within, action.Duration(t.limit(ctx))*action.Duration(time.Second)*4/5)
}

func (t *attempt) hooks() string {
	var names []string
	if len(t.Service.Before) > 0 {
		names = append(names, "before")
	}
	if len(t.Service.After) > 0 {
		names = append(names, "after")
	}
	return strings.Join(names, ",")
}

// unit returns the shell file that starts the service, or names the unit of systemd that does. It holds
// the secrets, so it goes to the host by standard input only.
func (t *attempt) unit() (string, error) {
	var b strings.Builder
	s := &t.Service
	switch {
	case s.Unit != "":
		fmt.Fprintf(&b, "# systemd %s\n", s.Unit)
	case s.Supervised():
		if s.Manager == pipeline.ManagerSystemd {
			b.WriteString("# systemd\n")
		}
		b.WriteString("service() {\n")
		environment, err := t.environment()
		if err != nil {
			return "", err
		}
		b.WriteString(exports(environment))
		fmt.Fprintf(&b, "\texec %s\n}\n", quoteAll(s.Exec))
	}
	writeHook(&b, "before", s.Before)
	writeHook(&b, "after", s.After)
	return b.String(), nil
}

// environment returns the values of env and secrets by their names.
func (t *attempt) environment() (map[string]string, error) {
	out := make(map[string]string, len(t.Service.Env)+len(t.Service.Secrets))
	for name, value := range t.Service.Env {
		if strings.ContainsRune(value, 0) { // a variable had it
			return nil, fault.Permanent(fault.New(fault.Invalid, "env %s has a zero byte, which no environment can hold", name))
		}
		out[name] = value
	}
	t.secrets = make(secret.Values, len(t.Service.Secrets))
	for _, name := range slices.Sorted(maps.Keys(t.Service.Secrets)) {
		value, err := t.config.secret(name, t.Service.Secrets[name])
		if err != nil {
			return nil, err
		}
		out[name], t.secrets[name] = value, value
	}
	return out, nil
}

// exports returns the lines of a shell script that set variables.
func exports(environment map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		fmt.Fprintf(&b, "\texport %s=%s\n", name, quote(environment[name]))
	}
	return b.String()
}

func writeHook(b *strings.Builder, name string, argv []string) {
	if len(argv) > 0 {
		fmt.Fprintf(b, "%s() {\n\t%s\n}\n", name, quoteAll(argv))
	}
}

// secret reads a secret's file; one line end at its end is not part of it.
func (h *Hosts) secret(name, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(h.Dir, path)
	}
	content, err := file.Read(path, file.Most)
	if err != nil {
		return "", fault.Permanent(fault.New(fault.Unavailable, "read secret %s: %w", name, err).
			WithHint("write the secret to %s", path))
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if strings.ContainsRune(value, 0) {
		return "", fault.Permanent(fault.New(fault.Invalid, "secret %s in %s has a zero byte, which no environment can hold", name, path))
	}
	return value, nil
}

// tenths returns a duration in tenths of a second, rounded up.
func tenths(d action.Duration) int64 {
	const tenth = time.Second / 10
	return int64((time.Duration(d) + tenth - 1) / tenth)
}

// Exit statuses by which an own step, or a check's program, chooses the outcome. 0 is success, any other a failure.
const (
	exitLater  = 75 // try again later
	exitGiveUp = 78 // trying again is of no use
)

// run performs an own step: its argv on the host, in the release, with the shared folders and the environment of the
// service.
func (t *attempt) run(ctx context.Context) (Output, error) {
	c := hostCommand{limit: t.limit(ctx), argv: t.step.Run, shared: t.Service.Shared}
	if t.step.Env {
		environment, err := t.environment()
		if err != nil {
			return Output{}, err
		}
		c.environment = exports(environment)
	}
	ran, err := t.runOnHost(ctx, t.common(ctx), c)
	switch {
	case err != nil:
		return Output{}, err
	case ran.exit == 0:
		return Output{Release: t.release, Kept: t.keepOutput(ctx, ran.printed)}, nil
	case ran.exit == exitLater:
		return Output{}, throttled{ran.failed}
	case ran.exit == exitGiveUp:
		return Output{}, fault.Permanent(ran.failed)
	}
	return Output{}, ran.failed
}

// hostCommand is a program that is run in the release on a host.
type hostCommand struct {
	limit       int    // seconds
	limitedBy   string // names the limit; "": the step's own
	argv        []string
	environment string   // a script
	shared      []string // paths that are linked first
}

// commandEnd describes how a program on a host ended.
type commandEnd struct {
	exit    int
	printed []string // its last lines
	failed  error    // describes an exit status other than 0, with the last lines
}

// runOnHost runs a command on the host. The error is of the host.
func (t *attempt) runOnHost(ctx context.Context, args []string, c hostCommand) (end commandEnd, err error) {
	args = append(replaced(args, "limit", c.limit), pair("bytes", len(c.environment)), pair("links", len(c.shared)), "--")
	args = slices.Concat(args, c.shared, c.argv)
	begin := time.Now()
	answer, err := t.callWithRelease(ctx, func() io.Reader { return strings.NewReader(c.environment) }, "run", args...)
	if err != nil {
		return end, err
	}
	if _, err := fmt.Sscan(answer.first("exit"), &end.exit); err != nil {
		return end, fault.New(fault.Internal, "host %s returned no exit status: %w", t.Host.Name, err)
	}
	end.printed = answer.printed()
	if end.exit == 0 {
		return end, nil
	}
	text := fmt.Sprintf("ended with exit status %d", end.exit)
	if end.exit >= exitSignal && time.Since(begin) >= time.Duration(c.limit)*time.Second {
		p := t.step.Policy
		steps := fmt.Sprintf("%s, by attemptTimeout (%s) and deadline (%s)", time.Duration(c.limit)*time.Second,
			time.Duration(p.AttemptTimeout), time.Duration(p.Deadline))
		text = "was ended after " + cmp.Or(c.limitedBy, steps)
	}
	var lines string
	if log := end.printed; len(log) > 0 {
		lines = "; its last lines:\n" + strings.Join(log[max(0, len(log)-logTail):], "\n")
	}
	end.failed = fault.New(fault.Failed, "%s on host %s %s%s", c.argv[0], t.Host.Name, text, lines)
	return end, nil
}

// keepOutput stores the last lines that an own step printed, without secrets, and reports whether that worked.
func (t *attempt) keepOutput(ctx context.Context, printed []string) bool {
	if len(printed) == 0 || t.config.Evidence.Blobs == nil {
		return false
	}
	text := strings.Join(printed, "\n")
	if len(t.Service.Secrets) > 0 {
		text = t.redactor().Text(text)
	}
	key := t.config.Evidence.Exchange(ctx, t.id, t.number, StepOutput{Host: t.Host.Name, Run: t.step.Run, Lines: strings.Split(text, "\n")})
	return !strings.HasPrefix(key, evidence.Missing)
}
