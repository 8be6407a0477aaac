package config

import (
	"encoding/json"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// SubscriberHandler is the name of the webhook that calls the subscribers of jobs. It exists without being
// configured; configuring it sets its signatures, its retries and its address guard.
const SubscriberHandler = "subscriber"

// subscriber is that handler as a file would have it. The back-off is Standard Webhooks' example.
const subscriber = `
type: webhook
parameters: {uri: {type: string, format: uri}, contentType: {type: string}, body: {}}
backoff: {retries: 9, schedule: [5s, 5m, 30m, 2h, 5h, 10h, 14h, 20h, 24h]}
request:
  url: "{{ .parameters.uri }}"
  method: POST
  headers: {Content-Type: "{{ .parameters.contentType }}"}
  body: "{{ json .parameters.body }}"
`

// subscriberNode returns the tree of the built-in handler subscriber.
func subscriberNode() *document.Node {
	root, _ := yamltree.Parse(SubscriberHandler, []byte(subscriber), maxSize) // it is written here, and tested
	return root
}

// defaultSubscriber returns the handler subscriber of a file that does not configure it.
func defaultSubscriber(defaults action.Policy) Handler {
	r := reader{}
	h := handlerReader{reader: &r, path: "handlers." + SubscriberHandler}
	return h.read(document.Field{Key: SubscriberHandler, Value: subscriberNode()}, TypeWebhook, defaults)
}

// completeSubscriber adds the parts of the handler that only Waybill sets. One that it finds set is a fault.
func (r *reader) completeSubscriber(n *document.Node, path string) {
	if n == nil || n.Kind != document.Map {
		return
	}
	r.complete(n, subscriberNode(), path, "backoff", "request")
	request := n.Get("request")
	if request == nil || request.Kind != document.Map {
		return
	}
	standard := subscriberNode().Get("request")
	if own := request.Get("headers"); own != nil && own.Kind == document.Map {
		r.complete(own, standard.Get("headers"), path+".request.headers")
	}
	r.complete(request, standard, path+".request", "headers")
}

// complete adds fields to a mapping that does not have them. Those that it may not have itself are
// faults, but for some and the type.
func (r *reader) complete(n, standard *document.Node, path string, free ...string) {
	for _, f := range standard.Fields {
		own := n.Get(f.Key)
		if own == nil {
			n.Fields = append(n.Fields, document.Field{Key: f.Key, At: n.At, Value: f.Value})
			continue
		}
		may := f.Key == "type"
		for _, name := range free {
			may = may || f.Key == name
		}
		if !may {
			r.Add(own, "value-invalid", r.Join(path, f.Key), "%s of the handler %s is set by Waybill", f.Key, SubscriberHandler)
		}
	}
}

// Subscriber returns the handler of requests to the subscribers of jobs.
func (c *Config) Subscriber() Handler {
	if h, ok := c.Handlers[SubscriberHandler]; ok {
		return h
	}
	return defaultSubscriber(c.Defaults)
}

var _ callback.Book = (*Config)(nil)

// SubscriberRequest prepares the request to a subscriber.
func (c *Config) SubscriberRequest(parameters json.RawMessage) (action.Action, error) {
	return c.Subscriber().Prepare(parameters)
}
