package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/webhook"
)

const mirror = `
templateEnv: [REGION]
handlers:
  argo-prod: {type: argo}
  notify:
    type: webhook
    parameters: {team: {type: string, pattern: "^[a-z]+$"}, times: {type: integer, default: 1}}
    request: {url: "https://hooks.example.org/{{ .parameters.team }}"}
workflows:
  mirror:
    title: Mirror items
    version: 2
    handler: argo-prod
    sync: 30
    argoOpts:
      template: workflowtemplate/mirror
      parameters: {zone: "{{ env \"REGION\" }}", count: 3, all: "{{ json .parameters.payload }}"}
      serviceAccount: mirror
      labels: {team: web, tier: 1}
    inputSchema: {type: object, required: [payload], properties: {payload: {type: object}, mode: {enum: [fast, slow]}}, additionalProperties: false}
    outputSchema: {type: object, properties: {features: {type: array}}}
    cacheKeyHashIncludes: [".features[].id", ".features[].collection"]
  trigger: {handler: notify, cache: true}
  dry: {handler: noop, cache: true}
  plain: {handler: noop}
  off: {handler: noop, cache: false}
`

func workflowsOf(t *testing.T, text string) map[string]Process {
	t.Helper()
	c, err := Read("server.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c.Processes
}

func TestWorkflowsAreRead(t *testing.T) {
	t.Setenv("REGION", "north")
	all := workflowsOf(t, mirror)
	w := all["mirror"]
	if w.Title != "Mirror items" || w.Version != 2 || w.Sync != 30*time.Second || w.Handler() != "argo-prod" ||
		all["trigger"].Version != 1 || all["trigger"].Title != "trigger" {
		t.Errorf("%+v", w)
	}
	if diff := cmp.Diff([]Value{{Name: "mode", Schema: map[string]any{"enum": []any{"fast", "slow"}}},
		{Name: "payload", Schema: map[string]any{"type": "object"}, Required: true}},
		w.Inputs(), cmpopts.IgnoreUnexported(Value{})); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	if got := all["trigger"].Inputs(); len(got) != 2 || got[0].Name != "team" || !got[0].Required || got[1].Required ||
		got[1].Schema["type"] != "integer" {
		t.Errorf("inputs that the handler describes: %+v", got)
	}
	arguments, err := w.Argo.Arguments(json.RawMessage(`{"mode": "fast", "payload": {"a": 1}}`), webhook.Data{})
	want := map[string]json.RawMessage{"zone": []byte(`"north"`), "count": []byte(`"3"`), "all": []byte(`"{\"a\":1}"`),
		"mode": []byte(`"fast"`), "payload": []byte(`{"a": 1}`)}
	if diff := cmp.Diff(want, arguments); err != nil || diff != "" {
		t.Errorf("arguments: %v (-want +got):\n%s", err, diff)
	}
}

func TestInputsBecomeAJob(t *testing.T) {
	t.Parallel()
	all := workflowsOf(t, mirror)
	prepare := func(process, inputs string) action.Action {
		t.Helper()
		a, err := all[process].Prepare(json.RawMessage(inputs))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	const inputs = `{"payload": {"features": [{"id": 1.0, "collection": "x", "at": 7}]}, "mode": "fast"}`
	a := prepare("mirror", inputs)
	if a.Kind != KindJob || a.Name != "mirror" || a.Version != 2 || a.Handler != "argo-prod" || a.Lane != "argo-prod" ||
		string(a.Parameters) != inputs || a.Delivery != action.AtLeastOnce {
		t.Errorf("%+v", a)
	}
	if b := prepare("mirror",
		`{"payload": {"features": [{"collection": "x", "id": 1}], "other": 2}}`); a.CacheKey.IsZero() || a.CacheKey != b.CacheKey {
		t.Errorf("the keys are %s and %s", a.CacheKey, b.CacheKey)
	}
	if b := prepare("mirror", `{"payload": {"features": [{"collection": "y", "id": 1}]}}`); a.CacheKey == b.CacheKey {
		t.Error("other payloads have the same key")
	}
	if prepare("trigger", `{"team": "a"}`).CacheKey == prepare("trigger", `{"team": "b"}`).CacheKey {
		t.Error("without a payload all inputs count")
	}
	if lane := prepare("trigger", `{"team": "a"}`).Lane; lane != "notify/hooks.example.org" {
		t.Errorf("lane %s", lane)
	}
	key, err := all["mirror"].CacheKey(json.RawMessage(inputs))
	if err != nil || key != a.CacheKey {
		t.Errorf("looked up by inputs: %s, %v", key, err)
	}
}

// TestJobsAreEqualOnlyWhereAProcessSaysSo: work with an effect must happen each time that it is requested.
func TestJobsAreEqualOnlyWhereAProcessSaysSo(t *testing.T) {
	t.Parallel()
	all := workflowsOf(t, mirror)
	for _, process := range []string{"plain", "off"} {
		a, err := all[process].Prepare(json.RawMessage(`{"payload": 1}`))
		if err != nil || !a.CacheKey.IsZero() {
			t.Errorf("%s: key %s, %v", process, a.CacheKey, err)
		}
		if _, err := all[process].CacheKey(json.RawMessage(`{}`)); !fault.Is(err, fault.NotFound) || fault.HintOf(err) == "" {
			t.Errorf("%s: %v", process, err)
		}
	}
	_, err := Read("server.yaml", []byte("workflows:\n  m: {handler: noop, cache: false, cacheKeyHashExcludes: [.at]}\n"))
	want := "server.yaml:2:29: workflows.m.cache: false contradicts cacheKeyHashIncludes and cacheKeyHashExcludes: remove one or the other"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

const media = `
workflows:
  scan:
    handler: noop
    inputSchema:
      type: object
      $defs:
        picture: {oneOf: [{type: string, contentMediaType: image/png, contentEncoding: base64}, {type: string, contentMediaType: text/plain, maxLength: 5}]}
        enum: {const: {oneOf: [{contentMediaType: a/b}, {contentMediaType: c/d}]}}
      properties:
        image: {$ref: "#/$defs/picture"}
        images: {type: array, items: {$ref: "#/$defs/picture"}}
        fixed: {$ref: "#/$defs/enum"}
        number: {oneOf: [{type: integer}, {type: number}]}
        both: {anyOf: [{type: integer}, {type: string}], oneOf: [{contentMediaType: a/b}, {contentMediaType: c/d}]}
`

// TestMediaTypesChooseAmongAlternatives: the standard's way to describe an input of several media
// types.
func TestMediaTypesChooseAmongAlternatives(t *testing.T) {
	t.Parallel()
	w := workflowsOf(t, media)["scan"]
	for inputs, want := range map[string]string{
		`{"image": "hello", "images": ["a", "b"]}`: "",
		`{"image": "iVBORw=="}`:                    "",
		`{"fixed": {"oneOf": [{"contentMediaType": "a/b"}, {"contentMediaType": "c/d"}]}}`: "",
		`{"fixed": {"anyOf": [{"contentMediaType": "a/b"}, {"contentMediaType": "c/d"}]}}`: "inputs/fixed: 'const' failed",
		`{"image": 1}`:  "inputs/image: got number, want string\ninputs/image: got number, want string",
		`{"number": 1}`: "inputs/number: 'oneOf' failed, subschemas 0, 1 matched",
	} {
		_, err := w.Prepare(json.RawMessage(inputs))
		if err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: got %v, want %s", inputs, err, want)
		}
	}
	for _, v := range w.Inputs() {
		switch v.Name {
		case "images":
			v = v.Item()
		case "image":
		default:
			if len(v.Alternatives()) > 0 {
				t.Errorf("%s is chosen by media type", v.Name)
			}
			continue
		}
		text, err := v.Choose("Text/Plain; charset=utf-8")
		if err != nil || text.Schema["maxLength"] != json.Number("5") || len(text.Check("longer")) != 1 || len(text.Check("short")) != 0 {
			t.Errorf("%s: %v, %v", v.Name, text.Schema, err)
		}
		if any, err := v.Choose(""); err != nil || len(any.Check("longer")) != 0 {
			t.Errorf("%s without a media type: %v, %v", v.Name, any.Check("longer"), err)
		}
		if _, err := v.Choose("image/gif"); err == nil || err.Error() != "mediaType image/gif: want image/png or text/plain" {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
}

// TestSchemasOfPayloadsDrawAWarning: a file of swoop would refuse every request.
func TestSchemasOfPayloadsDrawAWarning(t *testing.T) {
	t.Parallel()
	file := func(schema string) string {
		return "handlers: {flows: {type: argo}}\nworkflows:\n" +
			"  m: {handler: flows, argoOpts: {template: workflowtemplate/m}, inputSchema: {type: object, " + schema + "}}\n"
	}
	for schema, want := range map[string]string{
		"required: [features]":                    "schema-of-payload",
		"properties: {process: {type: array}}":    "schema-of-payload",
		"properties: {payload: {}, features: {}}": "",
		"properties: {scene: {type: string}}":     "",
	} {
		_, problems := Check("server.yaml", []byte(file(schema)))
		got := ""
		for _, p := range problems {
			got += p.Code
			if !p.Warning || p.Line != 3 || !strings.Contains(p.Text, "required: [payload]") {
				t.Errorf("%s: %s", schema, p)
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", schema, got, want)
		}
	}
}

// TestWordsMayHaveAnyCase covers every key that accepts some words only.
func TestWordsMayHaveAnyCase(t *testing.T) {
	t.Parallel()
	c, err := Read("server.yaml", []byte(`
ledger: {partition: Day}
handlers:
  hook:
    type: Webhook
    delivery: At-Most-Once
    secrets: [{name: token, type: ENV}]
    request: {url: https://a.example/, headers: {A: "{{ .secrets.token }}"}, responses: [{statusCode: 404, result: Fatal}]}
  run: {type: SHELL, command: {argv: [x], exitCodes: {"3": FATAL}}}
  wake: {type: argo, argoConf: {mode: Resume}}
schedules:
  often: {cron: "* * * * *", handler: run, overlap: Queue, catchUp: None}
`))
	if err != nil {
		t.Fatal(err)
	}
	hook := c.Handlers["hook"]
	if c.Ledger.Partition != "day" || hook.Delivery != action.AtMostOnce || hook.Request.Rules[0].Result != webhook.Fatal ||
		c.Handlers["run"].Command.ExitCodes[3] != webhook.Fatal || !c.Handlers["wake"].Argo.Resume {
		t.Errorf("%+v", c)
	}
	if s := c.Schedules["often"]; s.Window.Overlap != cron.Queue || s.Window.CatchUp != cron.CatchNone {
		t.Errorf("%+v", s)
	}
}

func TestEveryFaultOfTheInputsIsTold(t *testing.T) {
	t.Parallel()
	all := workflowsOf(t, mirror)
	for _, c := range []struct{ process, inputs, want string }{
		{"mirror", `{"mode": "middle", "odd": 1}`,
			"inputs: additional properties 'odd' not allowed\ninputs: missing property 'payload'\ninputs/mode: value must be one of 'fast', 'slow'"},
		{"mirror", `[]`, "the inputs are not a JSON object"},
		{"trigger", `{"teem": "A", "times": "x"}`,
			"times: got string, want integer\n" + `the input "team" is missing` + "\n" + `unknown input "teem" (did you mean "team"?)`},
		{"dry", `{"n": 1e999}`, "inputs: the number 1e999 has no place in a double"},
		{"mirror", `{"payload": {"a": 1}}`, "inputs/payload: none of cacheKeyHashIncludes is found: .features[].id, .features[].collection"},
		{"mirror", `{"payload": {"features": {"id": 1}}}`,
			"inputs/payload/features: cacheKeyHashIncludes .features[].id wants a list here, found an object"},
	} {
		_, err := all[c.process].Prepare(json.RawMessage(c.inputs))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s %s: got\n%v\nwant\n%s", c.process, c.inputs, err, c.want)
		}
	}
}

func TestWorkflowFaultsNameTheirPlace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ file, want string }{
		"keys": {"workflows:\n  a b: {handler: noop}\n  m: {titel: x, version: 0, sync: soon}\n  n: 3\n",
			"server.yaml:2:3: process \"a b\": want a name of letters, digits, -, _ and . with at most 63 characters\n" +
				"server.yaml:3:3: workflows.m: the field \"handler\" is missing\n" +
				"server.yaml:3:7: unknown key \"titel\" in workflows.m (did you mean \"title\"?)\n" +
				"server.yaml:3:26: workflows.m.version: want a whole number from 1, found 0\n" +
				"server.yaml:3:35: workflows.m.sync: want a duration such as 25s or 7d, found \"soon\"\n" +
				"server.yaml:4:6: workflows.n: want a mapping, found a number"},
		"handlers": {"handlers: {argo-prod: {type: argo}, bad: {typ: noop}}\nworkflows:\n  m: {handler: argo-prd}\n" +
			"  n: {handler: argo-prod}\n  o: {handler: bad}\n  p: {handler: noop, argoOpts: {template: workflowtemplate/x}, cirrusOpts: {}}\n",
			"server.yaml:1:37: handlers.bad: the field \"type\" is missing: webhook, shell, argo, cirrus or noop\n" +
				"server.yaml:3:16: workflows.m.handler: handler \"argo-prd\" not found (did you mean \"argo-prod\"?)\n" +
				"server.yaml:4:3: workflows.n: a handler of the type argo needs \"argoOpts\"\n" +
				"server.yaml:6:32: workflows.p.argoOpts: the handler is of the type noop, not argo\n" +
				"server.yaml:6:76: workflows.p.cirrusOpts: the handler is of the type noop, not cirrus"},
		"templates": {
			"handlers: {a: {type: argo}}\nworkflows:\n  m:\n    handler: a\n    inputSchema: {properties: {payload: {}}}\n" +
				"    argoOpts: {template: mirror, parameters: {x: \"{{ .parameters.paylod }}\", y: \"{{ env `HOME` }}\"}}\n",
			"server.yaml:6:26: workflows.m.argoOpts.template: want workflowtemplate/NAME or clusterworkflowtemplate/NAME, found \"mirror\"\n" +
				"server.yaml:6:50: workflows.m.argoOpts.parameters.x: .parameters.paylod not found (did you mean \"payload\"?)\n" +
				"server.yaml:6:81: workflows.m.argoOpts.parameters.y: env \"HOME\": add it to templateEnv, or it may not be read"},
		"schemas and rules": {"workflows:\n  m:\n    handler: noop\n    inputSchema: {type: objekt}\n" +
			"    outputSchema: {properties: {a: {pattern: \"(\"}}}\n    cacheKeyHashIncludes: [\".a\", b]\n    cacheKeyHashExcludes: [\".a\"]\n",
			"server.yaml:4:25: workflows.m.inputSchema.type: value must be one of 'array', 'boolean', 'integer', 'null', " +
				"'number', 'object', 'string'\n" +
				"server.yaml:5:46: workflows.m.outputSchema.properties.a.pattern: '(' is not valid regex: error parsing regexp: " +
				"missing closing ): `(`\n" +
				"server.yaml:6:34: workflows.m.cacheKeyHashIncludes[1]: \"b\" is not a valid path: want a path such as .features[].id\n" +
				"server.yaml:7:28: workflows.m.cacheKeyHashExcludes[0]: .a is included and excluded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Read("server.yaml", []byte(test.file))
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(strings.Split(test.want, "\n"), strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
