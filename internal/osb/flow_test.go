package osb

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/flow"
)

// flows is a catalog with two flow plans between which service instances may change.
const flows = `services:
  - id: events
    name: events
    description: events of the shop
    plan_updateable: true
    plans:
      - id: plain
        name: plain
        description: the default parameters
        bindable: true
        flow:
          source: {application: commerce}
          delivery: {retry: 2, timeout: PT5S}
          waitForReady: true
      - id: tuned
        name: tuned
        description: parameters of its own
        schemas: {service_instance: {create: {parameters: {$schema: "http://json-schema.org/draft-07/schema#", type: object,
          properties: {retry: {type: integer}, broker: {type: string}}, additionalProperties: false}}}}
        flow:
          source: {application: commerce}
          delivery: {retry: "${parameters.retry}"}
  - id: open
    name: open
    description: events of the request
    plans:
      - id: free
        name: free
        description: the request decides
        flow:
          source: {ref: {apiVersion: v1, kind: Service, name: "${context.name}", namespace: "${context.namespace}"}}
          sink: {broker: {name: "${parameters.broker}"}}
          namespace: eventing
        schemas: {service_instance: {create: {parameters: {$schema: "http://json-schema.org/draft-07/schema#", type: object}}}}
`

// provisioned returns the attributes of a provision that the catalog accepts.
func provisioned(t *testing.T, c *Catalog, p Provision) (Attributes, *Error) {
	t.Helper()
	p.AcceptsIncomplete = true
	plan, err := c.CheckProvision(p)
	if err != nil {
		return Attributes{}, err
	}
	d := Subject{User: "platform", Now: now}.Put(p, plan)
	if d.Start == nil || d.Start.Verb != VerbProvision || d.Start.Work != d.Start.Asked.Work {
		t.Fatalf("the provision is %s", show(t, d))
	}
	return d.Start.Asked, nil
}

func asking(plan string, parameters, context Canonical, namespace string) Provision {
	service := map[string]string{"plain": "events", "tuned": "events", "free": "open"}[plan]
	return Provision{Attributes: Attributes{ServiceID: service, PlanID: plan, Parameters: parameters, Context: context, Namespace: namespace}}
}

func TestFlowsOfProvisions(t *testing.T) {
	t.Parallel()
	c := parse(t, flows)
	const commerce = `"source":{"application":"commerce"}`
	for _, one := range []struct {
		name string
		p    Provision
		want string // the flow, or a part of the error
	}{
		{"no parameters", asking("plain", Empty, "", "shop"),
			`shop {"delivery":{"retry":2,"timeout":"PT5S"},` + commerce + `} wait`},
		{"delivery", asking("plain", `{"delivery":{"retry":9,"backoffPolicy":"linear","backoffDelay":"PT1S"}}`, "", "shop"),
			`shop {"delivery":{"backoffDelay":"PT1S","backoffPolicy":"linear","retry":9,"timeout":"PT5S"},` + commerce + `} wait`},
		{"an unknown parameter", asking("plain", `{"retry":9}`, "", "shop"), "retry"},
		{"half a delivery", asking("plain", `{"delivery":{"backoffPolicy":"linear"}}`, "", "shop"), "set backoffPolicy and backoffDelay together"},
		{"many attempts", asking("plain", `{"delivery":{"retry":1001}}`, "", "shop"), "delivery.retry"},
		{"a value", asking("tuned", `{"retry":3}`, "", "shop"), `shop {"delivery":{"retry":3},` + commerce + `}`},
		{"no value", asking("tuned", Empty, "", "shop"), `shop {"delivery":{},` + commerce + `}`},
		{"of the context", asking("free", `{"broker":"b"}`, `{"name":"x","namespace":"shop"}`, "shop"),
			`eventing {"sink":{"broker":{"name":"b"}},"source":{"ref":{"apiVersion":"v1","kind":"Service","name":"x","namespace":"shop"}}}`},
		{"a reference as a value", asking("free", `{"broker":"${context.name}"}`, `{"name":"x"}`, ""), "sink.broker.name: want a name"},
		{"nothing of the context", asking("free", Empty, "", ""), "source.ref.name"},
		{"a number for a text", asking("free", `{"broker":1}`, `{"name":"x"}`, ""), "broker"},
	} {
		a, err := provisioned(t, c, one.p)
		if err != nil {
			if err.Status != 400 || !strings.Contains(err.Description, one.want) {
				t.Errorf("%s: %v, want %s", one.name, err, one.want)
			}
			continue
		}
		got := a.Work.Flow.Namespace + " " + string(a.Work.Flow.Spec)
		if a.Work.Flow.WaitForReady {
			got += " wait"
		}
		if diff := cmp.Diff(one.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", one.name, diff)
		}
	}
}

