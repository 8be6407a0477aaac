//go:build linux && services

package chaos_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/test/chaos"
)

const flowPassword = "secret"

// flowSections configures the roles flow and broker.
const flowSections = `
flow: {kubeconfig: %[1]s/k.yaml, elect: false}
broker:
  catalog: %[1]s/catalog.yaml
  listen: %[2]s
  users: {chaos: {passwords: ["%[3]x"]}}
`

const flowCatalog = `
services:
  - id: events
    name: events
    description: Events of the shop
    bindable: true
    plans:
      - id: ready
        name: ready
        description: Events that reach the Broker
        flow:
          source: {application: commerce}
          sink: {broker: {name: default, provisioning: Managed, deletionPolicy: WhenUnused}}
          waitForReady: true
      - id: early
        name: early
        description: Events of an application that is not there
        flow:
          source: {application: absent}
          sink: {broker: {name: default, provisioning: Managed, deletionPolicy: WhenUnused}}
          waitForReady: true
`

// platform is a client of the broker, which repeats each request until it is answered.
type platform struct {
	t       *testing.T
	ctx     context.Context
	address string
	client  http.Client
	id      string // the service instance

	operations map[services.Verb]string
	repeated   int
}

// answer is the answer to a request.
type answer struct {
	status      int
	Operation   string
	State       string
	Description string
	Credentials map[string]string
}

