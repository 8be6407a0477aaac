package osb

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// op returns the id of an operation; its last byte makes it readable.
func op(n byte) action.ID { return action.ID{0: 0x01, 6: 0x70, 8: 0x80, 15: n} }

const (
	opText = "01000000-0000-7000-8000-000000000001" // op(1), the last operation of all rows
	opJSON = `{"operation":"` + opText + `"}`
)

// handled returns the work of plans in these tests.
func handled() Work {
	return Work{Handlers: &Handlers{Provision: "make", Update: "change", Deprovision: "remove"}, Polling: time.Hour,
		Credentials: `{"size":"${parameters.size}"}`}
}

// folder returns a service with the plans small and large, which may be exchanged, and fixed, which offers no updates.
func folder() *Service {
	fixed := handled()
	fixed.Handlers.Update = ""
	return &Service{ID: "folder", Name: "folder", Description: "folders", Bindable: true, PlanUpdateable: true, Plans: []*Plan{
		{ID: "small", Name: "small", Bindable: true, Work: handled(), Maintenance: &Maintenance{Version: "1.0.0"}},
		{ID: "large", Name: "large", Bindable: true, Work: handled(), Maintenance: &Maintenance{Version: "2.0.0"}},
		{ID: "fixed", Name: "fixed", Bindable: true, Work: fixed},
	}}
}

// attributes returns those of the service instance in these tests.
func attributes() Attributes {
	return Attributes{ServiceID: "folder", PlanID: "small", Organization: "o", Space: "s", Platform: "kubernetes", Namespace: "shop",
		Parameters: `{"size":2}`, Maintenance: "1.0.0", Work: handled()}
}

// subject returns a service instance in a state of the table, as the user platform finds it.
func subject(t *testing.T, state string) Subject {
	t.Helper()
	applied, bigger := attributes(), attributes()
	bigger.Parameters = `{"size":4}`
	row := Instance{ID: "demo-1", User: "platform", Operation: op(1), Asked: applied, Applied: &applied}
	thread := &Thread{Status: action.Running, Attempt: 1}
	switch state {
	case "none":
		return Subject{User: "platform", Now: now}
	case "gone":
		row.Verb, row.End, row.GoneAt = VerbDeprovision, action.Successful, now.Add(-time.Minute)
	case "provisioning":
		row.Verb, row.Applied = VerbProvision, nil
	case "provision failed":
		row.Verb, row.End, row.Applied = VerbProvision, action.RetriesExhausted, nil
	case "ready":
		row.Verb, row.End = VerbProvision, action.Successful
	case "updating":
		row.Verb, row.Asked = VerbUpdate, bigger
	case "update failed":
		row.Verb, row.Asked, row.End = VerbUpdate, bigger, action.TimedOut
	case "deprovisioning":
		row.Verb = VerbDeprovision
	case "deprovision failed":
		row.Verb, row.End = VerbDeprovision, action.Failed
	default:
		t.Fatalf("state %q", state)
	}
	if row.End != 0 {
		thread = nil
	}
	return Subject{User: "platform", Row: &row, Thread: thread, Now: now}
}

