package osbclient_test

import (
	"net/http"
	"testing"

	osb "github.com/kubernetes-sigs/go-open-service-broker-client/v2"
)

// refused fails the test unless an error has a status and a description.
func refused(t *testing.T, name string, err error, status int) {
	t.Helper()
	answer, ok := osb.IsHTTPError(err)
	if !ok || answer.StatusCode != status || answer.ResponseError != nil || answer.Description == nil || *answer.Description == "" {
		t.Errorf("%s: %v, want status %d", name, err, status)
	}
}

// TestErrorsAreThoseOfTheStandard: the client recognizes them. The operation of a service instance is held until they were sent.
func TestErrorsAreThoseOfTheStandard(t *testing.T) {
	t.Parallel()
	p := start(t, "1h")
	as := platform{p.client(t, "shop", "secret"), t}
	sync := provision("demo")
	sync.AcceptsIncomplete = false
	if _, err := as.ProvisionInstance(sync); !osb.IsAsyncRequiredError(err) {
		t.Errorf("without accepts_incomplete: %v", err)
	}
	release := p.hold(t, "demo")
	made, err := as.ProvisionInstance(provision("demo"))
	check(t, err)
	again, err := as.ProvisionInstance(provision("demo"))
	if check(t, err); *again.OperationKey != *made.OperationKey {
		t.Errorf("the same provision has operations %s and %s", *made.OperationKey, *again.OperationKey)
	}
	if _, err := as.UpdateInstance(update("demo", 3)); !osb.IsConcurrencyError(err) {
		t.Errorf("an update beside a provision: %v", err)
	}
	if _, err := as.Bind(bind("demo", "b")); !osb.IsConcurrencyError(err) {
		t.Errorf("a bind beside a provision: %v", err)
	}
	other := provision("demo")
	other.SpaceGUID = "t"
	if _, err := as.ProvisionInstance(other); !osb.IsConflictError(err) {
		t.Errorf("a provision with other attributes: %v", err)
	}
	release()
	as.succeeds("demo", made.Async, made.OperationKey, "made demo")
	as.unknown("none")
	as.answers400And404()
}

// answers400And404 sends requests with unknown ids and wrong values.
func (p platform) answers400And404() {
	p.t.Helper()
	unknown := provision("two")
	unknown.PlanID = "none"
	_, err := p.ProvisionInstance(unknown)
	refused(p.t, "unknown plan", err, http.StatusBadRequest)
	wrong := provision("two")
	wrong.Parameters = map[string]any{"size": "two"}
	_, err = p.ProvisionInstance(wrong)
	refused(p.t, "wrong parameter", err, http.StatusBadRequest)
	elsewhere := provision("two")
	elsewhere.OriginatingIdentity = &osb.OriginatingIdentity{Platform: "cloudfoundry", Value: `{"user_id":"ann"}`}
	_, err = p.ProvisionInstance(elsewhere)
	refused(p.t, "another platform than the context's", err, http.StatusBadRequest)
	_, err = p.GetInstance(&osb.GetInstanceRequest{InstanceID: "two"})
	refused(p.t, "unknown service instance", err, http.StatusNotFound)
	_, err = p.GetBinding(&osb.GetBindingRequest{InstanceID: "demo", BindingID: "b"})
	refused(p.t, "unknown binding", err, http.StatusNotFound)
	_, err = p.PollLastOperation(&osb.LastOperationRequest{InstanceID: "two"})
	refused(p.t, "poll of an unknown service instance", err, http.StatusNotFound)
}

// TestAFailedProvisionIsReportedAndDeleted, as a platform does.
func TestAFailedProvisionIsReportedAndDeleted(t *testing.T) {
	t.Parallel()
	p := start(t, "1h")
	as := platform{p.client(t, "shop", "secret"), t}
	made, err := as.ProvisionInstance(provision("broken"))
	check(t, err)
	if state, text := as.settle("broken", made.OperationKey); state != osb.StateFailed || text == "" {
		t.Errorf("the provision is %q: %s", state, text)
	}
	deleted, err := as.DeprovisionInstance(deprovision("broken"))
	check(t, err)
	if state, _ := as.settle("broken", deleted.OperationKey); state != osb.StateFailed { // its handler is as broken
		t.Errorf("the deletion is %q", state)
	}
	_, err = as.UpdateInstance(update("broken", 3))
	refused(t, "an update after that", err, http.StatusUnprocessableEntity)
}

// TestADeletionCancelsAProvision that is held.
func TestADeletionCancelsAProvision(t *testing.T) {
	t.Parallel()
	p := start(t, "1h")
	as := platform{p.client(t, "shop", "secret"), t}
	release := p.hold(t, "demo")
	made, err := as.ProvisionInstance(provision("demo"))
	check(t, err)
	deleted, err := as.DeprovisionInstance(deprovision("demo"))
	check(t, err)
	if state, _ := as.settle("demo", made.OperationKey); state != osb.StateFailed {
		t.Errorf("the provision is %q", state)
	}
	release()
	as.succeeds("demo", deleted.Async, deleted.OperationKey, "removed demo")
}

// TestStrangersAreRefused: those without a right password, a version or a service instance of their own.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	p := start(t, "1h")
	as := platform{p.client(t, "shop", "secret"), t}
	as.provisioned("demo")
	_, err := p.client(t, "shop", "wrong").GetCatalog()
	refused(t, "wrong password", err, http.StatusUnauthorized)
	_, err = p.client(t, "shop", "", func(c *osb.ClientConfiguration) { c.AuthConfig = nil }).GetCatalog()
	refused(t, "no password", err, http.StatusUnauthorized)
	_, err = p.client(t, "", "", func(c *osb.ClientConfiguration) {
		c.AuthConfig = &osb.AuthConfig{BearerConfig: &osb.BearerConfig{Token: "secret"}}
	}).GetCatalog()
	refused(t, "a token", err, http.StatusUnauthorized)
	_, err = p.client(t, "shop", "secret", func(c *osb.ClientConfiguration) { c.APIVersion = osb.APIVersion{} }).GetCatalog()
	refused(t, "no version", err, http.StatusPreconditionFailed)
	other := platform{p.client(t, "other", "geheim"), t}
	if _, err := other.ProvisionInstance(provision("demo")); !osb.IsConflictError(err) {
		t.Errorf("a provision with the id of another user: %v", err)
	}
	_, err = other.GetInstance(&osb.GetInstanceRequest{InstanceID: "demo"})
	refused(t, "a service instance of another user", err, http.StatusNotFound)
	other.unknown("demo")
}
