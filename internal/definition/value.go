package definition

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

var (
	pipelineName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	plainName    = regexp.MustCompile(`^[A-Za-z0-9.-]{1,63}$`)
	headerName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$")
	waveName     = regexp.MustCompile(`^wave-[0-9]+$`)
)

// day is the unit that Go's durations lack.
const day = 24 * time.Hour

// ParseDuration reads Go's form and days, such as 30m, 1h30m, 7d or 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, err
	}
	total := time.Duration(n) * day
	if rest == "" {
		return total, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil {
		return 0, err
	}
	if more < 0 || more > math.MaxInt64-total {
		return 0, strconv.ErrRange
	}
	return total + more, nil
}

// duration reads a duration of zero or more.
func (r *reader) duration(n *document.Node, path string, standard action.Duration) action.Duration {
	if n == nil || n.Kind != document.String {
		return standard // absent, or reported
	}
	d, err := ParseDuration(n.Text)
	if err != nil || d < 0 {
		r.Add(n, "bad-duration", path, "%s: want a duration such as 30m", path)
		return standard
	}
	return action.Duration(d)
}

// whole reads an integer between least and most.
func (r *reader) whole(n *document.Node, path string, standard, least, most int) int {
	if n == nil || (n.Kind != document.Int && n.Kind != document.Float) {
		return standard
	}
	v, err := strconv.Atoi(n.Text)
	if err != nil || v < least || v > most {
		r.Add(n, "out-of-range", path, "%s: want a whole number from %d to %d", path, least, most)
		return standard
	}
	return v
}

// limit reads a count or a percentage. least is the smallest of either.
func (r *reader) limit(n *document.Node, path string, standard pipeline.Limit, least int) pipeline.Limit {
	if n == nil || n.Kind == document.List || n.Kind == document.Map || n.Kind == document.Null {
		return standard
	}
	number, percent := strings.CutSuffix(n.Text, "%")
	v, err := strconv.Atoi(number)
	if err != nil || v < least || (percent && v > 100) || v > maxHosts || strings.HasPrefix(number, "+") {
		r.Add(n, "out-of-range", path, "%s: want a count such as %d, or a percentage such as 25%%", path, max(least, 1))
		return standard
	}
	return pipeline.Limit{N: v, Percent: percent}
}

// The defaults of retry. A test tries its checks again and again within one attempt, so it has one,
// and a short one: its AttemptTimeout follows from the checks (testTimeout).
var (
	stepPolicy = action.Policy{Retries: 2, Initial: action.Duration(2 * time.Second), Factor: 2, Max: action.Duration(2 * time.Minute),
		Jitter: 0.1, AttemptTimeout: action.Duration(10 * time.Minute), Deadline: action.Duration(30 * time.Minute)}
	testPolicy = action.Policy{Retries: 0, Initial: action.Duration(2 * time.Second), Factor: 2, Max: action.Duration(2 * time.Minute),
		Jitter: 0.1, Deadline: action.Duration(30 * time.Minute)}
	buildPolicy = action.Policy{Retries: 0, Initial: action.Duration(2 * time.Second), Factor: 2, Max: action.Duration(2 * time.Minute),
		Jitter: 0.1, AttemptTimeout: action.Duration(6 * time.Hour), Deadline: action.Duration(7 * day)}
)

// defaultEvery is the time between two rounds of a bake.
const defaultEvery = action.Duration(time.Minute)

// testTimeout returns how long an attempt at a test takes: the time of retry, else a minute, or long enough to try
// each check once.
func testTimeout(p action.Policy, checks []pipeline.Check) action.Duration {
	if p.AttemptTimeout > 0 {
		return p.AttemptTimeout
	}
	each := action.Duration(10 * time.Second)
	for _, c := range checks {
		each += c.Timeout
	}
	return max(action.Duration(time.Minute), each)
}

// policy reads retry: over the inherited policy.
func (r *reader) policy(n *document.Node, path string, p action.Policy) action.Policy {
	if n == nil || n.Kind != document.Map {
		return p
	}
	b, at := n.Get("backoff"), path+".backoff"
	p.Retries = r.whole(b.Get("retries"), at+".retries", p.Retries, 0, 1000)
	p.Initial = r.duration(b.Get("initial"), at+".initial", p.Initial)
	p.Max = r.duration(b.Get("max"), at+".max", p.Max)
	p.Factor = r.factor(b.Get("factor"), at+".factor", p.Factor)
	p.AttemptTimeout = r.positive(n.Get("attemptTimeout"), path+".attemptTimeout", p.AttemptTimeout)
	p.Deadline = r.positive(n.Get("deadline"), path+".deadline", p.Deadline)
	return p
}

func (r *reader) positive(n *document.Node, path string, standard action.Duration) action.Duration {
	if n != nil && n.Kind == document.String { // anything else is reported as another kind
		if d, err := ParseDuration(n.Text); err == nil && d == 0 {
			r.Add(n, "out-of-range", path, "%s must be above 0s", path)
			return standard
		}
	}
	return r.duration(n, path, standard)
}

func (r *reader) factor(n *document.Node, path string, standard float64) float64 {
	if n == nil || (n.Kind != document.Int && n.Kind != document.Float) {
		return standard
	}
	f, err := strconv.ParseFloat(n.Text, 64)
	if err != nil || !(f >= 1 && f <= 100) {
		r.Add(n, "out-of-range", path, "%s: want a number from 1 to 100", path)
		return standard
	}
	return f
}

// names are the names of one kind that have been seen, and where.
type names struct {
	r    *reader
	kind string
	seen map[string]*document.Node
}

func (r *reader) unique(kind string) names { return names{r, kind, map[string]*document.Node{}} }

// take reads the name of n and reports one that is bad or has been taken.
func (s names) take(n *document.Node, path string) string {
	name := n.Get("name")
	if name == nil || name.Kind != document.String {
		return ""
	}
	s.check(name, name.Text, path+".name")
	return name.Text
}

func (s names) check(at *document.Node, name, path string) {
	switch first, taken := s.seen[name]; {
	case !validName(name):
		s.r.Add(at, "bad-name", path, `%s name %q: letters, digits, "-" and "." only`, s.kind, name)
	case waveName.MatchString(name):
		s.r.Add(at, "bad-name", path, "%s name %q is reserved", s.kind, name)
	case taken:
		s.r.Add(at, "name-repeated", path, "%s %q is already defined on line %d", s.kind, name, first.At.Line)
	default:
		s.seen[name] = at
	}
}

func validName(name string) bool { return plainName.MatchString(name) && strings.Trim(name, ".") != "" }

func queue(n *document.Node) pipeline.Queue {
	return pipeline.Queue(orDefault(strings.ToLower(n.Str("queue")), string(pipeline.FIFO)))
}
