package flow

import (
	"net/http"
	"reflect"

	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// instancesPage is the data of a page of service instances.
type instancesPage struct {
	Instances []service.ServiceInstanceView
	More      string // address of the next page; "": none
}

// serviceInstances returns a page of service instances.
func (p *pages) serviceInstances(r *http.Request) (page.Content, error) {
	found, err := p.service.ServiceInstances(r.Context(), r.FormValue("after"), service.MostServiceInstances)
	data := instancesPage{Instances: found}
	if len(found) == service.MostServiceInstances {
		data.More = page.WithQuery(r, "after", found[len(found)-1].ID)
	}
	return page.Content{Title: "Service instances", Nav: "service-instances", Data: data}, err
}

// instancePage is the data of the page of a service instance.
type instancePage struct {
	service.ServiceInstanceView
	Secret bool // parameters are left out, since the reader has not logged in
}

// Attributes returns the attributes that are applied, and those that the platform wants if they differ.
func (i instancePage) Attributes() (named []namedAttributes) {
	if i.Applied != nil {
		named = append(named, namedAttributes{"Applied", i.Applied})
	}
	if i.Asked != nil && !reflect.DeepEqual(i.Asked, i.Applied) {
		named = append(named, namedAttributes{"Asked for", i.Asked})
	}
	return named
}

// namedAttributes are attributes with a heading.
type namedAttributes struct {
	Heading string
	*service.ServiceAttributes
}

// serviceInstance returns the page of one service instance.
func (p *pages) serviceInstance(r *http.Request) (page.Content, error) {
	view, err := p.service.ServiceInstance(r.Context(), r.PathValue("id"))
	data := instancePage{view, !service.IdentityOf(r.Context()).Has(service.ScopeRead)}
	return page.Content{Title: view.ID, Nav: "service-instances", Data: data, Every: every}, err
}
