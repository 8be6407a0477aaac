package config

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/action"
)

const notify = `
templateEnv: [REGION]
x-backoff: &patient {retries: 9, seconds: 2, factor: 1, max: 1h, jitter: 0}
defaults: {attemptTimeout: 20, deadline: never}
handlers:
  notify:
    type: syncHTTP
    delivery: at-most-once
    parameters:
      team: {type: string, pattern: "^[a-z]+$"}
      text: {type: string}
      times: {type: integer, minimum: 1, default: 0x10}
    secrets:
    - {name: token, type: file, path: secrets/token, ttl: 5m}
    - {name: new, type: env, env: WAYBILL_NEW}
    request:
      url: https://hooks.example.org/teams/{{ .parameters.team }}
      headers: {Authorization: "Bearer {{ .secrets.token }}"}
      body: '{"text": {{ json .parameters.text }}, "region": {{ json (env "REGION") }}}'
      responses:
      - {statusCode: 400, message: "busy", result: error}
      - {statusCode: [400, 5xx], result: fatal}
      - {jsonPath: "$.errors[*]", result: throttle}
      signing: {secrets: [new]}
      allowNetworks: [10.1.2.3/8]
    backoff: *patient
  tidy:
    type: shell
    parameters: {path: {type: string}}
    command: {argv: [tidy, --all], env: [LANG], exitCodes: {"3": fatal, "4": success}}
    lane: "{{ .parameters.path }}"
    backoff: {schedule: [5s, 1m, 2]}
    attemptTimeout: 1h
    deadline: 30d
  nothing: {type: noop}
`

