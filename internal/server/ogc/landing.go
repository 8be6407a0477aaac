package ogc

import "net/http"

func (a *API) landingPage(r *http.Request) (reply, error) {
	links := selfLinks(r)
	links = addLink(links, r, "/api", "service-desc", typeOpenAPI, "the API's definition")
	links = append(links, Link{Href: absoluteURL(r, "/api", map[string][]string{"f": {"html"}}), Rel: "service-doc",
		Type: typeHTML, Title: "the API's documentation"})
	links = addLink(links, r, "/conformance", relConformance, typeJSON, "what this API conforms to")
	links = addLink(links, r, "/processes", relProcesses, typeJSON, "the processes")
	links = addLink(links, r, "/jobs", relJobs, typeJSON, "the jobs")
	links = addLink(links, r, "/api/v1/openapi.json", "related", "application/vnd.oai.openapi+json;version=3.1", "Waybill's own API")
	return reply{doc: LandingPage{Title: "Waybill", Description: "Processes, and the jobs that they are executed by.", Links: links}}, nil
}

// classes returns the requirements classes that the API conforms to.
func classes() []string {
	all := []string{"core", "ogc-process-description", "json", "html", "oas30", "job-list", "callback", "dismiss"}
	for i, name := range all {
		all[i] = "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/" + name
	}
	return all
}

func (a *API) conformance(r *http.Request) (reply, error) {
	return reply{name: "conformance", doc: Conformance{ConformsTo: classes(), Links: selfLinks(r)}}, nil
}

func (a *API) definition(*http.Request) (reply, error) {
	return reply{name: "definition", doc: a.openAPI, raw: a.openAPI, kind: typeOpenAPI}, nil
}
