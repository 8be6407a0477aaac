package ogc

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// The documents below have the shapes of the standard's schemas.

// Link is link.yaml.
type Link struct {
	Href  string `json:"href"`
	Rel   string `json:"rel,omitempty"`
	Type  string `json:"type,omitempty"`
	Title string `json:"title,omitempty"`
}

// LandingPage is landingPage.yaml.
type LandingPage struct {
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Links       []Link `json:"links"`
}

// Conformance is confClasses.yaml, with links for the page that shows it.
type Conformance struct {
	ConformsTo []string `json:"conformsTo"`
	Links      []Link   `json:"links"`
}

// ProcessList is processList.yaml.
type ProcessList struct {
	Processes []Process `json:"processes"`
	Links     []Link    `json:"links"`
}

// Process is process.yaml; in a list it is processSummary.yaml, without inputs and outputs.
type Process struct {
	ID                 string            `json:"id"`
	Title              string            `json:"title,omitempty"`
	Description        string            `json:"description,omitempty"`
	Version            string            `json:"version"`
	JobControlOptions  []string          `json:"jobControlOptions"`
	OutputTransmission []string          `json:"outputTransmission"`
	Inputs             map[string]Input  `json:"inputs,omitempty"`
	Outputs            map[string]Output `json:"outputs,omitempty"`
	Links              []Link            `json:"links"`
}

// Input is inputDescription.yaml.
type Input struct {
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description,omitempty"`
	MinOccurs   int            `json:"minOccurs"`
	Schema      map[string]any `json:"schema"`
}

// Output is outputDescription.yaml.
type Output struct {
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description,omitempty"`
	Schema      map[string]any `json:"schema"`
}

// StatusInfo is statusInfo.yaml with the status of the action behind the job.
type StatusInfo struct {
	ProcessID     string    `json:"processID"`
	Type          string    `json:"type"`
	JobID         string    `json:"jobID"`
	Status        string    `json:"status"`
	WaybillStatus string    `json:"waybillStatus"`
	Message       string    `json:"message,omitempty"`
	Created       time.Time `json:"created"`
	Started       time.Time `json:"started,omitzero"`
	Finished      time.Time `json:"finished,omitzero"`
	Updated       time.Time `json:"updated"`
	Progress      int       `json:"progress"`
	Links         []Link    `json:"links"`
}

// JobList is jobList.yaml.
type JobList struct {
	Jobs  []StatusInfo `json:"jobs"`
	Links []Link       `json:"links"`
}

// Results is results.yaml: each output's value.
type Results map[string]json.RawMessage

// CacheList is a list of entries of the payload cache.
type CacheList struct {
	Entries []CacheEntry `json:"entries"`
	Links   []Link       `json:"links"`
}

// CacheEntry names the job that answers for a payload.
type CacheEntry struct {
	Key          string     `json:"key"`
	ProcessID    string     `json:"processID"`
	Version      string     `json:"version"`
	JobID        string     `json:"jobID"`
	Created      time.Time  `json:"created"`
	InvalidAfter *time.Time `json:"invalidAfter"` // null: never
	Links        []Link     `json:"links"`
}

// Link relations.
const (
	relConformance = "http://www.opengis.net/def/rel/ogc/1.0/conformance"
	relProcesses   = "http://www.opengis.net/def/rel/ogc/1.0/processes"
	relExecute     = "http://www.opengis.net/def/rel/ogc/1.0/execute"
	relJobs        = "http://www.opengis.net/def/rel/ogc/1.0/job-list"
	relResults     = "http://www.opengis.net/def/rel/ogc/1.0/results"
)

// selfLinks returns links from a document to itself and to its page.
func selfLinks(r *http.Request) []Link {
	query := r.URL.Query()
	self := absoluteURL(r, r.URL.EscapedPath(), query)
	query.Set("f", "html")
	page := absoluteURL(r, r.URL.EscapedPath(), query)
	return []Link{
		{Href: self, Rel: "self", Type: typeJSON, Title: "this document"},
		{Href: page, Rel: "alternate", Type: typeHTML, Title: "this document as a page"},
	}
}

// addLink returns links with one more, to another resource of the API. The path is escaped.
func addLink(links []Link, r *http.Request, path, rel, kind, title string) []Link {
	return append(slices.Clip(links), Link{Href: absoluteURL(r, path, nil), Rel: rel, Type: kind, Title: title})
}

// pathOf returns the path with the parts, each escaped.
func pathOf(parts ...string) string {
	path := ""
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return path
}
