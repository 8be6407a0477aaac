package config

import (
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/document"
)

// Bounds of the settings of the ledger.
const (
	leastRetention   = 24 * time.Hour
	leastHeartbeat   = time.Second
	longestHeartbeat = 10 * time.Minute
)

// ParseRetention reads how long something is kept: a span of at least a day, or never, which is 0.
func ParseRetention(text string) (kept time.Duration, ok bool) {
	if text == "never" {
		return 0, true
	}
	kept, err := definition.ParseDuration(text)
	return kept, err == nil && kept >= leastRetention && kept <= longestSpan
}

// ledger reads where the log is and how long it remembers actions.
func (r *reader) ledger(n *document.Node, l *Ledger) {
	l.URL = r.location(n.Get("url"), "sqlite:")
	if v := n.Get("listenUrl"); fits(v, document.Text) {
		l.ListenURL = v.Text
		if v.Text != "" && !strings.HasPrefix(v.Text, "postgres://") && !strings.HasPrefix(v.Text, "postgresql://") {
			r.Add(v, "value-invalid", "ledger.listenUrl", "want postgres://USER@HOST:PORT/DATABASE")
		}
	}
	if v := n.Get("partition"); fits(v, document.Text) {
		l.Partition = v.Text
	}
	for name, into := range map[string]*time.Duration{"retention": &l.Retention, "logRetention": &l.LogRetention} {
		if v := n.Get(name); fits(v, document.Scalar) {
			var ok bool
			if *into, ok = ParseRetention(v.Text); !ok {
				r.Add(v, "value-invalid", "ledger."+name, "want at least 1d, or never, found %q", v.Text)
			}
		}
	}
	if v := n.Get("heartbeat"); fits(v, document.Scalar) {
		if l.Heartbeat = r.span(v, "ledger.heartbeat"); l.Heartbeat < leastHeartbeat || l.Heartbeat > longestHeartbeat {
			r.Add(v, "value-invalid", "ledger.heartbeat", "want a duration from 1s to 10m, found %q", v.Text)
		}
	}
}
