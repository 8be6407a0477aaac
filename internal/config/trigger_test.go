package config

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cloudevent"
	"github.com/waybill-dev/waybill/internal/trigger"
)

const triggering = `
handlers:
  publish:
    type: webhook
    parameters: {order: {type: integer}, bucket: {type: string, default: public}}
    request: {url: "https://catalog.example.org/{{ .parameters.bucket }}", body: "{{ json .parameters.order }}"}
workflows:
  mirror: {handler: noop, inputSchema: {properties: {from: {type: string}}}}
triggers:
  orders:
    filter: {all: [{exact: {type: order.created}}, {not: {prefix: {subject: test/}}}]}
    handler: publish
    parameters: {order: {path: $.data.id}, bucket: {value: eu}}
    keys: [KEY]
    backlog: 7
  chained: {process: mirror, parameters: {from: {path: .source}}}
`

func TestTriggersAreRead(t *testing.T) {
	t.Parallel()
	key := sha256.Sum256([]byte("secret"))
	c, err := Read("server.yaml", []byte(strings.Replace(triggering, "KEY", hex.EncodeToString(key[:]), 1)))
	if err != nil {
		t.Fatal(err)
	}
	orders, chained := c.Triggers["orders"], c.Triggers["chained"]
	if orders.Name != "orders" || orders.Backlog != 7 || !slices.Contains(orders.Keys, key) || chained.Backlog != 10_000 || chained.Filter != nil {
		t.Errorf("read %+v and %+v", orders, chained)
	}
	events, _, err := cloudevent.Read(http.Header{"Content-Type": {"application/cloudevents-batch+json"}}, []byte(`[
		{"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created", "data": {"id": 42}},
		{"specversion": "1.0", "id": "2", "source": "/shop", "type": "order.created", "subject": "test/1"}]`))
	if err != nil {
		t.Fatal(err)
	}
	if !orders.Filter.Matches(&events[0]) || orders.Filter.Matches(&events[1]) {
		t.Error("the filter selects others")
	}
	planned := trigger.Plan(&orders.Trigger, &events[0])
	if planned.Fault != "" || planned.Action.Kind != trigger.Kind || planned.Action.Lane != "publish/catalog.example.org" ||
		string(planned.Action.Parameters) != `{"bucket":"eu","order":42}` {
		t.Errorf("planned %+v", planned)
	}
	planned = trigger.Plan(&chained.Trigger, &events[0])
	if planned.Fault != "" || planned.Action.Kind != KindJob || planned.Action.Name != "mirror" ||
		string(planned.Action.Parameters) != `{"from":"/shop"}` {
		t.Errorf("planned %+v", planned)
	}
}

func TestFaultsOfTriggersHaveTheirPlaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ yaml, want string }{
		"a name":               {"a b: {handler: noop}", `2:3: trigger "a b": want a name of letters, digits, -, _ and . with at most 63 characters`},
		"an unknown key":       {"a: {handler: noop, filtre: {}}", `2:22: unknown key "filtre" in triggers.a (did you mean "filter"?)`},
		"no target":            {"a: {}", `2:3: triggers.a: the field "handler" or "process" is missing`},
		"an unknown handler":   {"a: {handler: nop}", `2:16: triggers.a.handler: handler "nop" not found (did you mean "noop"?)`},
		"an unknown process":   {"a: {process: mirror}", `2:16: triggers.a.process: process "mirror" not found`},
		"a dialect":            {"a: {handler: noop, filter: {exakt: {type: a}}}", `2:31: triggers.a.filter.exakt: unknown key: want one of exact, prefix, suffix, all, any, not (did you mean "exact"?)`},
		"no attribute":         {"a: {handler: noop, filter: {exact: {data: a}}}", `2:39: triggers.a.filter.exact.data: data is not an attribute`},
		"a text":               {"a: {handler: noop, filter: {any: [{exact: {type: 1}}]}}", `2:52: triggers.a.filter.any[0].exact.type: want a text: write it in quotes`},
		"a path":               {"a: {handler: noop, parameters: {x: {path: $.Data}}}", `2:45: triggers.a.parameters.x.path: want an attribute or $.data: "Data" cannot be an attribute: want at most 64 of a-z and 0-9`},
		"path and value":       {"a: {handler: noop, parameters: {x: {path: $.id, value: 1}}}", `2:35: triggers.a.parameters.x: want "path" or "value"`},
		"items are callbacks'": {"a: {handler: noop, parameters: {x: {path: $.id, itemsFrom: $.x}}}", `2:51: unknown key "itemsFrom" in triggers.a.parameters.x`},
		"a digest":             {"a: {handler: noop, keys: [secret]}", `2:29: triggers.a.keys[0]: want a digest of 64 hex digits: printf %s TOKEN | sha256sum`},
		"no token":             {"a: {handler: noop, keys: [e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855]}", `2:29: triggers.a.keys[0]: it is the digest of an empty text, as of a variable that is not set`},
		"a backlog":            {"a: {handler: noop, backlog: 0}", `2:31: triggers.a.backlog: want a whole number from 1 to 1000000, found 0`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := Check("", []byte("triggers:\n  "+c.yaml+"\n"))
			var texts []string
			for _, p := range problems {
				texts = append(texts, strings.TrimPrefix(p.String(), ":"))
			}
			if !slices.Equal(texts, []string{c.want}) {
				t.Errorf("found %q\nwant  %q", texts, c.want)
			}
		})
	}
}
