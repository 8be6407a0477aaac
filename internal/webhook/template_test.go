package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/secret"
)

func names() Names {
	return Names{Parameters: []string{"team", "text", "n", "list"}, Secrets: []string{"token"}, Env: []string{"WAYBILL_TEST_REGION"}}
}

func data() map[string]any {
	return Data{ID: "01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77", Attempt: 2, Secrets: secret.Values{"token": "t0ken"},
		Parameters: map[string]any{"team": "Web", "text": `it's <"live">`, "n": json.Number("12345678901234567890"), "list": []any{"a", "b"}},
		Action:     map[string]any{"createdAt": "2026-11-21T10:00:00+01:00"}}.Fields()
}

func TestTemplatesRender(t *testing.T) {
	t.Setenv("WAYBILL_TEST_REGION", "north")
	for text, want := range map[string]string{
		`{"text": {{ json .parameters.text }}}`:               `{"text": "it's <\"live\">"}`,
		`{{ .parameters.n }} {{ json .parameters.n }}`:        `12345678901234567890 12345678901234567890`,
		`?q={{ urlquery .parameters.text }}`:                  `?q=it%27s+%3C%22live%22%3E`,
		`{{ shq .parameters.text }}`:                          `'it'\''s <"live">'`,
		`{{ lower .parameters.team }}{{ upper "x" }}`:         `webX`,
		`{{ default "none" "" }} {{ default 1 .attempt }}`:    `none 2`,
		`{{ date "2006-01-02 15:04" .action.createdAt }}`:     `2026-11-21 09:00`,
		`{{ b64 (printf "u:%s" .secrets.token) }}`:            `dTp0MGtlbg==`,
		`{{ env "WAYBILL_TEST_REGION" }}`:                     `north`,
		`{{ range .parameters.list }}<{{ . }}>{{ end }}`:      `<a><b>`,
		`{{ with .action }}{{ .createdAt }}{{ end }} {{.id}}`: `2026-11-21T10:00:00+01:00 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77`,
	} {
		tmpl, err := ParseTemplate("body", text, names())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := tmpl.Render(data())
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestTemplateFaultsAreFoundAtLoad(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{{ .parameters.tem }}`:                     `.parameters.tem not found (did you mean "team"?)`,
		`{{ if $.secrets.x }}{{ end }}`:             `.secrets.x not found`,
		`{{ .params.team }}`:                        `.params not found`,
		`{{ env "HOME" }}`:                          `env "HOME": add it to templateEnv, or it may not be read`,
		`{{ nosuch .id }}`:                          `url, line 1: function "nosuch" not defined`,
		`{{ .id`:                                    `url, line 1: unclosed action`,
		`{{ if .attempt }}{{.parameters.y}}{{end}}`: `.parameters.y not found`,
	} {
		_, err := ParseTemplate("url", text, names())
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestTemplateFaultsAtRunName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{{ .action.nothing }}`: `body: .action.nothing: map has no entry for key "nothing"`,
		`{{ date "2006" "x" }}`: `body: date "2006" "x": error calling date: x is not a time such as 2026-11-21T10:00:00Z`,
		`{{ range .parameters.list }}{{ printf "%2000000d" 1 }}{{ end }}`: `body: the text is longer than 1048576 bytes`,
	} {
		tmpl, err := ParseTemplate("body", text, names())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tmpl.Render(data()); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestHostsAreKnownBeforeSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`https://example.org/{{ .secrets.token }}`:                         true,
		`https://example.org{{ .secrets.token }}`:                          false,
		`https://{{ .parameters.team }}.example.org/{{ .id }}`:             true,
		`https://{{ .secrets.token }}@example.org/`:                        false,
		`https://{{ .id }}.example.org/`:                                   false,
		`{{ if .secrets.token }}https://a.org/{{ end }}`:                   false,
		`{{ $x := .secrets.token }}https://{{ $x }}.org/`:                  false,
		`https://{{ . }}/`:                                                 false,
		`https://example.org?k={{ .secrets.token }}`:                       true,
		`{{ env "WAYBILL_TEST_REGION" }}://h/{{ with . }}{{ .id }}{{end}}`: true,
	} {
		tmpl, err := ParseTemplate("url", text, names())
		if err != nil {
			t.Fatal(err)
		}
		if got := tmpl.HostKnown(); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestTemplateKnowsWhatItUses(t *testing.T) {
	t.Parallel()
	tmpl, err := ParseTemplate("url", `{{ if eq .attempt 1 }}{{ .secrets.token }}{{ end }}`, names())
	if err != nil {
		t.Fatal(err)
	}
	got := []bool{tmpl.Uses("secrets"), tmpl.Uses("id"), tmpl.UsesName("secrets", "token"), tmpl.UsesName("secrets", "x"), tmpl.Constant()}
	if diff := cmp.Diff([]bool{true, false, true, false, false}, got); diff != "" {
		t.Error(diff)
	}
}

func TestLanesComeFromTheAddress(t *testing.T) {
	t.Parallel()
	lane, err := ParseLane(`{{ urlHost .url }}/{{ .parameters.team }}`, names())
	if err != nil {
		t.Fatal(err)
	}
	got, err := lane.Render(map[string]any{"url": "https://Hooks.example.org:8443/x", "parameters": map[string]any{"team": "web"}})
	if err != nil || got != "hooks.example.org:8443/web" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ParseLane(`{{ .secrets.token }}`, names()); err == nil || !strings.Contains(err.Error(), ".secrets not found") {
		t.Error(err)
	}
}
