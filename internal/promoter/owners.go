package promoter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/store"
)

// owners knows the applications that stages of waybill.yaml pipelines promote to. A Pipeline with the same target would
// replace the revision of the stage, which would replace that again. Safe for concurrent use.
type owners struct {
	*term
	names map[string][]string // the names that stages give to a cluster, by its server
	known chan struct{}       // closed once the owners were read

	mu sync.Mutex
	of map[pipeline.Resource]journal.Owner
}

func newOwners(t *term) *owners {
	o := &owners{term: t, names: map[string][]string{}, known: make(chan struct{})}
	for _, name := range slices.Sorted(maps.Keys(t.cfg.Clusters)) {
		if name != "" { // the management cluster has no name
			server := serverOf(t.cfg.Clusters[name])
			o.names[server] = append(o.names[server], name)
		}
	}
	if len(o.names) == 0 { // stages have no cluster
		close(o.known)
	}
	return o
}

// ownersPause is the least time between two reads of the owners.
const ownersPause = time.Second

// run reads the owners again when the log of deployments changes, and has all pipelines looked at if they differ, until ctx ends.
func (o *owners) run(ctx context.Context) {
	changes, isFirst := o.cfg.Changes(), true
	for len(o.names) > 0 && ctx.Err() == nil {
		began := time.Now()
		found, err := o.ledger.Owners(ctx, "")
		if err != nil {
			if ctx.Err() == nil {
				o.log.Warn("reading the applications of stages failed", obs.Error(err))
			}
			loop.Pause(ctx, time.Second)
			continue
		}
		switch isNews := o.keep(found); {
		case isFirst:
			close(o.known)
			isFirst = false
		case isNews:
			for _, one := range o.informer.List() {
				o.wake(nameOf(one))
			}
		}
		loop.Pause(ctx, max(ownersPause, followShare*time.Since(began)))
		_ = changes.Wait(ctx, store.TopicEntry, time.Now().Add(lookAgain)) // an early return is harmless
	}
}

// keep replaces the owners, and reports whether they differ.
func (o *owners) keep(found map[pipeline.Resource]journal.Owner) (isNews bool) {
	maps.DeleteFunc(found, func(r pipeline.Resource, _ journal.Owner) bool { return !r.IsApplication() })
	o.mu.Lock()
	defer o.mu.Unlock()
	isNews = !maps.Equal(o.of, found)
	o.of = found
	return isNews
}

// collisions returns the targets of a pipeline that a stage of a waybill.yaml promotes to. Nothing is promoted into the first environment,
// nor by a suspended pipeline.
func (o *owners) collisions(p resource.Pipeline) (faults resource.Faults) {
	for i, env := range p.Environments {
		if i == 0 || p.Spec.Suspend || p.Spec.Environments[i].Strategy == promotion.ByHand {
			continue
		}
		for _, target := range env.Targets {
			if owner, found := o.ownerOf(p.App, target.TargetID); found {
				faults = append(faults, resource.Fault{Reason: v1alpha1.ReasonTargetCollision, Field: target.Field,
					Text: fmt.Sprintf("pipeline %s of a waybill.yaml promotes to %s %s here too: take the target from one of the two",
						owner.Pipeline, p.App.Kind.Kind, p.App.Name)})
			}
		}
	}
	return faults
}

// ownerOf returns the waybill.yaml pipeline with a stage that promotes to a target.
func (o *owners) ownerOf(app resource.App, target promotion.TargetID) (journal.Owner, bool) {
	stage := pipeline.Environment{App: pipeline.App{APIVersion: app.Kind.GroupVersion().String(), Kind: app.Kind.Kind, Name: app.Name},
		Strategy: pipeline.Strategy{Notification: &pipeline.Notification{}}} // any: others own nothing
	for _, name := range o.names[serverOf(o.pool.Server(target.Cluster))] {
		stage.Targets = append(stage.Targets, pipeline.Target{Cluster: name, Namespace: target.Namespace})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range stage.Applications() {
		if owner, found := o.of[r]; found {
			return owner, true
		}
	}
	return journal.Owner{}, false
}

// serverOf returns the address of an API server as one text; "" for none. With a proxy, or another name in TLS, it may be another server.
func serverOf(c *rest.Config) string {
	if c == nil {
		return ""
	}
	at, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return c.Host
	}
	host := strings.ToLower(at.Hostname())
	server := host + ":" + cmp.Or(at.Port(), map[string]string{"http": "80"}[at.Scheme], "443") + strings.TrimRight(at.Path, "/")
	if c.Proxy != nil {
		via, _ := c.Proxy(&http.Request{URL: at}) // without one it fails to connect
		server += fmt.Sprint(" by ", via)
	}
	return server + " " + cmp.Or(c.ServerName, host)
}