// show writes a decision as the tables of these tests have it.
func show(t *testing.T, d Decision) string {
	t.Helper()
	switch {
	case d.Err != nil:
		if d.Err.Description == "" || d.Status != 0 || d.Start != nil {
			t.Errorf("an error with more, or without a description: %+v", d)
		}
		text := fmt.Sprintf("%d %s", d.Err.Status, d.Err.Code)
		if d.Err.UpdateRepeatable != nil {
			text += fmt.Sprintf(" repeatable=%t", *d.Err.UpdateRepeatable)
		}
		if d.Err.InstanceUsable != nil {
			text += fmt.Sprintf(" usable=%t", *d.Err.InstanceUsable)
		}
		return text
	case d.Start != nil:
		if d.Status != 0 || d.Body != nil {
			t.Errorf("an operation with an answer: %+v", d)
		}
		return "new " + string(d.Start.Verb)
	}
	body, err := Encode(d.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%d %s", d.Status, body)
	if d.Row != nil {
		text += " row"
	}
	if d.Insert != nil {
		text += " insert"
	}
	if d.Remove {
		text += " remove"
	}
	return text
}

const concurrency = "422 ConcurrencyError"

// TestEveryRequestInEveryState has a row for each state and a column for each request.
func TestEveryRequestInEveryState(t *testing.T) {
	t.Parallel()
	const same = "202 " + opJSON
	const bound = `201 {"credentials":{"size":2}} insert`
	const fetched = `200 {"service_id":"folder","plan_id":"small","parameters":{"size":2},"maintenance_info":{"version":"1.0.0"}}`
	for _, c := range []struct {
		state, putSame, putOther, patchBigger, patchHuge, patchContext, remove, get, bind string
	}{
		{"none", "new provision", "new provision", "404 NotFound", "404 NotFound", "404 NotFound", "410 Gone", "404 NotFound", "404 NotFound"},
		{"gone", "new provision", "new provision", "404 NotFound", "404 NotFound", "404 NotFound", "410 Gone", "404 NotFound", "404 NotFound"},
		{"provisioning", same, "409 Conflict", concurrency, concurrency, concurrency, "new deprovision", "404 NotFound", concurrency},
		{"provision failed", "new provision", "409 Conflict", "422 NotProvisioned repeatable=false", "422 NotProvisioned repeatable=false",
			"422 NotProvisioned repeatable=false", "new deprovision", "404 NotFound", "404 NotFound"},
		{"ready", "200 {}", "409 Conflict", "new update", "new update", "200 {} row", "new deprovision", fetched, bound},
		{"update failed", "200 {}", "409 Conflict", "new update", "new update", "200 {} row", "new deprovision", fetched, bound},
		{"updating", concurrency, "409 Conflict", same, concurrency, concurrency, "new deprovision", concurrency, concurrency},
		{"deprovisioning", concurrency, concurrency, concurrency, concurrency, concurrency, same, concurrency, concurrency},
		{"deprovision failed", "409 Conflict", "409 Conflict", "422 BeingDeleted repeatable=false", "422 BeingDeleted repeatable=false",
			"422 BeingDeleted repeatable=false", "new deprovision", fetched, "422 BeingDeleted"},
	} {
		s, service := subject(t, c.state), folder()
		small := service.Plans[0]
		sameAsked, other := attributes(), attributes()
		sameAsked.Maintenance, sameAsked.Context, sameAsked.Work = "", `{"x":1}`, Work{}
		other.Space = "t"
		patch := func(u Update) string {
			u.ServiceID = "folder"
			return show(t, s.Patch(u, Change{Service: service, Plan: small}))
		}
		got := []string{
			show(t, s.Put(Provision{Attributes: sameAsked}, small)), show(t, s.Put(Provision{Attributes: other}, small)),
			patch(Update{Parameters: new(Canonical(`{"size":4}`))}), patch(Update{Parameters: new(Canonical(`{"size":9}`))}),
			patch(Update{Context: &Context{Text: `{}`}}),
			show(t, s.Delete(Deprovision{AcceptsIncomplete: true, ServiceID: "folder", PlanID: "small"}, nil, nil)),
			show(t, s.Get()), show(t, s.Bind(Bind{ServiceID: "folder", PlanID: "small", Parameters: Empty}, small, nil)),
		}
		want := []string{c.putSame, c.putOther, c.patchBigger, c.patchHuge, c.patchContext, c.remove, c.get, c.bind}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.state, diff)
		}
	}
}

