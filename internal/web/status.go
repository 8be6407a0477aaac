package web

import (
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/server"
)

// status is the page that says whether everything keeps up.
func (p *Pages) status(r *http.Request) (content, error) {
	v, err := p.service.Status(r.Context())
	return content{Title: "Status", Template: "status", Nav: "status", Data: v}, err
}

// waiting is how long the oldest ready action of a handler waits; "" while none is ready.
func waiting(h server.HandlerView, now time.Time) string {
	if h.Ready == 0 {
		return ""
	}
	return tookText(h.Oldest, now)
}

// liveCounts lists how many actions of a handler have each live status.
func liveCounts(h server.HandlerView) (counts []statusCount) {
	for status := action.Pending; status.Live(); status++ {
		counts = append(counts, statusCount{lowerWords(status), h.Counts[status]})
	}
	return counts
}

// statusCount is how many actions have a status.
type statusCount struct {
	Word  string
	Count int
}