// send sends a request once.
func (p *platform) send(method, path, body string) (a answer, err error) {
	url := "http://" + p.address + "/v2/service_instances/" + p.id + path
	r, err := http.NewRequestWithContext(p.ctx, method, url, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	r.SetBasicAuth("chaos", flowPassword)
	r.Header.Set("X-Broker-API-Version", "2.17")
	response, err := p.client.Do(r)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	if a.status = response.StatusCode; a.status >= http.StatusInternalServerError {
		return a, fmt.Errorf("%s: %s", response.Status, said)
	}
	return a, json.Unmarshal(said, &a)
}

// settle sends a request until its answer has one of the statuses. It is sent again after a 503, and when the process was killed.
func (p *platform) settle(method, path, body string, want ...int) answer {
	for {
		a, err := p.send(method, path, body)
		if err == nil {
			for _, status := range want {
				if a.status == status {
					return a
				}
			}
			p.t.Errorf("%s %s%s is answered with %d %s", method, p.id, path, a.status, a.Description)
			return a
		}
		if p.ctx.Err() != nil {
			p.t.Errorf("%s %s%s: %v: %v", method, p.id, path, err, context.Cause(p.ctx))
			return a
		}
		p.repeated++
		pause(p.ctx, 20*time.Millisecond)
	}
}

// operate does an operation: each request for it that is answered names the same operation, until it has succeeded.
func (p *platform) operate(verb services.Verb, method, query, body string) {
	const path = "?accepts_incomplete=true"
	done := http.StatusOK
	if verb == services.Deprovision {
		done = http.StatusGone
	}
	for p.ctx.Err() == nil {
		a := p.settle(method, path+query, body, done, http.StatusAccepted)
		if a.status != http.StatusAccepted {
			break
		}
		if before := p.operations[verb]; before != "" && before != a.Operation {
			p.t.Errorf("%s of %s is operation %s, and then %s", verb, p.id, before, a.Operation)
		}
		p.operations[verb] = a.Operation
		pause(p.ctx, 100*time.Millisecond)
	}
}

// ended wants the operation with a verb to have ended in a state.
func (p *platform) ended(verb services.Verb, state string) {
	if a := p.settle(http.MethodGet, "/last_operation?operation="+p.operations[verb], "", http.StatusOK); a.State != state {
		p.t.Errorf("%s of %s is %q, want %q: %s", verb, p.id, a.State, state, a.Description)
	}
}

// live takes a service instance through its life. During it the flow is there once.
func (p *platform) live(c *cluster) {
	const ids = `"service_id":"events","plan_id":"ready"`
	place := "shop-" + p.id
	p.operate(services.Provision, http.MethodPut, "", `{`+ids+`,"organization_guid":"o","space_guid":"s",
		"context":{"platform":"kubernetes","namespace":"`+place+`"},"parameters":{"delivery":{"retry":1}}}`)
	p.operate(services.Update, http.MethodPatch, "", `{`+ids+`,"parameters":{"delivery":{"retry":2}}}`)
	bound := p.settle(http.MethodPut, "/service_bindings/b", `{`+ids+`}`, http.StatusOK, http.StatusCreated)
	if got, want := bound.Credentials["sinkUri"], "http://broker.example/"+place+"/default"; got != want {
		p.t.Errorf("%s is bound to %q, want %q", p.id, got, want)
	}
	c.mu.Lock()
	if n := c.made[place+"/event-flow-"+p.id]; n != 1 {
		p.t.Errorf("the flow of %s was made %d times", p.id, n)
	}
	c.mu.Unlock()
	p.operate(services.Deprovision, http.MethodDelete, "&service_id=events&plan_id=ready", "")
	for _, verb := range []services.Verb{services.Provision, services.Update, services.Deprovision} {
		p.ended(verb, "succeeded")
	}
}

// die takes a service instance through a provision that cannot succeed and is canceled by a deprovision.
func (p *platform) die(c *cluster) {
	const ids = `"service_id":"events","plan_id":"early"`
	body := `{` + ids + `,"organization_guid":"o","space_guid":"s","context":{"platform":"kubernetes","namespace":"shop-` + p.id + `"}}`
	p.operations[services.Provision] = p.settle(http.MethodPut, "?accepts_incomplete=true", body, http.StatusAccepted).Operation
	pause(p.ctx, c.moment(0, 3*time.Second))
	p.ended(services.Provision, "in progress")
	p.operate(services.Deprovision, http.MethodDelete, "&service_id=events&plan_id=early", "")
	p.ended(services.Provision, "failed")
	p.ended(services.Deprovision, "succeeded")
}

// TestServiceInstancesThatAreFlowsWhateverIsKilled kills `waybill up` again and again while service instances that are flows live, in a cluster
// that refuses requests and loses answers.
func TestServiceInstancesThatAreFlowsWhateverIsKilled(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	c := openCluster(t, folder)
	var addresses [2]string
	for i := range addresses {
		var err error
		if addresses[i], err = chaos.FreeAddress(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "catalog.yaml"), []byte(flowCatalog), 0o600); err != nil {
		t.Fatal(err)
	}
	w := world(t, chaos.Settings{Folder: folder, Heartbeat: soon,
		Sections: fmt.Sprintf(flowSections, folder, addresses[1], sha256.Sum256([]byte(flowPassword)))})
	up := func() *chaos.Process {
		p, err := w.Up(t.Context(), addresses[0])
		return watched(t, p, err)
	}
	p := up()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the service instances do not end"))
	defer cancel()
	platforms := make([]*platform, 8)
	var living sync.WaitGroup
	for i := range platforms {
		one := &platform{t: t, ctx: ctx, address: addresses[1], id: fmt.Sprintf("demo-%d", i), operations: map[services.Verb]string{}}
		platforms[i] = one
		living.Go(func() {
			pause(ctx, c.moment(0, 3*time.Second))
			if i%4 == 3 {
				one.die(c)
				return
			}
			one.live(c)
		})
	}
	for range 8 {
		pause(ctx, c.moment(500*time.Millisecond, 2*time.Second))
		p.Kill()
		p = up()
	}
	c.recover()
	living.Wait()
	judgeFlows(t, w, c, platforms)
}

// judgeFlows wants each service instance to have had the operations that its platform knows, one of each verb, and the cluster to be empty.
func judgeFlows(t *testing.T, w *chaos.World, c *cluster, platforms []*platform) {
	t.Helper()
	ended(t, w)
	states, err := w.Ledger.Actions(t.Context(), queue.ActionQuery{Kind: services.Kind, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]string{}
	for _, a := range states {
		if before := done[a.Name]; before != "" {
			t.Errorf("%s is both %s and %s", a.Name, before, a.ID)
		}
		done[a.Name] = a.ID.String()
	}
	known, repeated := 0, 0
	for _, p := range platforms {
		repeated += p.repeated
		known += len(p.operations)
		for verb, id := range p.operations {
			if got := done[string(verb)+" "+p.id]; got != id {
				t.Errorf("%s of %s is %s, want %s", verb, p.id, got, id)
			}
		}
	}
	if len(done) != known {
		t.Errorf("the log has %d operations, want %d: %v", len(done), known, done)
	}
	until(t, "the last Broker is deleted", 30*time.Second, func(context.Context) (bool, error) {
		return len(c.left(t, brokers)) == 0 && len(c.left(t, subscriptions)) == 0, nil
	})
	if left := c.left(t, flows); len(left) > 0 {
		t.Errorf("the flows %s are left", left)
	}
	t.Logf("%d requests were repeated; the cluster refused %d requests, and lost %d answers", repeated, c.refused, c.lost)
	if repeated == 0 || c.refused == 0 || c.lost == 0 {
		t.Error("kills or faults hit nothing")
	}
}
