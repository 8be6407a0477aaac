package local

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// maxKubeconfig bounds a kubeconfig, in bytes.
const maxKubeconfig = 1 << 20

// clusters reads --cluster NAME=KUBECONFIG[#CONTEXT]: which clusters steps can reach, by the name that they have in the build's file.
func (b *Builder) clusters(given []string) (map[string]command.Cluster, error) {
	found := map[string]command.Cluster{}
	for _, text := range given {
		name, place, ok := strings.Cut(text, "=")
		if !ok || name == "" || place == "" {
			return nil, fault.New(fault.Invalid, "--cluster %q: want NAME=KUBECONFIG#CONTEXT", text).
				WithHint("--cluster kubectl-config=$HOME/.kube/config#dev")
		}
		file, selected, _ := strings.Cut(place, "#")
		cluster := command.Cluster{Kubeconfig: b.Path(file), Context: selected}
		if strings.ContainsRune(cluster.Kubeconfig, filepath.ListSeparator) {
			return nil, fault.New(fault.Invalid, "--cluster %s: want one file, found %s", name, file)
		}
		if err := checkContext(name, cluster); err != nil {
			return nil, err
		}
		found[name] = cluster
	}
	return found, nil
}

// checkContext returns an error for a kubeconfig that does not have the context, or that has several and none was named: the
// current one may have changed since the command was written.
func checkContext(name string, c command.Cluster) error {
	data, err := file.ReadRegular(c.Kubeconfig, maxKubeconfig)
	switch {
	case err != nil:
		return fault.New(fault.Invalid, "--cluster %s: read %s: %w", name, c.Kubeconfig, file.Plain(err))
	case len(data) > maxKubeconfig:
		return fault.New(fault.Invalid, "--cluster %s: %s has more than %d bytes", name, c.Kubeconfig, maxKubeconfig)
	}
	node, problems := yamltree.Parse(c.Kubeconfig, data, maxKubeconfig)
	if err := problems.Err(); err != nil {
		return err
	}
	var contexts []string
	if list := node.Get("contexts"); list != nil {
		for _, item := range list.Items {
			contexts = append(contexts, item.Str("name"))
		}
	}
	switch {
	case len(contexts) == 0:
		return fault.New(fault.Invalid, "--cluster %s: %s has no context", name, c.Kubeconfig)
	case c.Context == "" && len(contexts) == 1 && node.Str("current-context") == contexts[0]:
		return nil
	case slices.Contains(contexts, c.Context):
		return nil
	}
	return fault.New(fault.Invalid, "--cluster %s: want one of the contexts of %s: %s", name, c.Kubeconfig, strings.Join(contexts, ", ")).
		WithHint("--cluster %s=%s#%s", name, c.Kubeconfig, contexts[0])
}
