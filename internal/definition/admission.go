package definition

import (
	"regexp"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// The bounds of windows and approvals.
const (
	shortestWindow = time.Minute
	longestWindow  = 366 * day
	longestReason  = 200
	longestPerson  = 100
)

// windows reads when a stage may start. Compile judges the schedules and the time zones.
func (r *reader) windows(n *document.Node, at string) []admission.Window {
	var out []admission.Window
	for i, item := range items(n) {
		path := document.Index(at, i)
		w := admission.Window{Kind: cron.Kind(item.Str("kind")), Schedule: item.Str("schedule"), Timezone: orDefault(item.Str("timezone"), "UTC"),
			Duration: r.duration(item.Get("duration"), path+".duration", action.Duration(time.Hour)),
			Reason:   r.plainText(item.Get("reason"), path+".reason", longestReason)}
		if d := time.Duration(w.Duration); d < shortestWindow || d > longestWindow {
			r.Add(item.Get("duration"), "out-of-range", path+".duration", "%s.duration: want 1m to 366d", path)
		}
		out = append(out, w)
	}
	return out
}

// approval reads who must agree before a stage starts; nil if it has none.
func (r *reader) approval(n *document.Node, at string) *admission.Approval {
	if n == nil || n.Kind != document.Map {
		return nil
	}
	a := &admission.Approval{Count: r.whole(n.Get("count"), at+".count", 1, 1, admission.MaxApprovers), Self: isTrue(n.Get("self"))}
	by := n.Get("by")
	if by == nil || by.Kind != document.List {
		return a
	}
	if len(by.Items) == 0 || len(by.Items) > admission.MaxApprovers {
		r.Add(by, "out-of-range", at+".by", "%s.by: want 1 to %d people", at, admission.MaxApprovers)
	}
	seen := map[string]bool{}
	for i, item := range by.Items {
		path := document.Index(at+".by", i)
		name := r.plainText(item, path, longestPerson)
		switch {
		case item.Kind != document.String: // reported
		case strings.TrimSpace(name) == "":
			r.Add(item, "field-empty", path, "%s must not be empty", path)
		case hasUnseen(name) && !hasControl(name): // with a control character it is reported
			r.Add(item, "bad-text", path, "%s: want visible characters only, not %+q", path, name)
		case isGroup(name) && !groupName.MatchString(name):
			r.Add(item, "bad-name", path, `%s: group name %q: letters, digits, "-", "_" and "." only, at most 63`, path,
				strings.TrimPrefix(name, "group:"))
		case seen[name]:
			r.Add(item, "name-repeated", path, "%q is named twice", name)
		}
		seen[name] = true
		a.By = append(a.By, name)
	}
	return a
}

// groupName is a group of people in approval.by.
var groupName = regexp.MustCompile(`^group:[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

func isGroup(name string) bool {
	_, is := admission.GroupOf(name)
	return is
}

func hasUnseen(text string) bool {
	_, found := pipeline.Unseen(text)
	return found
}

// plainText reads a text for people, without control characters and of at most so many bytes.
func (r *reader) plainText(n *document.Node, path string, most int) string {
	if n == nil || n.Kind != document.String {
		return ""
	}
	if len(n.Text) > most || hasControl(n.Text) {
		r.Add(n, "bad-text", path, "%s: want at most %d bytes without control characters", path, most)
	}
	return n.Text
}
