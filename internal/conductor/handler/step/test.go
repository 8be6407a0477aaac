package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// maxBody is the number of bytes of a response that a check looks at.
const maxBody = 1 << 20

// test makes sure that the checks of the stage pass.
func (t *attempt) test(ctx context.Context) (Output, error) {
	if err := t.repeat(ctx, t.Test); err != nil {
		return Output{}, err
	}
	return Output{Text: passed(len(t.Test)), Release: t.release}, nil
}

// repeat tries checks again and again until all pass in one round, the program of one fails, or ctx ends. A failure
// in the meantime is noted in the log.
func (t *attempt) repeat(ctx context.Context, checks []pipeline.Check) error {
	wait := 100 * time.Millisecond
	reports := t.reporter()
	var last error
	for {
		err := t.round(ctx, checks)
		if err == nil {
			return nil
		}
		_, final := errors.AsType[verdict](err)
		if final || isThrottled(err) || fault.IsPermanent(err) {
			return err
		}
		if ctx.Err() != nil && last != nil {
			return last // the round before was not cut short
		}
		last = err
		reports.meets(ctx, err)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
		wait = min(2*wait, 2*time.Second)
	}
}

func passed(checks int) string {
	if checks == 1 {
		return "1 check passed"
	}
	return fmt.Sprintf("%d checks passed", checks)
}

// round tries each check once and returns the first failure.
func (t *attempt) round(ctx context.Context, checks []pipeline.Check) error {
	for i := range checks {
		if err := t.check(ctx, &checks[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *attempt) check(ctx context.Context, c *pipeline.Check) error {
	limited, cancel := context.WithTimeoutCause(ctx, time.Duration(c.Timeout),
		fmt.Errorf("no answer within its timeout of %s", time.Duration(c.Timeout)))
	defer cancel()
	switch {
	case c.HTTP != "":
		return t.checkHTTP(limited, c)
	case c.TCP != "":
		return t.checkTCP(limited, c)
	}
	return t.checkRun(ctx, c)
}

func (t *attempt) checkTCP(ctx context.Context, c *pipeline.Check) error {
	conn, err := t.host.Dial(ctx, "tcp", c.TCP)
	if err != nil {
		return t.unanswered(ctx, err, "host %s does not accept %s", t.Host.Name, c.TCP)
	}
	return conn.Close()
}

func (t *attempt) checkHTTP(ctx context.Context, c *pipeline.Check) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.HTTP, nil)
	if err != nil {
		return fault.Permanent(fault.New(fault.Invalid, "test %s: %w", c.HTTP, err))
	}
	request.Header.Set("User-Agent", "waybill")
	for name, value := range c.Headers {
		request.Header.Set(name, value)
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	client := http.Client{CheckRedirect: redirectPolicy(c.Status), Transport: &http.Transport{DisableKeepAlives: true, Proxy: nil,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return t.host.Dial(ctx, network, address)
		}}}
	response, err := client.Do(request)
	if err != nil {
		return t.unanswered(ctx, err, "host %s", t.Host.Name)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	switch {
	case !slices.Contains(c.Status, response.StatusCode):
		return fault.New(fault.Failed, "host %s: %s answers %s, want %s", t.Host.Name, c.HTTP, answerOf(response), statuses(c.Status))
	case err != nil:
		return fault.New(fault.Failed, "host %s: read the answer of %s: %w", t.Host.Name, c.HTTP, err)
	case !strings.Contains(string(body), c.Body):
		return fault.New(fault.Failed, "host %s: the answer of %s does not contain %q", t.Host.Name, c.HTTP, c.Body)
	}
	return nil
}

// maxRedirects limits the redirects that a check follows.
const maxRedirects = 10

// redirectPolicy returns the function that decides whether a redirect is followed. A redirect with a wanted status is the answer,
// and so is one to another address: what answers there is not the service.
func redirectPolicy(wanted []int) func(next *http.Request, via []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		to, from := next.URL, via[0].URL
		switch {
		case slices.Contains(wanted, next.Response.StatusCode), to.Scheme != from.Scheme, to.Host != from.Host:
			return http.ErrUseLastResponse
		case len(via) > maxRedirects:
			return fmt.Errorf("it redirects more than %d times", maxRedirects)
		}
		return nil
	}
}

// answerOf returns the status of an answer as people read it, with where a redirect leads.
func answerOf(response *http.Response) string {
	if to, err := response.Location(); err == nil {
		return response.Status + " to " + (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
	}
	return response.Status
}

// unanswered returns the outcome of a check without an answer: nothing about the service when the way to the host is
// broken.
func (t *attempt) unanswered(ctx context.Context, err error, format string, args ...any) error {
	if fault.IsPermanent(err) || ctx.Err() == nil && fault.Is(err, fault.Unavailable) {
		return unreachable(ctx, t.Host.Name, err)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause // it names the limit, and the part that it has ended does not
	}
	return fault.New(fault.Failed, format+": %w", append(args, err)...)
}

// checkRun passes no action id to the host: a check that passed once must run again with the other
// checks of a later attempt.
func (t *attempt) checkRun(ctx context.Context, c *pipeline.Check) error {
	args := slices.DeleteFunc(t.common(ctx), func(arg string) bool { return strings.HasPrefix(arg, "action=") })
	command := hostCommand{limit: t.limit(ctx), argv: c.Run}
	if own := int(time.Duration(c.Timeout).Seconds()); c.Timeout > 0 && own <= command.limit {
		command.limit, command.limitedBy = max(1, own), fmt.Sprintf("its timeout of %s", time.Duration(c.Timeout))
	}
	ran, err := t.runOnHost(ctx, args, command)
	switch {
	case err != nil || ran.exit == 0:
		return err
	case ran.exit == exitLater:
		return ran.failed
	case ran.exit == exitGiveUp:
		return fault.Permanent(ran.failed)
	}
	return verdict{ran.failed}
}

// verdict marks a failure that the program of a check has decided: no further round of the attempt
// changes it. A port that does not answer, or answers otherwise, is not a verdict: the service may
// need a moment.
type verdict struct{ error }

func (v verdict) Unwrap() error { return v.error }

func statuses(codes []int) string {
	texts := make([]string, len(codes))
	for i, code := range codes {
		texts[i] = fmt.Sprint(code)
	}
	return strings.Join(texts, " or ")
}
