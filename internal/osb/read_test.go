package osb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
)

const small = `services:
  - id: folder
    name: folder
    description: folders of this machine
    plans:
      - id: small
        name: small
        description: one folder
        handlers: {provision: make, deprovision: remove}
`

// parse reads a catalog that has no problems.
func parse(t *testing.T, text string) *Catalog {
	t.Helper()
	c, problems := ParseCatalog("catalog.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return c
}

func TestTheSmallestCatalog(t *testing.T) {
	t.Parallel()
	c := parse(t, small)
	const want = `{"services":[{"id":"folder","name":"folder","description":"folders of this machine","bindable":false,` +
		`"instances_retrievable":true,"bindings_retrievable":true,"allow_context_updates":true,"plan_updateable":false,` +
		`"plans":[{"id":"small","name":"small","description":"one folder","free":true,"bindable":false,"maximum_polling_duration":3600}]}]}`
	if diff := cmp.Diff(want, string(c.JSON())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	plan := c.Plan("folder", "small")
	if diff := cmp.Diff(Work{Handlers: &Handlers{Provision: "make", Deprovision: "remove"}, Polling: time.Hour}, plan.Work); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c.Plan("folder", "large") != nil || c.Plan("x", "small") != nil || c.Service("x") != nil {
		t.Error("the catalog has what it does not have")
	}
}

const large = `
x-schema: &schema
  $schema: https://json-schema.org/draft/2020-12/schema
  type: object
  properties: {size: {type: integer, maximum: 9}, name: {$ref: "#/$defs/name"}}
  additionalProperties: false
  $defs: {name: {type: string, pattern: "^[a-z]+$"}}
services:
  - id: s2
    name: second
    description: listed first
    tags: [b, a]
    requires: []
    bindable: true
    instances_retrievable: true
    bindings_retrievable: true
    allow_context_updates: true
    plan_updateable: true
    metadata: {z: 1, a: {n: 1.50, t: "1.50", <: [true, null]}}
    plans:
      - id: p2
        name: b
        description: first plan
        free: false
        plan_updateable: false
        metadata: {bullets: [x]}
        maximum_polling_duration: 86400
        maintenance_info: {version: 2.1.1+abcdef, description: newer}
        schemas:
          service_instance:
            create: {parameters: *schema}
            update: {parameters: *schema}
          service_binding:
            create: {parameters: *schema}
        handlers: {provision: make, update: change, deprovision: remove}
        credentials: {path: "${parameters.name}", port: 5432}
      - {id: p1, name: a, description: second plan, bindable: false, handlers: {provision: make, deprovision: erase}}
  - {id: s1, name: first, description: x, plans: [{id: p3, name: a, description: x, handlers: {provision: make, deprovision: erase}}]}
`

func TestCatalogsPassOnWhatTheFileSays(t *testing.T) {
	t.Parallel()
	const schema = `{"parameters":{"$defs":{"name":{"pattern":"^[a-z]+$","type":"string"}},"$schema":"https://json-schema.org/draft/2020-12/schema",` +
		`"additionalProperties":false,"properties":{"name":{"$ref":"#/$defs/name"},"size":{"maximum":9,"type":"integer"}},"type":"object"}}`
	const want = `{"services":[` +
		`{"id":"s2","name":"second","description":"listed first","tags":["b","a"],"bindable":true,` +
		`"instances_retrievable":true,"bindings_retrievable":true,"allow_context_updates":true,"plan_updateable":true,` +
		`"metadata":{"a":{"\u003c":[true,null],"n":1.5,"t":"1.50"},"z":1},` +
		`"plans":[{"id":"p2","name":"b","description":"first plan","metadata":{"bullets":["x"]},"free":false,"bindable":true,"plan_updateable":false,` +
		`"schemas":{"service_instance":{"create":` + schema + `,"update":` + schema + `},"service_binding":{"create":` + schema + `}},` +
		`"maximum_polling_duration":86400,"maintenance_info":{"version":"2.1.1+abcdef","description":"newer"}},` +
		`{"id":"p1","name":"a","description":"second plan","free":true,"bindable":false,"maximum_polling_duration":3600}]},` +
		`{"id":"s1","name":"first","description":"x","bindable":false,` +
		`"instances_retrievable":true,"bindings_retrievable":true,"allow_context_updates":true,"plan_updateable":false,` +
		`"plans":[{"id":"p3","name":"a","description":"x","free":true,"bindable":false,"maximum_polling_duration":3600}]}]}`
	c := parse(t, large)
	if diff := cmp.Diff(want, string(c.JSON())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var references []string
	for _, r := range c.References {
		references = append(references, fmt.Sprintf("%s %s %s %s", r.At, r.Verb, r.Handler, r.Plan.ID))
	}
	wantReferences := []string{
		"catalog.yaml:35:31 provision make p2", "catalog.yaml:35:45 update change p2", "catalog.yaml:35:66 deprovision remove p2",
		"catalog.yaml:37:92 provision make p1", "catalog.yaml:37:111 deprovision erase p1",
		"catalog.yaml:38:107 provision make p3", "catalog.yaml:38:126 deprovision erase p3",
	}
	if diff := cmp.Diff(wantReferences, references); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}

func TestEqualCatalogsHaveEqualAnswers(t *testing.T) {
	t.Parallel()
	first := parse(t, large)
	for range 20 {
		if again := parse(t, large); string(again.JSON()) != string(first.JSON()) || again.ETag() != first.ETag() {
			t.Fatal("the same file has two answers")
		}
	}
	spelled := parse(t, strings.Replace(large, "{z: 1, a:", "{z: 0x1, a:", 1))
	if spelled.ETag() != first.ETag() {
		t.Error("another spelling of the same value has another ETag")
	}
	if other := parse(t, strings.Replace(large, "listed first", "listed last", 1)); other.ETag() == first.ETag() {
		t.Error("another catalog has the same ETag")
	}
	if tag := first.ETag(); len(tag) != 34 || tag[0] != '"' || tag[33] != '"' {
		t.Errorf("the ETag is %s", tag)
	}
	first.JSON()[0] = 'x'
	if first.JSON()[0] != '{' {
		t.Error("a reader can change the catalog")
	}
}

// TestRulesOfCatalogs replaces a text of the smallest catalog, or of the large one.
func TestRulesOfCatalogs(t *testing.T) {
	t.Parallel()
	const schema = "schemas: {service_instance: {create: {parameters: %s}}}\n        handlers:"
	with := func(parameters string) string { return fmt.Sprintf(schema, parameters) }
	big := `{$schema: "http://json-schema.org/draft-07/schema#", description: "` + strings.Repeat("x", 65_400) + `%s"}`
	for _, c := range []struct{ text, old, new, want string }{
		{small, small, "", `catalog.yaml:1:1: the file is empty`},
		{small, small, "services: []", `catalog.yaml:1:11: services: "services" must not be empty`},
		{small, "name: folder", "name: ''", `catalog.yaml:3:11: services[0].name: "name" must not be empty`},
		{small, "id: small", "id: 5", `catalog.yaml:6:13: services[0].plans[0].id: want a string, found a number; write "5" in quotes`},
		{small, "        description: one folder\n", "", `catalog.yaml:6:9: services[0].plans[0]: the field "description" is missing`},
		{small, "        handlers: {provision: make, deprovision: remove}\n", "", `catalog.yaml:6:9: services[0].plans[0]: set exactly one of handlers and flow`},
		{small, "provision: make, ", "", `catalog.yaml:9:9: services[0].plans[0].handlers: the field "provision" is missing`},
		{small, ", deprovision: remove", "", `catalog.yaml:9:9: services[0].plans[0].handlers: the field "deprovision" is missing`},
		{small, "handlers:", "flow: {source: {application: a}}\n        handlers:", `catalog.yaml:6:9: services[0].plans[0]: set exactly one of handlers and flow`},
		{small, "handlers:", "fre: true\n        handlers:", `catalog.yaml:9:9: services[0].plans[0]: unknown key "fre" (did you mean "free"?)`},
		{small, "plans:", "requires: [syslog_drain]\n    plans:",
			`catalog.yaml:5:15: services[0].requires: must be empty: syslog drains, routes and volumes are not offered`},
		{small, "plans:", "instances_retrievable: false\n    plans:", `catalog.yaml:5:28: services[0].instances_retrievable: is always true`},
		{small, "plans:", "bindings_retrievable: false\n    plans:", `catalog.yaml:5:27: services[0].bindings_retrievable: is always true`},
		{small, "plans:", "allow_context_updates: false\n    plans:", `catalog.yaml:5:28: services[0].allow_context_updates: is always true`},
		{small, "plans:", "bindable: true\n    plans:", `catalog.yaml:7:9: services[0].plans[0]: a plan that is bindable needs credentials`},
		{small, "handlers:", "bindable: true\n        handlers:", `catalog.yaml:6:9: services[0].plans[0]: a plan that is bindable needs credentials`},
		{small, "handlers:", "maximum_polling_duration: 0\n        handlers:",
			`catalog.yaml:9:35: services[0].plans[0].maximum_polling_duration: want whole seconds from 1 to 31622400, found 0`},
		{small, "handlers:", "maximum_polling_duration: 1.5\n        handlers:",
			`catalog.yaml:9:35: services[0].plans[0].maximum_polling_duration: want whole seconds from 1 to 31622400, found 1.5`},
		{small, "handlers:", "maintenance_info: {version: \"2.1\"}\n        handlers:",
			`catalog.yaml:9:37: services[0].plans[0].maintenance_info.version: want a semantic version such as 1.4.0, found "2.1"`},
		{large, "id: s1", "id: s2", `catalog.yaml:38:10: services[1].id: "s2" is used twice`},
		{large, "name: first", "name: second", `catalog.yaml:38:20: services[1].name: "second" is used twice`},
		{large, "id: p3", "id: p2", `catalog.yaml:38:56: services[1].plans[0].id: "p2" is used twice`},
		{large, "{id: p1, name: a", "{id: p1, name: b", `catalog.yaml:37:24: services[0].plans[1].name: "b" is used twice`},
		{small, "handlers:", with("{type: object}"), `catalog.yaml:9:59: services[0].plans[0].schemas.service_instance.create.parameters: ` +
			`a schema needs "$schema", such as https://json-schema.org/draft/2020-12/schema`},
		{small, "handlers:", with(`{$schema: "http://json-schema.org/draft-07/schema#", $ref: "http://json-schema.org/draft-07/schema#"}`),
			`catalog.yaml:9:59: services[0].plans[0].schemas.service_instance.create.parameters: ` +
				`the reference "http://json-schema.org/draft-07/schema#" leaves the schema`},
		{small, "handlers:", with(`{$schema: "http://json-schema.org/draft-07/schema#", properties: {a: {anyOf: [{$ref: other.json}]}}}`),
			`catalog.yaml:9:59: services[0].plans[0].schemas.service_instance.create.parameters: the reference "other.json" leaves the schema`},
		{small, "handlers:", with(fmt.Sprintf(big, strings.Repeat("x", 100))),
			`catalog.yaml:9:59: services[0].plans[0].schemas.service_instance.create.parameters: the schema has 65570 bytes, more than 65536`},
		{large, "${parameters.name}", "dir-${parameters.name}", `catalog.yaml:36:22: services[0].plans[0].credentials: ` +
			`"dir-${parameters.name}" is not a reference: want a whole text such as ${parameters.name}`},
		{large, "${parameters.name}", "${context.name}", `catalog.yaml:36:22: services[0].plans[0].credentials: ` +
			`"${context.name}" is not a reference: want a whole text such as ${parameters.name}`},
		{large, "${parameters.name}", "${parameters.nam}", `catalog.yaml:36:22: services[0].plans[0].credentials: the plan's schema has no parameter "nam"`},
	} {
		text := strings.Replace(c.text, c.old, c.new, 1)
		if text == c.text {
			t.Fatalf("%q is not in the catalog", c.old)
		}
		catalog, problems := ParseCatalog("catalog.yaml", []byte(text))
		if catalog != nil || problems.Error() != c.want {
			t.Errorf("%.80s:\ngot  %s\nwant %s", c.new, problems, c.want)
		}
	}
	if _, problems := ParseCatalog("f", []byte(strings.Replace(small, "handlers:", with(fmt.Sprintf(big, "")), 1))); len(problems) > 0 {
		t.Errorf("a schema just below the bound: %s", problems)
	}
	for _, parameters := range []string{`{$schema: "http://json-schema.org/draft-07/schema#", type: text}`, `{$schema: "https://example.com/own"}`,
		`{$schema: "http://json-schema.org/draft-07/schema#", $ref: "#/none"}`, `{$schema: "http://json-schema.org/draft-07/schema#", pattern: "("}`} {
		_, problems := ParseCatalog("f", []byte(strings.Replace(small, "handlers:", with(parameters), 1)))
		if len(problems) != 1 || problems[0].Code != "schema-invalid" {
			t.Errorf("%s: got %v", parameters, problems)
		}
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("id: s1", "id: s2", "id: p3", "id: p1", "86400", "-1").Replace(large)
	if _, problems := ParseCatalog("f", []byte(text)); len(problems) != 3 {
		t.Errorf("got %v", problems)
	}
}

func TestUnusedCredentialsAreAWarning(t *testing.T) {
	t.Parallel()
	text := strings.Replace(small, "handlers:", "credentials: {a: b}\n        handlers:", 1)
	c, problems := ParseCatalog("f", []byte(text))
	want := fault.Problems{{Position: fault.Position{File: "f", Line: 9, Column: 22}, Code: "not-bindable", Scope: "services[0].plans[0].credentials",
		Warning: true, Text: "the plan is not bindable, so that the credentials are not used"}}
	if diff := cmp.Diff(want, problems); c == nil || diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzCatalog checks that no file makes the reader panic, and that it returns a catalog or a problem.
func FuzzCatalog(f *testing.F) {
	f.Add(small)
	f.Add(large)
	f.Fuzz(func(t *testing.T, text string) {
		c, problems := ParseCatalog("f", []byte(text))
		if (c == nil) != (problems.Err() != nil) {
			t.Fatalf("catalog %v with problems %v", c, problems)
		}
	})
}
