package osb

import (
	"strings"
	"testing"
)

const checked = `
services:
  - id: folder
    name: folder
    description: x
    plans:
      - id: small
        name: small
        description: x
        bindable: true
        maintenance_info: {version: 1.0.0}
        schemas:
          service_instance:
            create:
              parameters: {$schema: "http://json-schema.org/draft-07/schema#", required: [size],
                properties: {size: {type: integer, maximum: 9}, key: {pattern: "^k"}}, additionalProperties: false}
            update:
              parameters: {$schema: "http://json-schema.org/draft-07/schema#", properties: {size: {minimum: 5}}}
          service_binding:
            create:
              parameters: {$schema: "http://json-schema.org/draft-07/schema#", properties: {role: {enum: [reader, writer]}}}
        handlers: {provision: make, update: change, deprovision: remove}
        credentials: {}
      - id: plain
        name: plain
        description: x
        handlers: {provision: make, deprovision: remove}
      - id: once
        name: once
        description: x
        schemas: {service_instance: {create: {parameters: {$schema: "http://json-schema.org/draft-07/schema#", required: [size]}}}}
        handlers: {provision: make, deprovision: remove}
  - {id: other, name: other, description: x, plans: [{id: theirs, name: x, description: x, handlers: {provision: a, deprovision: b}}]}
`

// outcome returns the code and the description of an error; "" for none.
func outcome(err *Error) string {
	if err == nil {
		return ""
	}
	return err.Code + " " + err.Description
}

func TestTheCatalogChecksProvisions(t *testing.T) {
	t.Parallel()
	c := parse(t, checked)
	for _, p := range []struct {
		service, plan string
		parameters    Canonical
		version       string
		accepts       bool
		want          string // prefix of the outcome
	}{
		{"folder", "small", `{"size":2}`, "", true, ""},
		{"folder", "small", `{"size":2}`, "1.0.0", true, ""},
		{"folder", "small", `{"size":2,"key":"k1"}`, "", true, ""},
		{"folder", "plain", `{"anything":[1]}`, "", true, ""},
		{"folder", "small", `{"size":2}`, "", false, "AsyncRequired "},
		{"folder", "small", `{"size":2}`, "1.0.1", false, "MaintenanceInfoConflict "},
		{"folder", "plain", `{}`, "1.0.0", true, "MaintenanceInfoConflict "},
		{"folder", "small", `{}`, "1.0.1", false, "InvalidRequest parameters: missing property 'size'"},
		{"folder", "small", `{"size":"2"}`, "", true, "InvalidRequest parameters/size: got string, want integer"},
		{"folder", "small", `{"size":10,"x":1}`, "", true,
			`InvalidRequest parameters/size: breaks "maximum" of the plan's schema; parameters: additional properties 'x' not allowed`},
		{"folder", "small", `{"size":2,"key":"secret"}`, "", true, `InvalidRequest parameters/key: breaks "pattern" of the plan's schema`},
		{"x", "small", `{"size":2}`, "9", false, "InvalidRequest service_id"},
		{"folder", "x", `{"size":2}`, "9", false, "InvalidRequest plan_id"},
		{"folder", "theirs", `{}`, "", true, "InvalidRequest plan_id"},
		{"other", "theirs", `{}`, "", true, ""},
	} {
		plan, err := c.CheckProvision(Provision{AcceptsIncomplete: p.accepts,
			Attributes: Attributes{ServiceID: p.service, PlanID: p.plan, Parameters: p.parameters, Maintenance: p.version}})
		if got := outcome(err); !strings.HasPrefix(got, p.want) || (p.want == "") != (err == nil) {
			t.Errorf("%+v: got %s", p, got)
		}
		if err == nil && plan.ID != p.plan {
			t.Errorf("%+v: got plan %s", p, plan.ID)
		}
		if strings.Contains(outcome(err), "secret") {
			t.Errorf("%+v: the answer has a value: %s", p, outcome(err))
		}
	}
}

