package config

import (
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/document"
)

// Bounds of the settings of the ledger.
const (
	leastRetention   = 24 * time.Hour
	leastHeartbeat   = time.Second
	longestHeartbeat = 10 * time.Minute
)

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
			*into = 0
			if v.Text == "never" {
				continue
			}
			if *into = r.span(v, "ledger."+name); *into < leastRetention {
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