func read(t *testing.T, text string) Config {
	t.Helper()
	c, problems := Check("/etc/waybill/server.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return c
}

func TestHandlersAreRead(t *testing.T) {
	t.Parallel()
	c := read(t, notify)
	n := c.Handlers["notify"]
	want := action.Policy{Retries: 9, Initial: action.Duration(2 * time.Second), Factor: 1, Max: action.Duration(time.Hour),
		AttemptTimeout: action.Duration(20 * time.Second)}
	if diff := cmp.Diff(want, n.Policy); diff != "" {
		t.Error(diff)
	}
	if n.Type != TypeWebhook || n.Delivery != action.AtMostOnce || n.Secrets[0].Path != "/etc/waybill/secrets/token" ||
		n.Secrets[0].TTL != 5*time.Minute || n.Secrets[1].Env != "WAYBILL_NEW" {
		t.Errorf("%+v", n)
	}
	if q := n.Request; q.Method != http.MethodPost || len(q.Rules) != 3 || q.Rules[1].Status.String() != "400, 5xx" ||
		q.Guard.Allow[0].String() != "10.0.0.0/8" || len(q.Signing) != 1 {
		t.Errorf("%+v", q)
	}
	tidy := c.Handlers["tidy"]
	if diff := cmp.Diff([]action.Duration{action.Duration(5 * time.Second), action.Duration(time.Minute), action.Duration(2 * time.Second)},
		tidy.Policy.Schedule); diff != "" {
		t.Error(diff)
	}
	if tidy.Policy.Deadline != action.Duration(30*24*time.Hour) || tidy.Command.ExitCodes[3] != "fatal" ||
		tidy.Command.ExitCodes[4] != "success" {
		t.Errorf("%+v %+v", tidy, tidy.Command)
	}
}

func TestPrepareChecksParametersAndFindsTheLane(t *testing.T) {
	t.Parallel()
	c := read(t, notify)
	tests := []struct{ handler, parameters, lane, problems string }{
		{"notify", `{"team": "web", "text": "hi"}`, "notify/hooks.example.org", ""},
		{"tidy", `{"path": "/srv"}`, "tidy//srv", ""},
		{"tidy", `{"path": ""}`, "tidy", ""},
		{"nothing", `{"outcome": "retry"}`, "nothing", ""},
		{"notify", ``, "", "the parameter \"team\" is missing\nthe parameter \"text\" is missing"},
		{"notify", `{"team": "Web", "txt": "hi", "text": 1, "times": 0}`, "", strings.Join([]string{
			`team: 'Web' does not match pattern '^[a-z]+$'`,
			`text: got number, want string`,
			`unknown parameter "txt" (did you mean "text"?)`,
			`times: minimum: got 0, want 1`}, "\n")},
		{"notify", `[1]`, "", "the parameters are not a JSON object"},
		{"notify", `{} {}`, "", "the parameters are not valid JSON: unexpected text after the object"},
		{"tidy", `{"path": "a\nb"}`, "", `lane: "a\nb" has a control character`},
	}
	for _, test := range tests {
		a, err := c.Handlers[test.handler].Prepare(json.RawMessage(test.parameters))
		if err != nil {
			lines := strings.Split(err.Error(), "\n")
			if diff := cmp.Diff(strings.Split(test.problems, "\n"), lines, sorted()); diff != "" {
				t.Errorf("%s %s:\n%s", test.handler, test.parameters, diff)
			}
			continue
		}
		if a.Lane != test.lane || a.Handler != test.handler || a.Kind != KindAction || test.problems != "" {
			t.Errorf("%s %s: %+v", test.handler, test.parameters, a)
		}
	}
}

// sorted compares lists of lines whatever their order.
func sorted() cmp.Option {
	return cmp.Transformer("sorted", func(in []string) map[string]int {
		out := map[string]int{}
		for _, line := range in {
			out[line]++
		}
		return out
	})
}

func TestFillPutsInDefaults(t *testing.T) {
	t.Parallel()
	filled, problems := read(t, notify).Handlers["notify"].Parameters.Fill(json.RawMessage(`{"team": "web", "text": "hi"}`))
	if diff := cmp.Diff(map[string]any{"team": "web", "text": "hi", "times": json.Number("16")}, filled); diff != "" || problems != nil {
		t.Errorf("%s %v", diff, problems)
	}
}

func TestHandlerFaultsNameTheirPlace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ file, want string }{
		"unknown key": {"handlers:\n  notify:\n    type: webhook\n    request: {url: https://h/}\n    backoff: {retires: 5}\n",
			`server.yaml:5:15: unknown key "retires" in handlers.notify.backoff (did you mean "retries"?)`},
		"doubled key": {"handlers:\n  a: {type: noop}\n  a: {type: noop}\n", `server.yaml:3:3: the key "a" is already at 2:3`},
		"type": {"handlers: {a: {type: webhok}}\n",
			`server.yaml:1:22: handlers.a.type: "webhok" is none of webhook, shell, argo, cirrus, noop (did you mean "webhook"?)`},
		"no type":  {"handlers: {a: {}}\n", `server.yaml:1:12: handlers.a: the field "type" is missing: webhook, shell, argo, cirrus or noop`},
		"reserved": {"handlers: {step: {type: noop}}\n", `server.yaml:1:12: the handler's name "step" is reserved`},
		"name": {"handlers: {a/b: {type: noop}}\n",
			`server.yaml:1:12: handler "a/b": want a name of letters, digits, -, _ and . with at most 63 characters`},
		"no mapping": {"handlers: {a: 1}\n", `server.yaml:1:15: handlers.a: want a mapping, found a number`},
		"no request": {"handlers: {a: {type: webhook}}\n", `server.yaml:1:12: handlers.a: the field "request" is missing`},
		"shell key": {"handlers: {a: {type: shell, request: {}, command: {argv: [a]}}}\n",
			`server.yaml:1:29: unknown key "request" in handlers.a`},
		"empty argv": {"handlers: {a: {type: shell, command: {argv: []}}}\n",
			`server.yaml:1:45: handlers.a.command.argv: "argv" must not be empty`},
		"exit code": {"handlers: {a: {type: shell, command: {argv: [a], exitCodes: {\"300\": fatal, \"1\": fine}}}}\n",
			"server.yaml:1:62: handlers.a.command.exitCodes: want an exit status from 0 to 255, found \"300\"\n" +
				`server.yaml:1:81: handlers.a.command.exitCodes: "fine" is none of success, error, fatal, throttle`},
		"times": {
			"handlers: {a: {type: noop, backoff: {initial: soon, retries: -1, factor: 0.5, schedule: [1s, x]}, deadline: 99999d, " +
				"attemptTimeout: 0}}\n",
			"server.yaml:1:47: handlers.a.backoff.initial: want a duration such as 25s or 7d, found \"soon\"\n" +
				"server.yaml:1:62: handlers.a.backoff.retries: want a whole number from 0 to 1000, found -1\n" +
				"server.yaml:1:74: handlers.a.backoff.factor: want a number from 1 to 100, found 0.5\n" +
				"server.yaml:1:94: handlers.a.backoff.schedule[1]: want a duration such as 25s or 7d, found \"x\"\n" +
				"server.yaml:1:109: handlers.a.deadline: want a duration such as 25s or 7d, found \"99999d\"\n" +
				"server.yaml:1:133: handlers.a.attemptTimeout: an attempt must end some time"},
		"schema": {
			"handlers:\n  a:\n    type: shell\n    command: {argv: [a]}\n    parameters:\n      b: {type: strin}\n      c: " +
				"{type: integer, default: x}\n      d: text\n      e: {type: string, pattern: \"(\"}\n" +
				"      f: {$ref: \"https://example.org/s.json\"}\n",
			"server.yaml:6:17: handlers.a.parameters.b.type: value must be one of 'array', 'boolean', 'integer', 'null', " +
				"'number', 'object', 'string'\n" +
				"server.yaml:7:35: handlers.a.parameters.c.default: got string, want integer\n" +
				"server.yaml:8:10: handlers.a.parameters.d: want a JSON Schema such as {type: string}, found a string\n" +
				"server.yaml:9:34: handlers.a.parameters.e.pattern: '(' is not valid regex: error parsing regexp: missing closing ): `(`\n" +
				"server.yaml:10:10: handlers.a.parameters.f: failing loading \"https://example.org/s.json\": " +
				"https://example.org/s.json is outside of the schema"},
		"templates": {
			"handlers:\n  a:\n    type: webhook\n    parameters: {team: {}}\n    lane: \"{{ .secrets.t }}\"\n" +
				"    secrets: [{name: t, type: env}]\n    request:\n      url: https://h/{{ .parameters.tem }}\n" +
				"      body: \"{{ nosuch }}\"\n      headers: {X-A: \"{{ env `HOME` }}\"}\n",
			"server.yaml:5:11: handlers.a.lane: .secrets not found\n" +
				"server.yaml:8:12: handlers.a.request.url: .parameters.tem not found (did you mean \"team\"?)\n" +
				"server.yaml:9:13: handlers.a.request.body: line 1: function \"nosuch\" not defined\n" +
				"server.yaml:10:22: handlers.a.request.headers.X-A: env \"HOME\": add it to templateEnv, or it may not be read"},
		"secret in the host": {"handlers: {a: {type: webhook, secrets: [{name: t, type: env}], request: {url: \"https://{{ .secrets.t }}/\"}}}\n",
			"server.yaml:1:79: handlers.a.request.url: the host may depend on parameters and env only"},
		"request": {
			"handlers:\n  a:\n    type: webhook\n    secrets: [{name: t, type: file}, {name: t, type: env}]\n    request:\n" +
				"      url: https://h/\n      method: A B\n      headers: {\"A B\": x, Webhook-Id: y}\n" +
				"      responses: [{result: fatal}, {statusCode: 6xx, message: \"(\", jsonPath: \"$.[\", result: fine}]\n" +
				"      signing: {secrets: [tt]}\n      allowNetworks: [10.0.0.1]\n      proxy: proxy.example.org\n",
			"server.yaml:4:15: handlers.a.secrets[0]: a secret in a file needs its \"path\"\n" +
				"server.yaml:4:45: handlers.a.secrets[1]: there are two secrets \"t\"\n" +
				"server.yaml:7:15: handlers.a.request.method: want a method such as POST, found \"A B\"\n" +
				"server.yaml:8:17: handlers.a.request.headers: \"A B\" is not a valid header name\n" +
				"server.yaml:8:27: handlers.a.request.headers: the header Webhook-Id is set by Waybill\n" +
				"server.yaml:9:19: handlers.a.request.responses[0]: a rule without statusCode, message or jsonPath matches every answer\n" +
				"server.yaml:9:49: handlers.a.request.responses[1].statusCode: want a status such as 404 or 5xx, found \"6xx\"\n" +
				"server.yaml:9:63: handlers.a.request.responses[1].message: missing closing ): `(`\n" +
				"server.yaml:9:78: handlers.a.request.responses[1].jsonPath: \"$.[\" is not a valid JSONPath: unexpected '[' at position 3\n" +
				"server.yaml:9:93: handlers.a.request.responses[1].result: \"fine\" is none of success, error, fatal, throttle\n" +
				"server.yaml:10:27: handlers.a.request.signing.secrets[0]: secret \"tt\" not found (did you mean \"t\"?)\n" +
				"server.yaml:11:23: handlers.a.request.allowNetworks[0]: want a network such as 10.0.0.0/8, found \"10.0.0.1\"\n" +
				"server.yaml:12:14: handlers.a.request.proxy: want environment, or an address such as http://proxy.example.org:3128 " +
				"(http, https or socks5), found \"proxy.example.org\""},
	}
	for name, test := range tests {
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

func TestAnUnusedSecretIsAWarning(t *testing.T) {
	t.Parallel()
	_, problems := Check("server.yaml",
		[]byte("handlers: {a: {type: webhook, secrets: [{name: t, type: env}], request: {url: \"https://h/\"}}}\n"))
	if problems.Err() != nil || problems.Error() != `server.yaml:1:41: warning: handlers.a.secrets[0]: nothing uses the secret "t"` {
		t.Error(problems)
	}
}

func TestArbitraryFilesAreFaultsAndNeverPanics(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(notify)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			end := min(len(text), at+rapid.IntRange(0, 12).Draw(t, "length"))
			put := rapid.SampledFrom([]string{"", "x", "1", "{}", "[]", "[x]", ": ", "~", "{{", "\n", "- ", "*patient", "true"}).Draw(t, "put")
			text = append(text[:at:at], append([]byte(put), text[end:]...)...)
		}
		_, _ = Check("server.yaml", text)
	})
}