func TestNamespacesOfFlows(t *testing.T) {
	t.Parallel()
	c := parse(t, flows)
	for _, one := range []struct {
		name, plan, sent string
		scope            Scope
		want             string
	}{
		{"sent", "plain", "shop", Scope{}, "shop"},
		{"of the address", "plain", "", Scope{Mount: "shop"}, "shop"},
		{"of the plan", "free", "shop", Scope{Mount: "shop"}, "eventing"},
		{"none", "plain", "", Scope{}, "needs a namespace"},
		{"allowed", "plain", "shop", Scope{Allowed: []string{"x", "shop"}}, "shop"},
		{"not allowed", "plain", "shop", Scope{Allowed: []string{"x"}}, "not allowed"},
		{"none is allowed", "plain", "shop", Scope{Allowed: []string{}}, "not allowed"},
		{"the plan's is not allowed", "free", "shop", Scope{Allowed: []string{"shop"}}, "not allowed"},
		{"malformed", "plain", "Shop", Scope{}, "not the name of a namespace"},
	} {
		p := asking(one.plan, `{}`, `{"name":"x"}`, one.sent)
		p.Scope = one.scope
		if one.plan == "free" {
			p.Attributes.Parameters = `{"broker":"b"}`
		}
		a, err := provisioned(t, c, p)
		switch {
		case err != nil && (err.Status != 400 || !strings.Contains(err.Description, one.want)):
			t.Errorf("%s: %v, want %s", one.name, err, one.want)
		case err == nil && a.Work.Flow.Namespace != one.want:
			t.Errorf("%s: the namespace is %q, want %q", one.name, a.Work.Flow.Namespace, one.want)
		}
	}
}

// flowSubject returns a ready service instance of a plan.
func flowSubject(t *testing.T, c *Catalog, p Provision) Subject {
	t.Helper()
	a, err := provisioned(t, c, p)
	if err != nil {
		t.Fatal(err)
	}
	s := subject(t, "ready")
	s.Row.Asked, s.Row.Applied = a, &a
	return s
}

func TestUpdatesOfFlows(t *testing.T) {
	t.Parallel()
	sinks := strings.Replace(flows, `"${parameters.retry}"}`, `"${parameters.retry}"}
          sink: {broker: {name: "${parameters.broker}"}}`, 1)
	sinks = strings.Replace(sinks, "plan_updateable: true\n    plans", "plans", 1)
	for _, one := range []struct {
		name, catalog string
		update        Update
		want          string
	}{
		{"a parameter", flows, Update{PlanID: "tuned", Parameters: new(Canonical(`{"retry":5}`))}, `new update shop {"delivery":{"retry":5},"source":{"application":"commerce"}}`},
		{"another plan", flows, Update{PlanID: "plain", Parameters: new(Empty)},
			`new update shop {"delivery":{"retry":2,"timeout":"PT5S"},"source":{"application":"commerce"}}`},
		{"a context", flows, Update{Parameters: new(Canonical(`{"retry":5}`)), Context: &Context{Text: `{"namespace":"shop"}`, Namespace: "shop"}},
			`new update shop {"delivery":{"retry":5},"source":{"application":"commerce"}}`},
		{"another namespace", flows, Update{Parameters: new(Canonical(`{"retry":5}`)), Context: &Context{Text: `{"namespace":"x"}`, Namespace: "x"}},
			"422 NotSupported repeatable=false"},
		{"a context alone", flows, Update{Context: &Context{Text: `{"namespace":"shop"}`, Namespace: "shop"}}, `200 {}`},
		{"another namespace alone", flows, Update{Context: &Context{Text: `{"namespace":"x"}`, Namespace: "x"}}, "422 NotSupported repeatable=false"},
		{"at the address", flows, Update{Parameters: new(Canonical(`{"retry":5}`)), Scope: Scope{Mount: "shop", Allowed: []string{"shop"}}}, `new update`},
		{"at another address", flows, Update{Parameters: new(Canonical(`{"retry":5}`)), Scope: Scope{Mount: "market"}}, "400 InvalidRequest"},
		{"a context at another address", flows, Update{Context: &Context{Text: `{"a":1}`}, Scope: Scope{Mount: "market"}}, "400 InvalidRequest"},
		{"in a namespace not allowed any more", flows, Update{Parameters: new(Canonical(`{"retry":5}`)), Scope: Scope{Allowed: []string{"market"}}},
			"400 InvalidRequest"},
		{"a sink", sinks, Update{Parameters: new(Canonical(`{"broker":"x"}`))}, "422 NotSupported repeatable=false"},
		{"many attempts", flows, Update{Parameters: new(Canonical(`{"retry":5000}`))}, "400 InvalidRequest"},
	} {
		c := parse(t, one.catalog)
		one.update.AcceptsIncomplete, one.update.ServiceID = true, "events"
		s := flowSubject(t, c, asking("tuned", Canonical(`{"retry":1}`), "", "shop"))
		if one.catalog == sinks {
			s = flowSubject(t, c, asking("tuned", `{"retry":1,"broker":"default"}`, "", "shop"))
		}
		change, refused := c.CheckUpdate(one.update, "tuned")
		if refused != nil {
			t.Fatal(refused)
		}
		d := s.Patch(one.update, change)
		got := show(t, d)
		if d.Start != nil {
			got += " " + d.Start.Work.Flow.Namespace + " " + string(d.Start.Work.Flow.Spec)
		}
		if !strings.HasPrefix(got, one.want) {
			t.Errorf("%s: got %s, want %s", one.name, got, one.want)
		}
	}
}

