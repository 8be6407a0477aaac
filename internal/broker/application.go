package broker

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/watch"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/osb"
)

// ApplicationConfig configures ApplicationCatalogs.
type ApplicationConfig struct {
	Cluster dynamic.Interface   // nil: there is none, and no layout
	Layout  func() osb.Layout   // "": the catalogs are empty
	File    func() *osb.Catalog // catalog of the file, whose ids differ from theirs; nil: there is none
	Log     *slog.Logger
	Metrics *obs.Broker
}

// ApplicationCatalogs has a catalog for each namespace of a cluster: of the Applications that are mapped into it.
type ApplicationCatalogs struct {
	ApplicationConfig
	applications *watch.Informer[*application]
	mappings     *watch.Informer[*mapping]
	changed      chan struct{}
	catalogs     atomic.Pointer[map[string]namespaceCatalog] // nil: not known yet
	empty        *osb.Catalog
}

// namespaceCatalog is the catalog of a namespace.
type namespaceCatalog struct {
	catalog *osb.Catalog // nil: there was never one without faults
	fault   string       // fault of the present Applications; "": none
}

// application and mapping are the kept parts of the objects.
type application struct {
	metav1.ObjectMeta
	osb.Application
}

type mapping struct {
	metav1.ObjectMeta
	services []string // nil: all
}

// groupApplications is the group of Applications and ApplicationMappings.
var groupApplications = schema.GroupVersion{Group: flow.GroupConnector, Version: "v1alpha1"}

// NewApplicationCatalogs returns the catalogs of a cluster's namespaces, which Run keeps up to date.
func NewApplicationCatalogs(c ApplicationConfig) (*ApplicationCatalogs, error) {
	a := &ApplicationCatalogs{ApplicationConfig: c, changed: make(chan struct{}, 1)}
	var err error
	if a.empty, err = osb.ApplicationCatalog(osb.PerService, nil, nil); err != nil || c.Cluster == nil {
		return a, err
	}
	if a.applications, err = follow(a, "applications", decodeApplication); err != nil {
		return nil, err
	}
	a.mappings, err = follow(a, "applicationmappings", decodeMapping)
	return a, err
}

// follow returns an informer of a kind, whose changes wake Run.
func follow[T metav1.Object](a *ApplicationCatalogs, resource string, decode func(*unstructured.Unstructured) T) (*watch.Informer[T], error) {
	var last atomic.Pointer[string]
	interrupted := func(err error) { // an error that repeats is logged once
		text := err.Error()
		if before := last.Swap(&text); before == nil || *before != text {
			a.Log.Warn("Applications cannot be followed", obs.Error(err))
		}
	}
	wake := func(T) {
		select {
		case a.changed <- struct{}{}:
		default: // it is awake
		}
	}
	return watch.New(watch.Config[T]{Objects: a.Cluster.Resource(groupApplications.WithResource(resource)), Decode: decode,
		Changed: wake, Gone: wake, Interrupted: interrupted})
}

// Run follows the cluster until ctx ends. It begins once there is a layout.
func (a *ApplicationCatalogs) Run(ctx context.Context) {
	for a.Layout() == "" {
		if !loop.Pause(ctx, catalogEvery) {
			return
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { a.applications.Run(ctx) })
	running.Go(func() { a.mappings.Run(ctx) })
	if !a.applications.AwaitSync(ctx) || !a.mappings.AwaitSync(ctx) {
		return
	}
	layout, file := a.Layout(), a.File()
	a.build(layout, file)
	ticker := time.NewTicker(catalogEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.changed:
			if !loop.Pause(ctx, catalogEvery) { // authors of objects may change them without end
				return
			}
		case <-ticker.C:
			if layout == a.Layout() && file == a.File() {
				continue
			}
		}
		layout, file = a.Layout(), a.File()
		a.build(layout, file)
	}
}

// build makes the catalogs of all namespaces. One with faults is reported once, and the former catalog stays.
func (a *ApplicationCatalogs) build(layout osb.Layout, file *osb.Catalog) {
	former := map[string]namespaceCatalog{}
	if before := a.catalogs.Load(); before != nil {
		former = *before
	}
	applications := map[string]osb.Application{}
	for _, one := range a.applications.List() {
		applications[one.GetName()] = one.Application
	}
	mapped := map[string][]osb.Mapping{}
	for _, m := range a.mappings.List() {
		if found, ok := applications[m.Name]; ok && layout != "" {
			mapped[m.Namespace] = append(mapped[m.Namespace], osb.Mapping{Application: found, Services: m.services})
		}
	}
	now := map[string]namespaceCatalog{}
	for namespace, mappings := range mapped {
		catalog, err := osb.ApplicationCatalog(layout, mappings, file)
		if err == nil {
			now[namespace] = namespaceCatalog{catalog: catalog}
			continue
		}
		now[namespace] = namespaceCatalog{catalog: former[namespace].catalog, fault: err.Error()}
		if former[namespace].fault != err.Error() {
			a.Metrics.CatalogFailed()
			a.Log.Warn("the Applications of a namespace make no catalog; the former one stays", obs.KeyName, namespace, obs.Error(err))
		}
	}
	a.catalogs.Store(&now)
}

// Catalog returns the catalog of a namespace.
func (a *ApplicationCatalogs) Catalog(namespace string) (*osb.Catalog, error) {
	all := a.catalogs.Load()
	if a.Layout() == "" {
		return a.empty, nil
	}
	if all == nil {
		return nil, osb.NewError(http.StatusServiceUnavailable, codeUnavailable, "the Applications of the cluster are not known yet")
	}
	found, ok := (*all)[namespace]
	switch {
	case !ok:
		return a.empty, nil
	case found.catalog == nil:
		return nil, osb.NewError(http.StatusServiceUnavailable, codeUnavailable, "the catalog has faults: %s", found.fault)
	}
	return found.catalog, nil
}

func decodeApplication(object *unstructured.Unstructured) *application {
	return &application{metaOf(object), osb.ReadApplication(object)}
}

func decodeMapping(object *unstructured.Unstructured) *mapping {
	return &mapping{metaOf(object), osb.ReadMappedServices(object)}
}

func metaOf(object *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()}
}
