package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/jsonpath"
)

// Verdict is what an answer means for the action.
type Verdict string

// The verdicts, as response rules write them.
const (
	Success  Verdict = "success"
	Error    Verdict = "error"    // failed, may pass
	Fatal    Verdict = "fatal"    // will never pass
	Throttle Verdict = "throttle" // the target refuses work
)

// Verdicts lists the words that a rule may say.
func Verdicts() []string {
	return []string{string(Success), string(Error), string(Fatal), string(Throttle)}
}

// Statuses is a set of HTTP status codes: single ones, and classes such as 5xx.
type Statuses struct {
	codes   []int
	classes []int // 5 for 5xx
}

// Add adds what a text names: 404 or 5xx.
func (s *Statuses) Add(text string) error {
	if class, ok := strings.CutSuffix(strings.ToLower(text), "xx"); ok && len(class) == 1 && class >= "1" && class <= "5" {
		s.classes = append(s.classes, int(class[0]-'0'))
		return nil
	}
	code, err := strconv.Atoi(text)
	if err != nil || code < 100 || code > 599 {
		return fmt.Errorf("want a status such as 404 or 5xx, found %q", text)
	}
	s.codes = append(s.codes, code)
	return nil
}

func (s Statuses) empty() bool { return len(s.codes)+len(s.classes) == 0 }

func (s Statuses) has(code int) bool {
	return slices.Contains(s.codes, code) || slices.Contains(s.classes, code/100)
}

func (s Statuses) String() string {
	var parts []string
	for _, code := range s.codes {
		parts = append(parts, strconv.Itoa(code))
	}
	for _, class := range s.classes {
		parts = append(parts, fmt.Sprintf("%dxx", class))
	}
	return strings.Join(parts, ", ")
}

// Rule gives a meaning to answers that match all of its conditions; an absent condition matches.
type Rule struct {
	Status  Statuses
	Message *regexp.Regexp // somewhere in the body
	Path    *jsonpath.Path // selects at least one node of the body
	Result  Verdict
}

// Answer is what came back, as far as it was read.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Judgement is what an answer means, and why.
type Judgement struct {
	Verdict Verdict
	Rule    int    // number of the rule that matched, from 1; 0: none did
	Why     string // in words; "" when the status says it
	Gone    bool   // the target reports that it is gone for good
}

// Breaker selects the answers that mean that a target refuses work now: news about the target, not about the request.
// The zero value goes by what is usual.
type Breaker struct {
	NoDefaults bool   // nothing but Patterns counts
	Patterns   []Rule // in any order; Result is of no account
}

// refusing are the statuses with which a target usually reports that it takes no work now.
var refusing = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// overQuota is what the body of a 403 reports that is not a permanent refusal.
var overQuota = regexp.MustCompile("(?i)quota")

// refuses reports whether an answer means that the target refuses work, and in what words.
func (b Breaker) refuses(a Answer, body *lazyJSON) (why string, yes bool) {
	for i, pattern := range b.Patterns {
		if pattern.matches(a, body) {
			return "target refuses work: breaker pattern " + pattern.name(i+1), true
		}
	}
	switch {
	case b.NoDefaults:
		return "", false
	case slices.Contains(refusing, a.Status):
		return "target refuses work", true
	case a.Status == http.StatusForbidden && overQuota.Match(a.Body):
		return "target refuses work: quota", true
	}
	return "", false
}

// Judge looks an answer up: the first rule that matches, else 2xx is success, what the breaker
// knows is throttle, 410 is fatal, and the rest is an error.
func Judge(rules []Rule, b Breaker, a Answer) Judgement {
	body := lazyJSON{text: a.Body}
	for i, rule := range rules {
		if rule.matches(a, &body) {
			return Judgement{Verdict: rule.Result, Rule: i + 1, Why: rule.why(i + 1)}
		}
	}
	judged := byStatus(b, a, &body)
	if body.skipped != "" {
		judged.Why = strings.TrimPrefix(judged.Why+"; "+body.skipped, "; ")
	}
	return judged
}

// byStatus judges an answer that no rule matches.
func byStatus(b Breaker, a Answer, body *lazyJSON) Judgement {
	if a.Status >= 200 && a.Status < 300 {
		return Judgement{Verdict: Success}
	}
	if why, yes := b.refuses(a, body); yes {
		return Judgement{Verdict: Throttle, Why: why}
	}
	if a.Status == http.StatusGone {
		return Judgement{Verdict: Fatal, Gone: true, Why: "the target is gone for good"}
	}
	return Judgement{Verdict: Error}
}

func (r Rule) matches(a Answer, body *lazyJSON) bool {
	switch {
	case !r.Status.empty() && !r.Status.has(a.Status):
		return false
	case r.Message != nil && !r.Message.Match(a.Body):
		return false
	case r.Path != nil:
		return body.has(r.Path)
	}
	return true
}

// why names the rule and what it says.
func (r Rule) why(number int) string { return "rule " + r.name(number) + " says " + string(r.Result) }

// name returns the number of a rule and its conditions, except the status, which is reported
// anyway.
func (r Rule) name(number int) string {
	var parts []string
	if r.Message != nil {
		parts = append(parts, fmt.Sprintf("message %q", r.Message))
	}
	if r.Path != nil {
		parts = append(parts, "jsonPath "+r.Path.String())
	}
	text := strconv.Itoa(number)
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

// pathLimit is how many nodes of a body a rule may look at: many times those that there are.
const pathLimit = 1_000_000

// lazyJSON decodes a body when the first rule asks.
type lazyJSON struct {
	text    []byte
	decoded any
	done    bool
	unread  bool   // it is not JSON
	skipped string // why the first rule was left out whose path took too much work; "": none was
}

// has reports whether a path selects something in the body. A path that takes too much work selects
// nothing.
func (l *lazyJSON) has(path *jsonpath.Path) bool {
	if !l.done {
		l.done = true
		if json.Unmarshal(l.text, &l.decoded) != nil {
			l.decoded = nil
			l.unread = true
		}
	}
	if l.unread {
		return false
	}
	left := float64(pathLimit)
	nodes, err := path.Select(l.decoded, &left)
	if err != nil && l.skipped == "" {
		l.skipped = "a rule was left out: jsonPath " + err.Error()
	}
	return len(nodes) > 0
}