func TestFaultsOfParametersHaveAnOrder(t *testing.T) {
	t.Parallel()
	schema, err := newSchema(map[string]any{"$schema": "http://json-schema.org/draft-07/schema#", "properties": map[string]any{
		"a": false, "b": map[string]any{"type": "string"}, "c": map[string]any{"type": "string"}, "d": map[string]any{"type": "string"}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `InvalidRequest parameters/a: is not allowed; parameters/b: got number, want string; ` +
		`parameters/c: got number, want string; parameters/d: got number, want string`
	for range 20 {
		if got := outcome(schema.check(`{"a":1,"b":1,"c":1,"d":1}`)); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}

func TestTheCatalogChecksUpdates(t *testing.T) {
	t.Parallel()
	c := parse(t, checked)
	size := func(text string) *Canonical { return new(Canonical(text)) }
	for _, u := range []struct {
		name, plan string // the plan of the service instance
		update     Update
		want       string
	}{
		{"service alone", "small", Update{ServiceID: "folder"}, "AsyncRequired "},
		{"context alone", "small", Update{ServiceID: "folder", Context: &Context{}}, ""},
		{"context alone, of an unknown one", "", Update{ServiceID: "folder", Context: &Context{}}, ""},
		{"context and plan", "small", Update{ServiceID: "folder", PlanID: "plain", Context: &Context{}}, "AsyncRequired "},
		{"context and parameters", "small", Update{ServiceID: "folder", Parameters: size(`{"size":6}`), Context: &Context{}}, "AsyncRequired "},
		{"context and version", "small", Update{ServiceID: "folder", Maintenance: "1.0.0", Context: &Context{}}, "AsyncRequired "},
		{"good parameters", "small", Update{AcceptsIncomplete: true, ServiceID: "folder", Parameters: size(`{"size":6}`)}, ""},
		{"bad parameters of the present plan", "small", Update{ServiceID: "folder", Parameters: size(`{"size":4}`)},
			`InvalidRequest parameters/size: breaks "minimum" of the plan's schema`},
		{"bad parameters of the plan asked for", "plain", Update{ServiceID: "folder", PlanID: "small", Parameters: size(`{"size":4}`)},
			`InvalidRequest parameters/size`},
		{"a schema for provisions alone", "once", Update{ServiceID: "folder", Parameters: size(`{}`)}, `InvalidRequest parameters: missing property`},
		{"an unknown service instance", "", Update{ServiceID: "folder", Parameters: size(`{"size":4}`)}, "AsyncRequired "},
		{"another version", "small", Update{ServiceID: "folder", Maintenance: "2.0.0"}, "MaintenanceInfoConflict "},
		{"the version of the plan asked for", "plain", Update{AcceptsIncomplete: true, ServiceID: "folder", PlanID: "small", Maintenance: "1.0.0"}, ""},
		{"unknown service", "small", Update{ServiceID: "x", PlanID: "x"}, "InvalidRequest service_id"},
		{"unknown plan", "small", Update{ServiceID: "folder", PlanID: "x"}, "InvalidRequest plan_id"},
		{"plan of another service", "small", Update{ServiceID: "folder", PlanID: "theirs"}, "InvalidRequest plan_id"},
	} {
		change, err := c.CheckUpdate(u.update, u.plan)
		if got := outcome(err); !strings.HasPrefix(got, u.want) || (u.want == "") != (err == nil) {
			t.Errorf("%s: got %s, want %s", u.name, got, u.want)
		}
		if err == nil && (change.Service.ID != "folder" || (change.Plan == nil) != (u.plan == "" && u.update.PlanID == "")) {
			t.Errorf("%s: got %+v", u.name, change)
		}
	}
}

func TestTheCatalogChecksBinds(t *testing.T) {
	t.Parallel()
	c := parse(t, checked)
	for _, b := range []struct {
		bind Bind
		want string
	}{
		{Bind{ServiceID: "folder", PlanID: "small", Parameters: `{"role":"reader"}`}, ""},
		{Bind{ServiceID: "folder", PlanID: "small", Parameters: Empty}, ""},
		{Bind{ServiceID: "folder", PlanID: "small", Parameters: `{"role":"admin"}`},
			"InvalidRequest parameters/role: value must be one of 'reader', 'writer'"},
		{Bind{ServiceID: "folder", PlanID: "plain", Parameters: Empty}, "InvalidRequest plan_id: the plan is not bindable"},
		{Bind{ServiceID: "x", PlanID: "small"}, "InvalidRequest service_id"},
		{Bind{ServiceID: "folder", PlanID: "x"}, "InvalidRequest plan_id"},
	} {
		_, err := c.CheckBind(b.bind)
		if got := outcome(err); got != b.want && !strings.HasPrefix(got, b.want+":") || (b.want == "") != (err == nil) {
			t.Errorf("%+v: got %s, want %s", b.bind, got, b.want)
		}
	}
}
