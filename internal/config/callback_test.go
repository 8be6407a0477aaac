package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/callback"
)

const calling = `
handlers:
  publish:
    type: webhook
    parameters: {feature: {type: object}, bucket: {type: string, default: public}}
    request: {url: "https://catalog.example.org/{{ .parameters.bucket }}", body: "{{ json .parameters.feature }}"}
callbacks:
  publish: &publish
    handler: publish
    type: perFeature
    when: [successful]
    featureFilter: "@.id =~ 'fake*' & @.properties.gsd <= 0"
    parameters: {feature: {path: .feature}}
workflows:
  mirror:
    handler: noop
    callbacks:
      publish: {<<: *publish}
      off: {<<: *publish, enabled: false}
      next: {process: trigger, when: ["!successful", "!canceled"], parameters: {why: {path: $.workflow.error}, times: {value: 3}}}
  trigger: {handler: noop, cache: true}
`

func TestCallbacksAreRead(t *testing.T) {
	t.Parallel()
	c, err := Read("server.yaml", []byte(calling))
	if err != nil {
		t.Fatal(err)
	}
	all := c.Processes["mirror"].Callbacks
	if len(all) != 3 || all[0].Name != "publish" || !all[0].PerFeature || all[0].Disabled || !all[1].Disabled ||
		all[2].Target.Process != "trigger" {
		t.Fatalf("%+v", all)
	}
	job := action.Action{ID: action.ID{6: 0x70, 8: 0x80}, Kind: KindJob, Name: "mirror"}
	planned := callback.Plan(callback.Job{Action: job, Status: action.Successful,
		Output: json.RawMessage(
			`{"features": [{"id": "fake-1", "properties": {"gsd": 0}}, {"id": "real", "properties": {"gsd": 0}}]}`)}, c.Callbacks(job))
	if len(planned) != 1 || planned[0].Action.Lane != "publish/catalog.example.org" || planned[0].Action.Handler != "publish" {
		t.Errorf("after success: %+v", planned)
	}
	planned = callback.Plan(callback.Job{Action: job, Status: action.Failed, Error: "exit 1"}, c.Callbacks(job))
	if len(planned) != 1 || planned[0].Action.Kind != KindJob || planned[0].Action.Name != "trigger" || planned[0].Action.CacheKey.IsZero() ||
		string(planned[0].Action.Parameters) != `{"times":3,"why":"exit 1"}` || planned[0].Link != "next" {
		t.Errorf("after a failure: %+v", planned)
	}
	if c.Callbacks(action.Action{Kind: KindAction, Name: "mirror"}) != nil {
		t.Error("an action that is not a job has callbacks")
	}
}