// TestAPlanOfAnotherKindChangesNoServiceInstance checks a plan whose kind a new catalog has changed.
func TestAPlanOfAnotherKindChangesNoServiceInstance(t *testing.T) {
	t.Parallel()
	flowing, handled := parse(t, flows), parse(t, strings.NewReplacer("id: folder", "id: events", "id: small", "id: tuned").Replace(small))
	handled.Services[0].Plans[0].Work.Handlers.Update = "change"
	update := Update{AcceptsIncomplete: true, ServiceID: "events", Parameters: new(Canonical(`{"retry":5}`))}
	s := flowSubject(t, flowing, asking("tuned", `{"retry":1}`, "", "shop"))
	change, _ := handled.CheckUpdate(update, "tuned")
	if got := show(t, s.Patch(update, change)); got != "422 NotSupported repeatable=false" {
		t.Errorf("the update is %s", got)
	}
	d := s.Delete(Deprovision{AcceptsIncomplete: true, ServiceID: "events", PlanID: "tuned"}, handled, nil)
	if d.Start == nil || d.Start.Work.Flow == nil || d.Start.Work.Flow.Namespace != "shop" || d.Start.Work.Handlers != nil {
		t.Errorf("the delete is %s", show(t, d))
	}
}

func TestFlowsAreDeletedWhereTheyAre(t *testing.T) {
	t.Parallel()
	c := parse(t, flows)
	request := Deprovision{AcceptsIncomplete: true, ServiceID: "events", PlanID: "tuned"}
	elsewhere := parse(t, flows)
	elsewhere.Plan("events", "tuned").Work.Flow.Namespace = "eventing"
	for name, catalog := range map[string]*Catalog{"its plan": c, "no plan": nil, "a plan elsewhere": elsewhere} {
		d := flowSubject(t, c, asking("tuned", `{"retry":1}`, "", "shop")).Delete(request, catalog, nil)
		if d.Start == nil || d.Start.Work.Flow.Namespace != "shop" {
			t.Errorf("%s: the delete is %s", name, show(t, d))
		}
	}
	plan := c.Plan("events", "tuned")
	plan.Work.Flow.Activation = &flow.Activation{Service: "s"}
	d := subject(t, "none").Delete(request, c, &Flow{Namespace: "x"})
	if diff := cmp.Diff(Work{Flow: &Flow{Namespace: "x", Activation: plan.Work.Flow.Activation}, Polling: time.Hour}, d.Start.Work); diff != "" {
		t.Errorf("a leftover (-want +got):\n%s", diff)
	}
}

