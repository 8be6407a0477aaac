package action

import (
	"html/template"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// status returns the page of the status of handlers and processes.
func (p *pages) status(r *http.Request) (page.Content, error) {
	v, err := p.service.Status(r.Context())
	return page.Content{Title: "Status", Nav: "status", Data: v}, err
}

// waiting returns the time that a handler's oldest ready action has waited; "" if none is ready.
func waiting(h service.HandlerView, now time.Time) string {
	if h.Ready == 0 {
		return ""
	}
	return page.Took(h.Oldest, now)
}

// liveCounts returns the number of a handler's actions in each live status.
func liveCounts(h service.HandlerView) (counts []statusCount) {
	for status := action.Pending; status.Live(); status++ {
		counts = append(counts, statusCount{page.LowerWords(status), h.Counts[status]})
	}
	return counts
}

// statusCount is the number of actions with a status.
type statusCount struct {
	Word  string
	Count int
}

// otherTroubles returns the troubles of the status page except those of lanes, which have their own
// table.
func otherTroubles(v service.StatusView) []service.Trouble {
	return slices.DeleteFunc(slices.Clone(v.Troubles), func(t service.Trouble) bool { return t.Kind == service.TroubleLane })
}

// queueFunctions returns the template functions of the status page.
func queueFunctions() template.FuncMap {
	functions := laneFunctions()
	maps.Copy(functions, template.FuncMap{"waiting": waiting, "liveCounts": liveCounts, "otherTroubles": otherTroubles})
	return functions
}
