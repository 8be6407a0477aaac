package config

import (
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/secret"
)

// Hook is a webhook of a Git host, which has open pull requests read at once.
type Hook struct {
	Name   string        // part of its address: /api/v1/hooks/githost/NAME
	Type   string        // kind of the host, as in a pipeline's strategy
	Secret secret.Source // shared with the host; of azure-devops USER:PASSWORD
}

// maxHooks bounds the hooks of a configuration.
const maxHooks = 100

// hostKinds lists the kinds of Git hosts, as in the strategies of pipelines.
func hostKinds() []string {
	return []string{"github", "gitlab", "gitea", "forgejo", "bitbucket-server", "bitbucket-cloud", "azure-devops"}
}

// hookKeys returns the keys of a hook.
func hookKeys() []document.Key {
	return []document.Key{
		{Name: "name", Shape: document.Text, Required: true, Help: "the host calls /api/v1/hooks/githost/NAME"},
		{Name: "type", Shape: document.Text, Required: true, Values: hostKinds()},
		{Name: "secretFile", Shape: document.Text, Help: "file with the secret of the webhook; of azure-devops USER:PASSWORD"},
		{Name: "secretEnv", Shape: document.Text, Help: "variable with it, instead of a file"},
	}
}

// hooks reads the webhooks of Git hosts.
func (r *reader) hooks(n *document.Node) map[string]Hook {
	hooks := map[string]Hook{}
	if len(n.Items) > maxHooks {
		r.Add(n, "value-invalid", "promoter.hooks", "%d hooks, at most %d", len(n.Items), maxHooks)
		return nil
	}
	for i, item := range n.Items {
		path := document.Index("promoter.hooks", i)
		h := Hook{Name: item.Str("name"), Type: item.Str("type")}
		h.Secret = secret.Source{Name: h.Name, Env: item.Str("secretEnv"),
			Path: strings.TrimPrefix(r.location(item.Get("secretFile"), "file:"), "file:")}
		_, repeated := hooks[h.Name]
		switch {
		case !handlerName.MatchString(h.Name):
			r.Add(item, "value-invalid", path+".name", "hook %q: want a name of letters, digits, -, _ and . with at most 63 characters", h.Name)
		case repeated:
			r.Add(item.Get("name"), "name-repeated", path+".name", "%q is named twice", h.Name)
		case (h.Secret.Path == "") == (h.Secret.Env == ""):
			r.Add(item, "field-missing", path, "a hook has either secretFile or secretEnv")
		}
		hooks[h.Name] = h
	}
	return hooks
}
