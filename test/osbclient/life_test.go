package osbclient_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	osb "github.com/kubernetes-sigs/go-open-service-broker-client/v2"
)

// provision returns a request that makes a service instance of the plan small.
func provision(id string) *osb.ProvisionRequest {
	return &osb.ProvisionRequest{InstanceID: id, AcceptsIncomplete: true, ServiceID: "folder", PlanID: "small", OrganizationGUID: "o", SpaceGUID: "s",
		Parameters: map[string]any{"size": 2}, Context: map[string]any{"platform": "kubernetes", "namespace": "shop"}}
}

func update(id string, size int) *osb.UpdateInstanceRequest {
	return &osb.UpdateInstanceRequest{InstanceID: id, AcceptsIncomplete: true, ServiceID: "folder", Parameters: map[string]any{"size": size}}
}

func deprovision(id string) *osb.DeprovisionRequest {
	return &osb.DeprovisionRequest{InstanceID: id, AcceptsIncomplete: true, ServiceID: "folder", PlanID: "small"}
}

func bind(id, binding string) *osb.BindRequest {
	return &osb.BindRequest{InstanceID: id, BindingID: binding, ServiceID: "folder", PlanID: "small", AppGUID: new("app")}
}

func unbind(id, binding string) *osb.UnbindRequest {
	return &osb.UnbindRequest{InstanceID: id, BindingID: binding, ServiceID: "folder", PlanID: "small"}
}

// platform is a client as a platform uses it: it sends a request, and polls until the operation has ended.
type platform struct {
	osb.Client
	t *testing.T
}

// settle polls an operation until it has ended, and returns how.
func (p platform) settle(id string, operation *osb.OperationKey) (state osb.LastOperationState, description string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), bound)
	defer cancel()
	often := time.NewTicker(20 * time.Millisecond)
	defer often.Stop()
	for {
		last, err := p.PollLastOperation(&osb.LastOperationRequest{InstanceID: id, ServiceID: new("folder"), PlanID: new("small"), OperationKey: operation})
		check(p.t, err)
		if last.State != osb.StateInProgress {
			return last.State, *last.Description
		}
		select {
		case <-often.C:
		case <-ctx.Done():
			p.t.Fatalf("the operation of %s does not end: %s", id, *last.Description)
		}
	}
}

// succeeds fails the test unless an asynchronous answer has an operation that succeeds with a text.
func (p platform) succeeds(id string, async bool, operation *osb.OperationKey, want string) {
	p.t.Helper()
	if !async || operation == nil || *operation == "" {
		p.t.Fatalf("%s: asynchronous %t, operation %v", id, async, operation)
	}
	if state, text := p.settle(id, operation); state != osb.StateSucceeded || text != want {
		p.t.Errorf("%s: the operation is %q: %s, want %q", id, state, text, want)
	}
}

func (p platform) provisioned(id string) {
	p.t.Helper()
	made, err := p.ProvisionInstance(provision(id))
	check(p.t, err)
	p.succeeds(id, made.Async, made.OperationKey, "made "+id)
}

// TestLives takes service instances through whole lives, by each version of the standard that the client speaks.
func TestLives(t *testing.T) {
	t.Parallel()
	p := start(t, "0")
	for _, version := range osb.APIVersions() {
		t.Run(version.HeaderValue(), func(t *testing.T) {
			t.Parallel()
			as := platform{p.client(t, "shop", "secret", func(c *osb.ClientConfiguration) { c.APIVersion = version }), t}
			id := "demo-" + strings.ReplaceAll(version.HeaderValue(), ".", "-")
			as.catalog(version)
			as.provisioned(id)
			again, err := as.ProvisionInstance(provision(id))
			if check(t, err); again.Async {
				t.Errorf("the same provision is done again: %+v", again)
			}
			changed, err := as.UpdateInstance(update(id, 3))
			check(t, err)
			as.succeeds(id, changed.Async, changed.OperationKey, "changed "+id)
			if version.AtLeast(osb.Version2_14()) {
				as.fetched(id)
			}
			as.bound(id)
			as.removed(id)
		})
	}
}

// catalog checks the catalog as the client reads it, which leaves out schemas before version 2.13 of the standard.
func (p platform) catalog(version osb.APIVersion) {
	p.t.Helper()
	catalog, err := p.GetCatalog()
	check(p.t, err)
	if len(catalog.Services) != 1 || len(catalog.Services[0].Plans) != 2 {
		p.t.Fatalf("the catalog is %+v", catalog)
	}
	service := catalog.Services[0]
	small, large := service.Plans[0], service.Plans[1]
	if service.ID != "folder" || !service.Bindable || !*service.PlanUpdatable || service.Tags[0] != "files" || service.Metadata["displayName"] != "Folder" {
		p.t.Errorf("the service is %+v", service)
	}
	if small.ID != "small" || !*small.Free || !*small.Bindable || *large.Bindable || large.Schemas != nil {
		p.t.Errorf("the plans are %+v", service.Plans)
	}
	if version.AtLeast(osb.Version2_13()) {
		if of := small.Schemas; of == nil || of.ServiceInstance == nil || of.ServiceInstance.Create == nil || of.ServiceInstance.Create.Parameters == nil {
			p.t.Errorf("the schemas are %+v", of)
		}
	}
}