func TestCredentialsOfFlowsAreRequestedLast(t *testing.T) {
	t.Parallel()
	c := parse(t, flows)
	plan, binding := c.Plan("events", "plain"), &Binding{Instance: "demo-1", ID: "b", Parameters: Empty}
	s := flowSubject(t, c, asking("plain", Empty, "", "shop"))
	bind := Bind{ServiceID: "events", PlanID: "plain", Parameters: Empty}
	if got := show(t, s.Bind(Bind{ServiceID: "events", PlanID: "tuned"}, plan, nil)); got != "400 InvalidRequest" {
		t.Errorf("a wrong plan: %s", got)
	}
	other := *binding
	other.Parameters = `{"a":1}`
	if got := show(t, s.Bind(bind, plan, &other)); got != "409 Conflict" {
		t.Errorf("other parameters: %s", got)
	}
	for name, decide := range map[string]func(Subject) Decision{
		"bind":  func(s Subject) Decision { return s.Bind(bind, plan, nil) },
		"again": func(s Subject) Decision { return s.Bind(bind, plan, binding) },
		"get":   func(s Subject) Decision { return s.GetBinding(plan, binding) },
	} {
		if d := decide(s); d.Flow == nil || d.Flow.Namespace != "shop" || d.Status != 0 || d.Insert != nil {
			t.Errorf("%s does not request the flow: %+v", name, d)
		}
		known := s
		known.Credentials, known.Read = `{"sinkUri":"http://x"}`, s.Row.Current().Work.Flow
		if got := show(t, decide(known)); !strings.Contains(got, `{"credentials":{"sinkUri":"http://x"}`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestRulesOfFlowPlans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, new, want string }{
		{"source: {application: commerce}\n          delivery: {retry: 2", "delivery: {retry: 2", `the field "source" is missing`},
		{"retry: 2", "retry: 2000", "delivery.retry: want 0 to 1000"},
		{"retry: 2", "retrys: 2", `unknown field "delivery.retrys"`},
		{"application: commerce}\n          delivery: {retry: 2", "app: x}\n          delivery: {retry: 2", `unknown field "source.app"`},
		{`"${parameters.retry}"`, `"${parameters.rety}"`, `the plan's schema has no parameter "rety"`},
		{`"${parameters.retry}"`, `"x${parameters.retry}"`, "is not a reference"},
		{`"${context.name}"`, `"${contexts.name}"`, "is not a reference"},
		{"waitForReady: true", "waitForReady: false", "a plan that is bindable needs waitForReady"},
		{"        flow:", "        credentials: {a: b}\n        flow:", "credentials: those of a flow are"},
		{"namespace: eventing", "namespace: Eventing", `"Eventing" is not the name of a namespace`},
		{"application: commerce}\n          delivery: {retry: 2", "application: other}\n          delivery: {retry: 2", `it must be false: plan "tuned" has another source than plan "plain"`},
		{"waitForReady: true", "waitForReady: true\n          sink: {uri: 'https://x.example'}", `it must be false: plan "tuned" has another sink than plan "plain"`},
		{"flow:\n          source: {application: commerce}\n          delivery: {retry: \"${parameters.retry}\"}",
			"handlers: {provision: a, deprovision: b}", `it must be false: plan "tuned" has another kind than plan "plain"`},
	} {
		text := strings.Replace(flows, c.old, c.new, 1)
		if text == flows {
			t.Fatalf("%q is not in the catalog", c.old)
		}
		catalog, problems := ParseCatalog("catalog.yaml", []byte(text))
		if catalog != nil || !strings.Contains(problems.Error(), c.want) {
			t.Errorf("%s: got %s, want %s", c.new, problems, c.want)
		}
	}
	c := parse(t, flows)
	if r := c.References; len(r) != 3 || r[0].Handler != "" || r[0].Scope != "services[0].plans[0].flow" {
		t.Errorf("the references are %+v", r)
	}
}

func TestContextsOfAnAddressOfANamespace(t *testing.T) {
	t.Parallel()
	const ids = `{"service_id":"events","plan_id":"plain","organization_guid":"o","space_guid":"s"`
	for body, want := range map[string]string{
		ids + `}`: "shop",
		ids + `,"context":{"platform":"kubernetes"}}`: "shop",
		ids + `,"context":{"namespace":"shop"}}`:      "shop",
		ids + `,"context":{"namespace":"other"}}`:     "",
	} {
		r := Request{Header: header(), Instance: "i", Binding: "b", Body: []byte(body), Scope: Scope{Mount: "shop"}}
		p, err := r.Provision()
		_, updating := r.Update()
		_, binding := r.Bind()
		for _, refused := range []*Error{err, updating, binding} {
			if (refused != nil) != (want == "") || refused != nil && !strings.Contains(refused.Description, "context.namespace") {
				t.Errorf("%s: %v", body, refused)
			}
		}
		if p.Attributes.Namespace != want {
			t.Errorf("%s: the namespace is %q", body, p.Attributes.Namespace)
		}
	}
}
