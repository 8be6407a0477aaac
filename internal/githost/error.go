package githost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// maxMessage is the length in bytes of a host's message in an error.
const maxMessage = 512

// Error is a call or an operation that did not succeed, and its meaning for the attempt.
type Error struct {
	Kind    action.OutcomeKind // Throttle, RetryAfter, Retry, GivenBack or Fatal
	Code    string             // a promotion.ErrorClass, http_STATUS, or a code of package webhook
	Doing   string             // the operation, such as "create a proposal"
	Message string             // the host's message, bounded and without secrets
	At      time.Time          // Throttle: not before; RetryAfter: then; zero: unknown
	Status  int                // status of the answer; 0: there was none
}

func (e *Error) Error() string { return e.Doing + ": " + e.Message }

// Outcome returns the outcome of an attempt that ended with this error. An error that is not an *Error spends an attempt.
func Outcome(err error) action.Outcome {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return action.Outcome{Kind: action.Retry, Error: err.Error()}
	}
	return action.Outcome{Kind: e.Kind, Code: e.Code, Error: err.Error(), At: e.At}
}

// Is reports whether an error has a code.
func Is(err error, code promotion.ErrorClass) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == string(code)
}

// CodeExists is the code of a proposal that was not created because there is one for these branches.
const CodeExists = "Exists"

// CodeClaimLost is the code of a request that was not sent, because the claim of its attempt may have ended.
const CodeClaimLost = "ClaimLost"

// Codes of proposals that cannot be merged now.
const (
	CodeRunning      = "MergeRunning"
	CodeNotMergeable = "NotMergeable"
	CodeChecksFailed = "ChecksFailed"
	CodeUnguarded    = "Unguarded"
)

// statusOf returns the status of the answer that caused an error; 0: there was none.
func statusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// messageOf returns the host's message in an error.
func messageOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	return ""
}

// fatal returns an error that never passes.
func fatal(code, doing, format string, args ...any) *Error {
	return &Error{Kind: action.Fatal, Code: code, Doing: doing, Message: fmt.Sprintf(format, args...)}
}

// later returns an error of a merge that passes, at the earliest after the pause.
func later(code string, pause time.Duration, message string) *Error {
	return laterDoing("merge the proposal", code, pause, message)
}

func laterDoing(doing, code string, pause time.Duration, message string) *Error {
	return &Error{Kind: action.RetryAfter, Code: code, Doing: doing, Message: message, At: time.Now().Add(pause)}
}

// Pauses before a proposal is read again.
const (
	pauseComputing = time.Second      // its mergeability is not computed yet
	pauseRunning   = 10 * time.Second // its merge, or a check, is running
)

// secondaryPause is the shortest pause after a limit without a time, as GitHub has for requests in quick succession.
const secondaryPause = time.Minute

// The messages of limits, and of repositories that another writer changes at the same time.
var (
	limited = regexp.MustCompile(`(?i)rate limit|abuse detection|too many requests|exceeded a secondary|retry later`)
	raced   = regexp.MustCompile(`(?i)cannot lock ref|incorrect old value|base branch was modified|merge push out of date|failed to update ref`)
)

// classify returns the meaning of an answer that is not one of success.
func classify(doing string, a webhook.Answer, now time.Time) *Error {
	e := &Error{Doing: doing, Status: a.Status, Code: fmt.Sprintf("http_%d", a.Status), Kind: action.Fatal, Message: messageIn(a)}
	switch {
	case raced.MatchString(e.Message):
		e.Kind = action.Retry
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusForbidden && isLimit(a, e.Message):
		e.Kind, e.At = action.Throttle, limitEnd(a, e.Message, now)
	case a.Status == http.StatusBadGateway, a.Status == http.StatusServiceUnavailable, a.Status == http.StatusGatewayTimeout:
		e.Kind = action.Throttle
		e.At, _ = webhook.RetryAfter(a.Header, now)
	case a.Status >= http.StatusInternalServerError, a.Status == http.StatusRequestTimeout:
		e.Kind = action.Retry
	case a.Status >= 300 && a.Status < 400:
		e.Message = fmt.Sprintf("the host refers to %s: correct url or apiURL", bounded(a.Header.Get("Location")))
	}
	return e
}

// isLimit reports whether a 403 means that there were too many requests.
func isLimit(a webhook.Answer, message string) bool {
	return a.Header.Get("Retry-After") != "" || a.Header.Get("X-Ratelimit-Remaining") == "0" || limited.MatchString(message)
}

// limitEnd returns the time at which a limit ends, as far as the host names it.
func limitEnd(a webhook.Answer, message string, now time.Time) time.Time {
	if at, ok := webhook.RetryAfter(a.Header, now); ok {
		return at
	}
	if rate, ok := readRate(a.Header); ok && rate.remaining == 0 && rate.reset.After(now) {
		return rate.reset
	}
	if a.Status == http.StatusForbidden || strings.Contains(strings.ToLower(message), "secondary") {
		return now.Add(secondaryPause)
	}
	return time.Time{}
}

// unanswered returns the meaning of a call without an answer.
func unanswered(ctx context.Context, doing string, seen *webhook.Exchange) error {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	}
	verdict, code, text := seen.Failure()
	kind := action.Retry // the host may have done it: the next attempt looks first
	switch verdict {
	case webhook.Throttle:
		kind = action.Throttle
	case webhook.Fatal:
		kind = action.Fatal
	}
	return &Error{Kind: kind, Code: code, Doing: doing, Message: bounded(text)}
}

// messageIn returns the message of an answer in the forms of the hosts, or the beginning of its body.
func messageIn(a webhook.Answer) string {
	var texts []string
	var body any
	if json.Unmarshal(a.Body, &body) == nil {
		collect(body, &texts, 0)
	} else if !strings.Contains(a.Header.Get("Content-Type"), "html") {
		texts = append(texts, string(a.Body))
	}
	text := fmt.Sprintf("the host answered %d", a.Status)
	if joined := strings.Join(texts, "; "); joined != "" {
		text += ": " + joined
	}
	return bounded(text)
}

// messageKeys are the names under which hosts put messages, each a text, a list or an object.
var messageKeys = []string{"message", "error_description", "error", "errors", "detail", "details", "vetoes", "summaryMessage", "detailedMessage", "typeKey"}

// collect appends the messages in a JSON value.
func collect(value any, texts *[]string, depth int) {
	if depth > 4 || len(*texts) >= 8 {
		return
	}
	switch v := value.(type) {
	case string:
		if v = strings.TrimSpace(v); v != "" {
			*texts = append(*texts, v)
		}
	case []any:
		for _, item := range v {
			collect(item, texts, depth+1)
		}
	case map[string]any:
		for _, key := range messageKeys {
			if inner, ok := v[key]; ok {
				collect(inner, texts, depth+1)
			}
		}
	}
}

// bounded returns a text without control characters and of at most maxMessage bytes.
func bounded(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "�")), " ")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	return cut(text, maxMessage)
}

// cut returns a text of at most limit bytes, which ends with … if it was longer.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := max(0, limit-len("…"))
	for end > 0 && text[end]&0xc0 == 0x80 {
		end--
	}
	return text[:end] + "…"
}