// fetched checks a service instance after its update.
func (p platform) fetched(id string) {
	p.t.Helper()
	got, err := p.GetInstance(&osb.GetInstanceRequest{InstanceID: id})
	check(p.t, err)
	if got.ServiceID != "folder" || got.PlanID != "small" || got.Parameters["size"] != 3.0 {
		p.t.Errorf("%s is %+v", id, got)
	}
}

// bound makes, fetches and removes a binding.
func (p platform) bound(id string) {
	p.t.Helper()
	for range 2 { // the second answer is 200
		made, err := p.Bind(bind(id, "b"))
		if check(p.t, err); made.Async || made.Credentials["path"] != "/folders" || made.Credentials["size"] != 3.0 {
			p.t.Errorf("the binding of %s is %+v", id, made)
		}
	}
	found, err := p.GetBinding(&osb.GetBindingRequest{InstanceID: id, BindingID: "b"})
	if err == nil && found.Credentials["size"] != 3.0 {
		p.t.Errorf("the fetched binding of %s is %+v", id, found)
	}
	if unasked := (osb.GetBindingNotAllowedError{}); err != nil && !isA(err, unasked) {
		p.t.Error(err)
	}
	for range 2 { // the second answer is 410, which the client takes for the same
		_, err = p.Unbind(unbind(id, "b"))
		check(p.t, err)
	}
}

// isA reports whether an error has the type of another.
func isA[E error](err error, _ E) bool {
	_, ok := err.(E)
	return ok
}

// removed deletes a service instance and polls until it is gone.
func (p platform) removed(id string) {
	p.t.Helper()
	deleted, err := p.DeprovisionInstance(deprovision(id))
	check(p.t, err)
	p.gone(id, deleted)
	p.unknown(id)
	p.provisioned(id) // the id is free
}

// gone polls a deletion until the service instance is gone.
func (p platform) gone(id string, deleted *osb.DeprovisionResponse) {
	p.t.Helper()
	if !deleted.Async || deleted.OperationKey == nil {
		p.t.Fatalf("the deletion of %s is %+v", id, deleted)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), bound)
	defer cancel()
	often := time.NewTicker(20 * time.Millisecond)
	defer often.Stop()
	for {
		last, err := p.PollLastOperation(&osb.LastOperationRequest{InstanceID: id, OperationKey: deleted.OperationKey})
		if osb.IsGoneError(err) {
			break
		}
		if check(p.t, err); last.State == osb.StateFailed {
			p.t.Fatalf("the deletion of %s has failed: %s", id, *last.Description)
		}
		select {
		case <-often.C:
		case <-ctx.Done():
			p.t.Fatalf("%s is not gone: %s", id, *last.Description)
		}
	}
}

// unknown deletes a service instance that is not there for its user: the answer is 410, which the client takes for success.
func (p platform) unknown(id string) {
	p.t.Helper()
	deleted, err := p.DeprovisionInstance(deprovision(id))
	check(p.t, err)
	if deleted.Async || deleted.OperationKey != nil {
		p.t.Errorf("the deletion of %s, which is unknown, is an operation: %+v", id, deleted)
	}
}

// TestHandlersGetTheContextOfThePlatform, also the one that came alone.
func TestHandlersGetTheContextOfThePlatform(t *testing.T) {
	t.Parallel()
	p := start(t, "1h")
	as := platform{p.client(t, "shop", "secret"), t}
	asked := provision("demo")
	asked.OriginatingIdentity = &osb.OriginatingIdentity{Platform: "kubernetes", Value: `{"username":"ann"}`}
	made, err := as.ProvisionInstance(asked)
	check(t, err)
	as.succeeds("demo", made.Async, made.OperationKey, "made demo")
	shown := p.command(t, "action", "show", "--output", "json", string(*made.OperationKey))
	out, err := shown.Output()
	check(t, err)
	if !json.Valid(out) || !strings.Contains(string(out), "ann") || !strings.Contains(string(out), "broker user shop") {
		t.Errorf("the action does not name its users: %s", out)
	}
	renamed := update("demo", 0)
	renamed.AcceptsIncomplete, renamed.Parameters = false, nil
	renamed.Context = map[string]any{"platform": "kubernetes", "namespace": "shop", "instance_name": "renamed"}
	answer, err := as.UpdateInstance(renamed)
	if check(t, err); answer.Async {
		t.Errorf("an update of the context alone is an operation: %+v", answer)
	}
	deleted, err := as.DeprovisionInstance(deprovision("demo"))
	check(t, err)
	as.succeeds("demo", deleted.Async, deleted.OperationKey, "removed demo")
	for work, want := range map[string]bool{"made": false, "removed": true} {
		if got := p.given(t, "demo", work); strings.Contains(got, `"instance_name":"renamed"`) != want {
			t.Errorf("%s with %s, want the new name: %t", work, got, want)
		}
	}
}