func TestFaultsOfCallbacksNameTheirPlace(t *testing.T) {
	t.Parallel()
	const head = `
handlers:
  publish:
    type: webhook
    parameters: {feature: {type: object}, bucket: {type: string, default: public}}
    request: {url: "https://catalog.example.org/{{ .parameters.bucket }}"}
workflows:
  mirror:
    handler: noop
    callbacks:
      x: `
	for _, c := range []struct{ callback, want string }{
		{`{handler: publish, when: [failed], parameters: {feature: {value: {}}}}`,
			"server.yaml:11:35: warning: workflows.mirror.callbacks.x.when: failed does not include jobs that ran out of " +
				"retries: add retries_exhausted, or !retries_exhausted if that is meant"},
		{`{handler: publish, when: [successfulx], parameters: {feature: {value: {}}}}`,
			`server.yaml:11:36: workflows.mirror.callbacks.x.when[0]: "successfulx" is not an end state (did you mean "successful"?)`},
		{`{handler: publish, when: [canceled, "!CANCELED"], parameters: {feature: {value: {}}}}`,
			`server.yaml:11:46: workflows.mirror.callbacks.x.when[1]: canceled contradicts !canceled`},
		{`{handler: publish, parameters: {feature: {value: {}}}}`,
			`server.yaml:11:7: workflows.mirror.callbacks.x: the field "when" is missing: successful, failed, canceled, timed_out, invalid, retries_exhausted`},
		{`{handler: publsh, when: [successful]}`,
			`server.yaml:11:20: workflows.mirror.callbacks.x.handler: handler "publsh" not found (did you mean "publish"?)`},
		{`{process: miror, when: [successful]}`,
			`server.yaml:11:20: workflows.mirror.callbacks.x.process: process "miror" not found (did you mean "mirror"?)`},
		{`{when: [successful]}`, `server.yaml:11:7: workflows.mirror.callbacks.x: the field "handler" or "process" is missing`},
		{`{handler: publish, process: mirror, when: [successful]}`,
			`server.yaml:11:38: workflows.mirror.callbacks.x: it has "handler" and "process"; only one of them runs`},
		{`{handler: publish, when: [successful]}`,
			`server.yaml:11:7: workflows.mirror.callbacks.x: the parameter "feature" of the handler publish is missing`},
		{`{handler: publish, when: [successful], parameters: {feature: {value: 3}, bukket: {value: x}}}`,
			`server.yaml:11:79: workflows.mirror.callbacks.x.parameters.feature.value: got number, want object
server.yaml:11:83: workflows.mirror.callbacks.x.parameters.bukket: the handler publish has no such parameter (did you mean "bucket"?)`},
		{`{handler: publish, when: [successful], parameters: {feature: {path: $.feature}}}`,
			`server.yaml:11:78: workflows.mirror.callbacks.x.parameters.feature.path: $.feature is there with type: perFeature only`},
		{`{handler: publish, when: [successful], parameters: {feature: {path: $.outputs.x}}}`,
			`server.yaml:11:78: workflows.mirror.callbacks.x.parameters.feature.path: document "outputs" not found: want one of input, output, workflow, feature (did you mean "output"?)`},
		{`{handler: publish, when: [successful], parameters: {feature: {path: "$.output[?"}}}`,
			`server.yaml:11:78: workflows.mirror.callbacks.x.parameters.feature.path: "$.output[?" is not a valid JSONPath: `},
		{`{handler: publish, when: [successful], parameters: {feature: {path: $.output, itemsFrom: $.features}}}`,
			`server.yaml:11:71: workflows.mirror.callbacks.x.parameters.feature: "itemsFrom" and "filter" come together`},
		{`{handler: publish, when: [successful], parameters: {feature: {path: "$.output[*]", itemsFrom: $.features, filter: "true"}}}`,
			`server.yaml:11:78: workflows.mirror.callbacks.x.parameters.feature.path: with itemsFrom a path selects one node, by names and indexes only`},
		{`{handler: publish, when: [successful], parameters: {feature: {path: $.output, itemsFrom: "$.features[*]", filter: "true"}}}`,
			`server.yaml:11:99: workflows.mirror.callbacks.x.parameters.feature.itemsFrom: want the list itself, by names and indexes only, such as $.features`},
		{`{handler: publish, when: [successful], parameters: {feature: {path: $.output, itemsFrom: $.features, filter: "featur.x"}}}`,
			`server.yaml:11:119: workflows.mirror.callbacks.x.parameters.feature.filter: at character 1: undeclared reference to 'featur' (in container '')`},
		{`{handler: publish, when: [successful], parameters: {feature: {value: {}, itemsFrom: $.features, filter: "true"}}}`,
			`server.yaml:11:71: workflows.mirror.callbacks.x.parameters.feature: "itemsFrom" and "filter" need a "path"`},
		{`{handler: publish, when: [successful], parameters: {feature: {}}}`,
			`server.yaml:11:62: workflows.mirror.callbacks.x.parameters.feature: want "path" or "value"`},
		{`{handler: noop, type: each, when: [successful]}`,
			`server.yaml:11:32: workflows.mirror.callbacks.x.type: "each" is none of single, perFeature`},
		{`{handler: noop, when: [successful], featureFilter: "feature.x < 1"}`,
			`server.yaml:11:61: workflows.mirror.callbacks.x.featureFilter: a filter needs type: perFeature`},
		{`{handler: noop, type: perFeature, when: [successful], featureFilter: "featur.x < 1"}`,
			`server.yaml:11:79: workflows.mirror.callbacks.x.featureFilter: at character 1: undeclared reference to 'featur' (in container '')`},
		{`{handler: noop, type: perFeature, when: [successful], featureFilter: "@.x[a]"}`,
			`server.yaml:11:79: workflows.mirror.callbacks.x.featureFilter: at character 5: want a name in quotes, an index, * or ?, found "a]"`},
		{`{handler: noop, wen: [successful], when: [successful]}`,
			`server.yaml:11:26: unknown key "wen" in workflows.mirror.callbacks.x (did you mean "when"?)`},
	} {
		_, problems := Check("server.yaml", []byte(head+c.callback+"\n"))
		if got := problems.Error(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s (-want +got):\n%s", c.callback, cmp.Diff(c.want, got))
		}
	}
	_, problems := Check("server.yaml", []byte("callbacks:\n  x: {handlr: a, parameters: {p: {path: $.input}}}\n"))
	if got := problems.Error(); got != `server.yaml:2:7: unknown key "handlr" in callbacks.x (did you mean "handler"?)` {
		t.Errorf("a part at the top: %s", got)
	}
}

func TestTheSubscriberHandlerIsThere(t *testing.T) {
	t.Parallel()
	said := json.RawMessage(`{"uri": "https://App.example.org/jobs?done=1", "contentType": "application/json", "body": {"n": 1}}`)
	for name, file := range map[string]string{"without a file": "", "beside others": calling, "with a network": `
handlers: {subscriber: {type: webhook, request: {allowNetworks: [10.0.0.0/8]}}}`, "configured": `
handlers:
  subscriber:
    type: webhook
    secrets: [{name: signing, type: env}]
    backoff: {retries: 1, initial: 1}
    request: {signing: {secrets: [signing]}, allowNetworks: [10.0.0.0/8], headers: {X-From: waybill}}
`} {
		c, err := Read("server.yaml", []byte(file))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		a, err := c.SubscriberRequest(said)
		if err != nil || a.Lane != "subscriber/app.example.org" || a.Handler != "subscriber" {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		h := c.Subscriber()
		if signed := name == "configured"; (len(h.Request.Signing) == 1) != signed || (h.Policy.Retries == 1) != signed ||
			len(h.Request.Headers) < 1 {
			t.Errorf("%s: %+v", name, h)
		}
	}
	_, problems := Check("server.yaml",
		[]byte("handlers:\n  subscriber:\n    type: webhook\n    request: {url: https://x.example.org, body: x}\n"))
	if got := problems.Error(); !strings.Contains(got, "handlers.subscriber.request.url: url of the handler subscriber is set by Waybill") {
		t.Errorf("its own URL: %s", got)
	}
}