// TestAddressesThatCannotBeRequestedAreFaults wherever the fault does not depend on an action's
// data.
func TestAddressesThatCannotBeRequestedAreFaults(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		`https://user:pw@example.org/x`: "a user or password does not belong in an address; use " +
			"the header Authorization",
		`https://{{ .secrets.u }}:{{ .secrets.p }}@example.org:90`: "a user or password does not belong in an address; use " +
			"the header Authorization",
		`http://x:99999/`:   `"http://x:99999/": the port is not from 1 to 65535`,
		`http://x:0/`:       `"http://x:0/": the port is not from 1 to 65535`,
		`ftp://example.org`: `"ftp://example.org" is not an address such as https://example.org/path`,
		`https://example.org/{{ .parameters.a }}?mail=a@b`: "",
		`https://{{ .parameters.a }}/x`:                    "",
	} {
		_, problems := Check("server.yaml", []byte(fmt.Sprintf("handlers:\n  hook:\n    type: webhook\n"+
			"    parameters: {a: {}}\n    request:\n      url: %q\n"+
			"    secrets: [{name: u, type: env}, {name: p, type: env}]\n", address)))
		var got []string
		for _, p := range problems {
			if !p.Warning {
				got = append(got, p.String())
			}
		}
		if want != "" {
			want = "server.yaml:6:12: handlers.hook.request.url: " + want
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
}