func TestProvisionsStartWithThePlanOfToday(t *testing.T) {
	t.Parallel()
	asked := attributes()
	asked.Maintenance, asked.Work = "", Work{}
	d := subject(t, "none").Put(Provision{Attributes: asked}, folder().Plans[0])
	if d.Start == nil {
		t.Fatalf("got %s", show(t, d))
	}
	for name, got := range map[string]Attributes{"row": d.Start.Asked, "handler": d.Start.Given} {
		if diff := cmp.Diff(attributes(), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(handled(), d.Start.Work); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
}

func TestAttributesThatMakeAProvisionAnother(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Attributes){
		"plan":         func(a *Attributes) { a.PlanID = "large" },
		"service":      func(a *Attributes) { a.ServiceID = "other" },
		"organization": func(a *Attributes) { a.Organization = "p" },
		"space":        func(a *Attributes) { a.Space = "t" },
		"platform":     func(a *Attributes) { a.Platform = "cloudfoundry" },
		"namespace":    func(a *Attributes) { a.Namespace = "" },
		"parameters":   func(a *Attributes) { a.Parameters = Empty },
	} {
		asked := attributes()
		change(&asked)
		if got := show(t, subject(t, "ready").Put(Provision{Attributes: asked}, folder().Plans[0])); got != "409 Conflict" {
			t.Errorf("another %s: got %s", name, got)
		}
	}
	// After a failed update the applied attributes count.
	asked := attributes()
	asked.Parameters = `{"size":4}`
	if got := show(t, subject(t, "update failed").Put(Provision{Attributes: asked}, folder().Plans[0])); got != "409 Conflict" {
		t.Errorf("the attributes of a failed update: got %s", got)
	}
}

func TestUpdates(t *testing.T) {
	t.Parallel()
	size := func(n int) *Canonical { return new(Canonical(fmt.Sprintf(`{"size":%d}`, n))) }
	for _, c := range []struct {
		name, state string
		update      Update
		plan        int // index in folder
		want        string
	}{
		{"nothing", "ready", Update{ServiceID: "folder"}, 0, "200 {}"},
		{"the same plan", "ready", Update{ServiceID: "folder", PlanID: "small"}, 0, "200 {}"},
		{"the same parameters", "ready", Update{ServiceID: "folder", Parameters: size(2)}, 0, "200 {}"},
		{"the same version", "ready", Update{ServiceID: "folder", Maintenance: "1.0.0"}, 0, "200 {}"},
		{"all the same", "ready", Update{ServiceID: "folder", PlanID: "small", Parameters: size(2), Maintenance: "1.0.0"}, 0, "200 {}"},
		{"another version", "ready", Update{ServiceID: "folder", Maintenance: "1.1.0"}, 0, "new update"},
		{"no parameters at all", "ready", Update{ServiceID: "folder", Parameters: new(Empty)}, 0, "new update"},
		{"another plan", "ready", Update{ServiceID: "folder", PlanID: "large"}, 1, "new update"},
		{"a plan without updates", "ready", Update{ServiceID: "folder", PlanID: "fixed"}, 2, "422 NotSupported repeatable=false"},
		{"another service", "ready", Update{ServiceID: "other"}, 0, "400 InvalidRequest"},
		{"another service, while provisioning", "provisioning", Update{ServiceID: "other"}, 0, "400 InvalidRequest"},
		{"another service, unknown", "none", Update{ServiceID: "other"}, 0, "404 NotFound"},
		{"a failed update repeated", "update failed", Update{ServiceID: "folder", Parameters: size(4)}, 0, "new update"},
		// The failed update may have done half of its work, so that going back has an effect.
		{"a failed update taken back", "update failed", Update{ServiceID: "folder", Parameters: size(2)}, 0, "new update"},
		{"nothing after a failed update", "update failed", Update{ServiceID: "folder"}, 0, "200 {}"},
		{"the same change and more", "updating", Update{ServiceID: "folder", Parameters: size(4), PlanID: "large"}, 1, concurrency},
		{"the same change in full", "updating", Update{ServiceID: "folder", Parameters: size(4), PlanID: "small"}, 0, "202 " + opJSON},
		{"taken back too early", "updating", Update{ServiceID: "folder", Parameters: size(2)}, 0, concurrency},
	} {
		service := folder()
		got := show(t, subject(t, c.state).Patch(c.update, Change{Service: service, Plan: service.Plans[c.plan]}))
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPlansAreChangedWhereTheOldOneAllows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		service   bool
		old, want string
	}{
		{true, "", "new update"}, {false, "", "422 NotSupported repeatable=false"},
		{false, "true", "new update"}, {true, "false", "422 NotSupported repeatable=false"},
	} {
		service := folder()
		service.PlanUpdateable = c.service
		if c.old != "" {
			service.Plans[0].PlanUpdateable = new(c.old == "true")
		}
		service.Plans[1].PlanUpdateable = new(c.old != "true") // the word of the new plan does not count
		change := Change{Service: service, Plan: service.Plans[1]}
		got := show(t, subject(t, "ready").Patch(Update{ServiceID: "folder", PlanID: "large"}, change))
		if got != c.want {
			t.Errorf("service %t, plan %q: got %s, want %s", c.service, c.old, got, c.want)
		}
	}
}

func TestUpdatesKeepWhatTheyDoNotSend(t *testing.T) {
	t.Parallel()
	service := folder()
	d := subject(t, "ready").Patch(Update{ServiceID: "folder", PlanID: "large",
		Context: &Context{Text: `{"platform":"kubernetes","x":1}`, Platform: "kubernetes"}}, Change{Service: service, Plan: service.Plans[1]})
	want := Attributes{ServiceID: "folder", PlanID: "large", Organization: "o", Space: "s", Platform: "kubernetes", Namespace: "shop",
		Context: `{"platform":"kubernetes","x":1}`, Parameters: `{"size":2}`, Maintenance: "2.0.0", Work: handled()}
	if d.Start == nil {
		t.Fatalf("got %s", show(t, d))
	}
	if diff := cmp.Diff(want, d.Start.Asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A plan that has left the catalog cannot be updated, and hinders nothing else.
	for _, c := range []struct {
		update Update
		want   string
	}{
		{Update{ServiceID: "folder", Parameters: new(Empty)}, "400 InvalidRequest"},
		{Update{ServiceID: "folder", Context: &Context{Text: `{}`}}, "200 {} row"},
	} {
		if got := show(t, subject(t, "ready").Patch(c.update, Change{Service: service})); got != c.want {
			t.Errorf("without the plan: got %s, want %s", got, c.want)
		}
	}
}

// TestAContextWithoutAChangeIsKept in both attributes of the row.
func TestAContextWithoutAChangeIsKept(t *testing.T) {
	t.Parallel()
	renamed := &Context{Text: `{"instance_name":"n","namespace":"shop"}`, Namespace: "shop"}
	for name, c := range map[string]struct {
		state  string
		update Update
		want   bool
	}{
		"context alone":               {"ready", Update{Context: renamed}, true},
		"after a failed update":       {"update failed", Update{Context: renamed}, true},
		"with parameters that are as": {"ready", Update{Context: renamed, Parameters: new(Canonical(`{"size":2}`))}, true},
		"no context":                  {"ready", Update{PlanID: "small"}, false},
		"the same context":            {"ready", Update{Context: &Context{Platform: "kubernetes", Namespace: "shop"}}, false},
	} {
		s, service := subject(t, c.state), folder()
		before, applied := *s.Row, *s.Row.Applied
		c.update.ServiceID = "folder"
		d := s.Patch(c.update, Change{Service: service, Plan: service.Plans[0]})
		if diff := cmp.Diff(before, *s.Row) + cmp.Diff(applied, *s.Row.Applied); diff != "" {
			t.Errorf("%s: the row that was given has changed: %s", name, diff)
		}
		if d.Err != nil || d.Start != nil || (d.Row != nil) != c.want {
			t.Errorf("%s: %s, want a row: %t", name, show(t, d), c.want)
			continue
		}
		if !c.want {
			continue
		}
		for _, a := range []*Attributes{&before.Asked, &applied} {
			a.Context = renamed.Text
		}
		before.Applied = &applied
		if diff := cmp.Diff(before, *d.Row); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestAServiceInstanceStaysInItsNamespace, and on its platform: a context that moves it is refused, and a provision is repeated as before.
func TestAServiceInstanceStaysInItsNamespace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		context Context
		want    string
	}{
		{Context{Text: `{"instance_name":"n"}`}, "200 {} row"},
		{Context{Text: `{"namespace":"shop"}`, Namespace: "shop"}, "200 {} row"},
		{Context{Text: `{"namespace":"market"}`, Namespace: "market"}, "422 NotSupported repeatable=false"},
		{Context{Text: `{"platform":"cloudfoundry"}`, Platform: "cloudfoundry"}, "422 NotSupported repeatable=false"},
	} {
		for _, parameters := range []*Canonical{nil, new(Canonical(`{"size":4}`))} {
			s, service := subject(t, "ready"), folder()
			d := s.Patch(Update{ServiceID: "folder", Context: &c.context, Parameters: parameters}, Change{Service: service, Plan: service.Plans[0]})
			if got := show(t, d); got != c.want && (parameters == nil || d.Err != nil) {
				t.Errorf("%s: got %s, want %s", c.context.Text, got, c.want)
			}
			if d.Row != nil {
				s.Row = d.Row
			}
			if got := show(t, s.Put(Provision{Attributes: attributes()}, service.Plans[0])); got != "200 {}" {
				t.Errorf("after %s a PUT: got %s", c.context.Text, got)
			}
		}
	}
}

// TestARepeatedProvisionOutlivesTheCatalog: only what the service instance has not is refused.
func TestARepeatedProvisionOutlivesTheCatalog(t *testing.T) {
	t.Parallel()
	refused := invalid("plan_id: the service has no such plan")
	const no = "400 InvalidRequest"
	for state, want := range map[string]string{"none": no, "gone": no, "provisioning": "202 " + opJSON, "provision failed": no, "ready": "200 {}",
		"updating": concurrency, "update failed": "200 {}", "deprovisioning": no, "deprovision failed": no} {
		again := func(user string, change func(*Provision)) string {
			s := subject(t, state)
			s.User = user
			p := Provision{AcceptsIncomplete: true, Attributes: attributes()}
			change(&p)
			return show(t, s.Repeated(p, refused))
		}
		for name, c := range map[string]struct {
			got, want string
		}{
			"the same":        {again("platform", func(*Provision) {}), want},
			"no version":      {again("platform", func(p *Provision) { p.Attributes.Maintenance = "" }), want},
			"another version": {again("platform", func(p *Provision) { p.Attributes.Maintenance = "9" }), no},
			"other":           {again("platform", func(p *Provision) { p.Attributes.Space = "t" }), no},
			"not async":       {again("platform", func(p *Provision) { p.AcceptsIncomplete = false }), no},
			"another user":    {again("other", func(*Provision) {}), no},
		} {
			if c.got != c.want {
				t.Errorf("%s, %s: got %s, want %s", state, name, c.got, c.want)
			}
		}
	}
}

func TestServiceInstancesBelongToTheirUser(t *testing.T) {
	t.Parallel()
	service := folder()
	small := service.Plans[0]
	binding := &Binding{Instance: "demo-1", ID: "b", Parameters: Empty}
	for state, want := range map[string][]string{
		"ready":          {"409 Conflict", "404 NotFound", "410 Gone", "404 NotFound", "404 NotFound", "404 NotFound", "410 Gone", "404 NotFound"},
		"deprovisioning": {"409 Conflict", "404 NotFound", "410 Gone", "404 NotFound", "404 NotFound", "404 NotFound", "410 Gone", "404 NotFound"},
		"gone":           {"new provision", "404 NotFound", "new deprovision", "404 NotFound", "404 NotFound", "404 NotFound", "410 Gone", "404 NotFound"},
	} {
		s := subject(t, state)
		s.User = "other"
		got := []string{
			show(t, s.Put(Provision{Attributes: attributes()}, small)),
			show(t, s.Patch(Update{ServiceID: "folder"}, Change{Service: service, Plan: small})),
			show(t, s.Delete(Deprovision{AcceptsIncomplete: true, ServiceID: "folder", PlanID: "small"}, nil, &Flow{Namespace: "shop"})),
			show(t, s.Get()), show(t, s.LastOperation(nil, time.Hour)),
			show(t, s.Bind(Bind{ServiceID: "folder", PlanID: "small"}, nil, nil)),
			show(t, s.Unbind(Unbind{ServiceID: "folder", PlanID: "small"}, binding)),
			show(t, s.GetBinding(small, binding)),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", state, diff)
		}
		if plan := s.PlanID(); plan != "" {
			t.Errorf("%s: the plan is %s", state, plan)
		}
	}
	if plan := subject(t, "updating").PlanID(); plan != "small" {
		t.Errorf("the plan of the own service instance is %q", plan)
	}
}

func TestDashboardsAreInEveryAnswerAboutAServiceInstance(t *testing.T) {
	t.Parallel()
	const url = `"dashboard_url":"https://ci.example/service-instances/demo-1"`
	service := folder()
	small := service.Plans[0]
	at := func(state string) Subject {
		s := subject(t, state)
		s.Dashboard = "https://ci.example/service-instances/demo-1"
		return s
	}
	put := Provision{Attributes: attributes()}
	bigger := Update{ServiceID: "folder", Parameters: new(Canonical(`{"size":4}`))}
	change := Change{Service: service, Plan: small}
	remove := Deprovision{AcceptsIncomplete: true, ServiceID: "folder", PlanID: "small"}
	for name, c := range map[string]struct {
		got  Decision
		want string
	}{
		"provision started": {at("none").Put(put, small).Start.Answer(op(1)), `202 {"operation":"` + opText + `",` + url + `}`},
		"provision again":   {at("provisioning").Put(put, small), `202 {"operation":"` + opText + `",` + url + `}`},
		"provisioned":       {at("ready").Put(put, small), `200 {` + url + `}`},
		"update started":    {at("ready").Patch(bigger, change).Start.Answer(op(1)), `202 {"operation":"` + opText + `",` + url + `}`},
		"update again":      {at("updating").Patch(bigger, change), `202 {"operation":"` + opText + `",` + url + `}`},
		"updated":           {at("ready").Patch(Update{ServiceID: "folder"}, change), `200 {` + url + `}`},
		"fetched": {at("ready").Get(), `200 {"service_id":"folder","plan_id":"small",` + url +
			`,"parameters":{"size":2},"maintenance_info":{"version":"1.0.0"}}`},
		"delete started": {at("ready").Delete(remove, nil, nil).Start.Answer(op(1)), "202 " + opJSON},
	} {
		if got := show(t, c.got); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
