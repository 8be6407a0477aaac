package migrate

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/services"
)

// Found is the state of a cluster, as far as a migration reads it, and of the log.
type Found struct {
	Instances, Classes, Plans, ServiceBrokers Objects // objects of the Service Catalog
	Applications, Activations                 Objects
	Channels, Subscriptions, Brokers          Objects // the Channels of applications, and the Brokers named default
	Policies, FormerPolicies                  Objects // PeerAuthentications, and Istio's earlier Policies
	Namespaces, Flows                         Objects
	Deployments                               Objects // those with the name of the old broker

	ClusterID string                        // how the Service Catalog names the cluster; "": not known
	Log       action.ID                     // id of the log
	Rows      map[string]*services.Instance // by the id of the service instance; those that a plan reads
}

// Objects are all objects of a kind.
type Objects struct {
	Kind  schema.GroupVersionResource // Version is "" if the kind is not installed
	Items []unstructured.Unstructured
}

// Installed reports whether the cluster has the kind.
func (o Objects) Installed() bool { return o.Kind.Version != "" }

// find returns an object; nil if there is none.
func (o Objects) find(namespace, name string) *unstructured.Unstructured {
	at := slices.IndexFunc(o.Items, func(one unstructured.Unstructured) bool {
		return one.GetNamespace() == namespace && one.GetName() == name
	})
	if at < 0 {
		return nil
	}
	return &o.Items[at]
}

// OldBroker is the name of the application broker's Deployment, and of its ServiceBroker in every namespace.
const OldBroker = "application-broker"

// Running returns the Deployments of the old broker that run or may run again, as namespace/name.
func (f *Found) Running() (names []string) {
	for _, one := range f.Deployments.Items {
		wanted, set := number(one.Object, "spec", "replicas")
		present, _ := number(one.Object, "status", "replicas")
		if !set || wanted > 0 || present > 0 {
			names = append(names, one.GetNamespace()+"/"+one.GetName())
		}
	}
	slices.Sort(names)
	return names
}

// service is a service of an Application that a service instance was provisioned for.
type service struct {
	osb.ApplicationService

	of osb.Application
}

// serviceOf returns the service that a class and a plan of the old broker offer, by their ids in its catalog. nil: no Application has it.
func serviceOf(applications []osb.Application, class, plan string) *service {
	for _, app := range applications {
		if found, ok := app.Find(class, plan); ok {
			return &service{found, app}
		}
	}
	return nil
}

// candidate is a ServiceInstance of the old broker.
type candidate struct {
	*unstructured.Unstructured
	id          string // chosen by the Service Catalog for the broker
	class, plan string // ids in the catalog of the broker
	service     *service
}

// status returns that of the ServiceInstance alone.
func (c candidate) status() flow.Combined {
	return flow.Combine(c.Unstructured, nil, false, time.Time{})
}

// candidates returns the service instances of the old broker for events, in the order of namespaces and names, except those in ignored
// namespaces. One whose service no Application has is a candidate too.
func (f *Found) candidates(ignore []string) (all []candidate) {
	var applications []osb.Application
	for i := range f.Applications.Items {
		applications = append(applications, osb.ReadApplication(&f.Applications.Items[i]))
	}
	for i := range f.Instances.Items {
		c := candidate{Unstructured: &f.Instances.Items[i]}
		namespace := c.GetNamespace()
		class := f.Classes.find(namespace, text(c.Object, "spec", "serviceClassRef", "name"))
		if slices.Contains(ignore, namespace) || class == nil || text(class.Object, "spec", "serviceBrokerName") != OldBroker {
			continue
		}
		if plan := f.Plans.find(namespace, text(c.Object, "spec", "servicePlanRef", "name")); plan != nil {
			c.plan = text(plan.Object, "spec", "externalID")
		}
		c.id, c.class = text(c.Object, "spec", "externalID"), text(class.Object, "spec", "externalID")
		c.service = serviceOf(applications, c.class, c.plan)
		if c.service == nil || c.service.Events {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return compareNames(a.Unstructured, b.Unstructured) })
	return all
}

// compareNames orders objects by namespace and name.
func compareNames(a, b *unstructured.Unstructured) int {
	if a.GetNamespace() != b.GetNamespace() {
		return strings.Compare(a.GetNamespace(), b.GetNamespace())
	}
	return strings.Compare(a.GetName(), b.GetName())
}

// text returns a text in an object; "" if there is none.
func text(object map[string]any, path ...string) string {
	found, _, _ := unstructured.NestedString(object, path...)
	return found
}

// number returns a whole number in an object, and whether there is one.
func number(object map[string]any, path ...string) (int64, bool) {
	found, ok, err := unstructured.NestedNumberAsFloat64(object, path...)
	return int64(found), ok && err == nil
}
