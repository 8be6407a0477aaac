package osb

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBinds(t *testing.T) {
	t.Parallel()
	small := folder().Plans[0]
	existing := &Binding{Instance: "demo-1", ID: "b", Parameters: `{"a":1}`}
	with := Bind{BindingID: "b", ServiceID: "folder", PlanID: "small", Parameters: `{"a":1}`}
	for _, c := range []struct {
		name, state string
		bind        Bind
		existing    *Binding
		want        string
	}{
		{"new", "ready", with, nil, `201 {"credentials":{"size":2}} insert`},
		{"identical", "ready", with, existing, `200 {"credentials":{"size":2}}`},
		{"other parameters", "ready", Bind{BindingID: "b", ServiceID: "folder", PlanID: "small", Parameters: Empty}, existing, "409 Conflict"},
		{"wrong plan", "ready", Bind{BindingID: "b", ServiceID: "folder", PlanID: "large"}, nil, "400 InvalidRequest"},
		{"wrong service", "ready", Bind{BindingID: "b", ServiceID: "x", PlanID: "small"}, nil, "400 InvalidRequest"},
		{"wrong plan, in progress", "updating", Bind{BindingID: "b", ServiceID: "folder", PlanID: "large"}, nil, "400 InvalidRequest"},
		{"wrong plan, unknown", "none", Bind{BindingID: "b", ServiceID: "folder", PlanID: "large"}, nil, "404 NotFound"},
		{"identical, in progress", "updating", with, existing, concurrency},
	} {
		d := subject(t, c.state).Bind(c.bind, small, c.existing)
		if got := show(t, d); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		if want := (&Binding{Instance: "demo-1", ID: "b", Parameters: `{"a":1}`}); d.Insert != nil && !cmp.Equal(d.Insert, want) {
			t.Errorf("%s: inserts %+v, want %+v", c.name, d.Insert, want)
		}
	}
}

// TestCredentialsAreThoseOfTheFlowThatWasRead: the service instance may become another between the two decisions of a bind.
func TestCredentialsAreThoseOfTheFlowThatWasRead(t *testing.T) {
	t.Parallel()
	c := parse(t, flows)
	s := flowSubject(t, c, asking("plain", Empty, "", "shop"))
	bind := Bind{BindingID: "b", ServiceID: "events", PlanID: "plain", Parameters: Empty}
	d := s.Bind(bind, nil, nil)
	if d.Flow == nil || d.Flow.Namespace != "shop" {
		t.Fatalf("got %s, want the flow to be read", show(t, d))
	}
	moved := flowSubject(t, c, asking("plain", Empty, "", "market"))
	for want, now := range map[string]*Subject{`201 {"credentials":{"sinkUri":"http://shop"}} insert`: &s, concurrency: &moved} {
		now.Credentials, now.Read = `{"sinkUri":"http://shop"}`, d.Flow
		if got := show(t, now.Bind(bind, nil, nil)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, scope := range []Scope{{Mount: "market"}, {Allowed: []string{"market"}}} {
		bind.Scope = scope
		if got := show(t, s.Bind(bind, nil, nil)); got != "400 InvalidRequest" {
			t.Errorf("%+v: got %s", scope, got)
		}
	}
}

func TestBindingsAreFetchedAndRemovedInEveryState(t *testing.T) {
	t.Parallel()
	small := folder().Plans[0]
	existing := &Binding{Instance: "demo-1", ID: "b", Parameters: `{"a":1}`}
	const fetched, removed = `200 {"credentials":{"size":2},"parameters":{"a":1}}`, `200 {} remove`
	for state, want := range map[string][]string{
		"none": {"404 NotFound", "410 Gone"}, "gone": {"404 NotFound", "410 Gone"},
		"ready": {fetched, removed}, "updating": {fetched, removed}, "update failed": {fetched, removed},
		"deprovisioning": {fetched, removed}, "deprovision failed": {fetched, removed},
	} {
		s := subject(t, state)
		got := []string{show(t, s.GetBinding(small, existing)), show(t, s.Unbind(Unbind{ServiceID: "folder", PlanID: "small"}, existing))}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", state, diff)
		}
		if got := show(t, s.LastBindingOperation()); got != "404 NotFound" {
			t.Errorf("%s: polled: got %s", state, got)
		}
	}
	s := subject(t, "ready")
	for want, got := range map[string]Decision{
		"404 NotFound":       s.GetBinding(small, nil),
		"410 Gone":           s.Unbind(Unbind{ServiceID: "folder", PlanID: "small"}, nil),
		"400 InvalidRequest": s.Unbind(Unbind{ServiceID: "folder", PlanID: "x"}, existing),
		fetched:              s.GetBinding(nil, existing), // the plan has left the catalog
	} {
		if got := show(t, got); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestCredentialsAreConstantsAndParameters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ template, parameters, want Canonical }{
		{`{}`, `{"a":1}`, `{}`},
		{`{"host":"db","port":5432}`, `{}`, `{"host":"db","port":5432}`},
		{`{"a":"${parameters.a}","b":{"c":["${parameters.b-1}","x"]}}`, `{"a":{"n":null},"b-1":[1]}`, `{"a":{"n":null},"b":{"c":[[1],"x"]}}`},
		{`{"a":"${parameters.a}","b":["${parameters.a}",1]}`, `{}`, `{"b":[1]}`},
		{`{"a":"${parameters.a}"}`, `{"a":"${parameters.b}","b":1}`, `{"a":"${parameters.b}"}`},
		{``, `{"a":1}`, `{}`},
	} {
		if got := fillCredentials(c.template, c.parameters); got != c.want {
			t.Errorf("%s of %s: got %s, want %s", c.template, c.parameters, got, c.want)
		}
	}
}

// TestAnUpdateKeepsTheCredentialsOfBindings if the new plan has none: an application uses them.
func TestAnUpdateKeepsTheCredentialsOfBindings(t *testing.T) {
	t.Parallel()
	service := folder()
	service.PlanUpdateable = true
	service.Plans[1].Work.Credentials = ""
	s := subject(t, "ready")
	s.Row.Applied.Work.Credentials = `{"host":"db"}`
	d := s.Patch(Update{ServiceID: "folder", PlanID: "large"}, Change{Service: service, Plan: service.Plans[1]})
	if d.Start == nil {
		t.Fatalf("got %+v", d)
	}
	if got := d.Start.Asked.Work.Credentials; got != `{"host":"db"}` {
		t.Errorf("the credentials after the update: %s", got)
	}
}
