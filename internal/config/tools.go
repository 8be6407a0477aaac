package config

import (
	"regexp"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/document"
)

// toolKeys returns the keys of builder.tools.
func toolKeys() []document.Key {
	return []document.Key{
		{Name: "buildkit", Shape: document.Text, Help: "image that builds images"},
		{Name: "helm", Shape: document.Text, Help: "image of Helm without a tag, which is the version"},
		{Name: "kubectl", Shape: document.Text, Help: "image of kubectl"},
		{Name: "dotnet", Shape: document.Text, Help: "image of the .NET SDK"},
		{Name: "buildkitAddress", Shape: document.Text,
			Help: "of a BuildKit that runs already, such as tcp://buildkit:1234; default: each step starts its own"},
		{Name: "serviceAccount", Shape: document.Text, Default: "wharf-cmd", Help: "of the steps that run these, in a cluster"},
	}
}

// Grammar of the settings of builder.tools. The Engine and the cluster know more about names of images.
var (
	imageName       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}$`)
	buildKitAddress = regexp.MustCompile(`^(tcp://[A-Za-z0-9.:\[\]-]+:[0-9]{1,5}|unix:///[^\s]+)$`)
	accountName     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
)

// tools reads the programs of the steps of certain types.
func (r *reader) tools(n *document.Node, t *build.Tools) {
	for _, field := range []struct {
		name, want string
		pattern    *regexp.Regexp
		into       *string
	}{
		{"buildkit", "the name of an image", imageName, &t.BuildKit},
		{"helm", "the name of an image", imageName, &t.Helm},
		{"kubectl", "the name of an image", imageName, &t.Kubectl},
		{"dotnet", "the name of an image", imageName, &t.DotNet},
		{"buildkitAddress", "an address such as tcp://buildkit:1234 or unix:///run/buildkit/buildkitd.sock", buildKitAddress, &t.BuildKitAt},
		{"serviceAccount", "the name of a service account", accountName, &t.Account},
	} {
		v := n.Get(field.name)
		if !fits(v, document.Text) {
			continue
		}
		switch last := v.Text[strings.LastIndexByte(v.Text, '/')+1:]; {
		case !field.pattern.MatchString(v.Text):
			r.Add(v, "value-invalid", "builder.tools."+field.name, "want %s, found %q", field.want, v.Text)
		case field.name == "helm" && strings.ContainsAny(last, ":@"):
			r.Add(v, "value-invalid", "builder.tools.helm", "want an image without a tag, which is the version, found %q", v.Text)
		}
		*field.into = v.Text
	}
}
