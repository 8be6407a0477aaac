package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
)

// Flow configures the control of EventFlows.
type Flow struct {
	Kubeconfig   string   // a file that leads to the cluster; "" (default): the cluster that this process runs in
	Context      string   // in the file; "" (default): its current one
	Applications []string // integration namespaces: their Channels are sources of any flow by their application; default kyma-integration
	Elect        bool     // one of several instances works, which makes fewer requests; default true
}

// DefaultFlow returns the section without keys.
func DefaultFlow() Flow { return Flow{Applications: []string{"kyma-integration"}, Elect: true} }

// mostNamespaces bounds lists of namespaces.
const mostNamespaces = 100

// namespaceName matches the name of a namespace of Kubernetes.
var namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// flowKeys returns the keys of flow.
func flowKeys() []document.Key {
	return []document.Key{
		{Name: "kubeconfig", Shape: document.Text, Help: "file that leads to the cluster; default: the cluster that the process runs in"},
		{Name: "context", Shape: document.Text, Help: "context of that file; default: its current one"},
		{Name: "applications", Shape: document.Texts, Default: "[kyma-integration]",
			Help: "integration namespaces: flows of every namespace may name the Channels there, by their application"},
		{Name: "elect", Shape: document.Flag, Default: "true",
			Help: "of several instances one works, elected by a Lease; false: each does, which is correct and makes more requests"},
	}
}

// flow reads the section of EventFlows.
func (r *reader) flow(n *document.Node) *Flow {
	f := DefaultFlow()
	f.Kubeconfig = r.location(n.Get("kubeconfig"), "file:")
	if v := n.Get("context"); fits(v, document.Text) {
		f.Context = v.Text
	}
	if v := n.Get("elect"); fits(v, document.Flag) {
		f.Elect = strings.EqualFold(v.Text, "true")
	}
	if v := n.Get("applications"); fits(v, document.Texts) {
		f.Applications = r.namespaces(v, "flow.applications")
	}
	return &f
}

// namespaces reads names of namespaces; nil without a list.
func (r *reader) namespaces(n *document.Node, path string) []string {
	if !fits(n, document.Texts) {
		return nil
	}
	if len(n.Items) > mostNamespaces {
		r.Add(n, "value-invalid", path, "%d namespaces, at most %d", len(n.Items), mostNamespaces)
		return nil
	}
	names := make([]string, 0, len(n.Items))
	for i, item := range n.Items {
		at := document.Index(path, i)
		switch {
		case !namespaceName.MatchString(item.Text):
			r.Add(item, "value-invalid", at, "%q: want the name of a namespace: lower case letters, digits and -", item.Text)
		case slices.Contains(names, item.Text):
			r.Add(item, "value-invalid", at, "%q is named twice", item.Text)
		default:
			names = append(names, item.Text)
		}
	}
	return names
}
