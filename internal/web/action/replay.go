package action

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// replaySteps bounds the steps of a replay in one request. A step has at most 500 actions.
const replaySteps = 20

// replayPage is the data of the page of a replay: the range to choose, its size, and the progress.
type replayPage struct {
	Handler  string
	Since    string // the reader's text
	Until    string
	Ends     []endChoice
	Found    int                 // counted actions of the range
	More     bool                // the range has more actions
	Asked    bool                // the address has a range
	Begun    bool                // the first steps of the replay are done
	Replayed int                 // new actions so far
	Order    service.ReplayOrder // the button's request
}

// endChoice is a status with which an action may have ended.
type endChoice struct {
	Name   string
	Words  string
	Chosen bool
}

// replay returns the page before a replay, between the parts of a long one, and after it.
func (p *pages) replay(r *http.Request) (page.Content, error) {
	order, err := replayOrder(r.URL.Query(), time.Now())
	if err != nil {
		return page.Content{}, err
	}
	query := r.URL.Query()
	data := replayPage{
		Handler: order.Handler, Since: query.Get("since"), Until: query.Get("until"), Asked: len(order.Status) > 0,
		Order: order,
	}
	for s := action.Successful; s <= action.RetriesExhausted; s++ {
		name := strings.ToLower(s.String())
		chosen := slices.Contains(order.Status, name) || !data.Asked && s != action.Successful && s != action.Canceled
		data.Ends = append(data.Ends, endChoice{name, page.LowerWords(s), chosen})
	}
	data.Begun = query.Get("replayed") != ""
	data.Replayed, _ = strconv.Atoi(query.Get("replayed")) // it is only displayed
	if data.Asked && (!data.Begun || !order.After.IsZero()) {
		order.DryRun = true
		counted, last, err := p.replayPart(r, order)
		if err != nil {
			return page.Content{}, err
		}
		data.Found, data.More, data.Order.ID = counted.Found, !last.After.IsZero(), last.ID
	}
	return page.Content{Title: "Replay", Nav: "actions", Data: data}, nil
}

// replayActions executes a part of a replay. It leads to a page from which the reader continues.
func (p *pages) replayActions(r *http.Request, by string) (next string, err error) {
	order, err := replayOrder(r.PostForm, time.Now())
	if err != nil {
		return "", err
	}
	order.By = by
	done, last, err := p.replayPart(r, order)
	if err != nil {
		return "", err
	}
	before, _ := strconv.Atoi(r.PostFormValue("replayed")) // it is only displayed
	query := url.Values{"replayed": {strconv.Itoa(before + done.Created)}}
	if !last.After.IsZero() {
		query.Set("id", last.ID.String())
		query.Set("after", last.After.String())
		for _, name := range []string{"status", "handler", "since", "until"} {
			query[name] = r.PostForm[name]
		}
	}
	return "/actions/replay?" + query.Encode(), nil
}

// replayPart executes at most replaySteps steps. It returns their sum and the request for the next
// step.
func (p *pages) replayPart(r *http.Request, order service.ReplayOrder) (
	sum struct{ Found, Created int }, next service.ReplayOrder, err error,
) {
	for range replaySteps {
		step, err := p.service.ReplayActions(r.Context(), order)
		if err != nil {
			return sum, order, err
		}
		sum.Found += step.Found
		sum.Created += step.Created
		order.ID, order.After = step.ID, step.Next
		if step.Next.IsZero() {
			break
		}
	}
	return sum, order, nil
}

// replayOrder returns the replay in the fields of its page.
func replayOrder(form url.Values, now time.Time) (order service.ReplayOrder, err error) {
	order = service.ReplayOrder{Handler: form.Get("handler"), Status: form["status"]}
	if order.Since, err = service.ParsePast(form.Get("since"), now); err != nil {
		return order, err
	}
	if order.Until, err = service.ParsePast(form.Get("until"), now); err != nil {
		return order, err
	}
	for name, into := range map[string]*action.ID{"id": &order.ID, "after": &order.After} {
		if text := form.Get(name); text != "" {
			if *into, err = action.ParseID(text); err != nil {
				return order, fault.Wrap(fault.Invalid, err)
			}
		}
	}
	return order, nil
}
