package assembly

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/secret"
)

// stageClusters returns the clusters that stages with an environment of a waybill.yaml may promote to: those of server.yaml and, on
// one machine, the contexts of kubectl's kubeconfig.
func (s *Session) stageClusters(cfg config.Promoter) (map[string]*rest.Config, error) {
	all := map[string]*rest.Config{}
	if s.Kind == Embedded {
		for _, context := range kube.Contexts() {
			if cluster, err := kube.Open(kube.Config{Context: context, Search: true}); err == nil { // a broken one is not offered
				all[context] = cluster.Config()
			}
		}
	}
	for name, c := range cfg.Clusters {
		cluster, err := kube.Open(kube.Config{Kubeconfig: c.Kubeconfig, Context: c.Context, Search: c.Kubeconfig == ""})
		if err != nil {
			return nil, fault.New(fault.Invalid, "promoter.clusters.%s: %w", name, err)
		}
		all[name] = cluster.Config()
	}
	return all, nil
}

// stageSecret reads the credentials of a Git host from the configuration: a token, or a JSON object with the keys of a Secret.
// Errors with the codes fault.NotFound and fault.Invalid are permanent.
func (s *Session) stageSecret(_ context.Context, name string) (map[string][]byte, error) {
	sources := s.promotion().Secrets
	i := slices.IndexFunc(sources, func(one secret.Source) bool { return one.Name == name })
	if i < 0 {
		return nil, fault.New(fault.NotFound, "secret %q not found: server.yaml names secrets in promoter.secrets", name)
	}
	values, err := secret.NewStore(sources[i]).Values(time.Now())
	if err != nil {
		return nil, err
	}
	keys := map[string]string{}
	if text := values[name]; json.Unmarshal([]byte(text), &keys) != nil {
		keys = map[string]string{githost.KeyToken: text}
	}
	data := make(map[string][]byte, len(keys))
	for key, value := range keys {
		data[key] = []byte(value)
	}
	return data, nil
}

// stageKey reads a key that signs notifications from the configuration: a text, or a JSON object that has it as secret.
func (s *Session) stageKey(ctx context.Context, name string) (string, error) {
	data, err := s.stageSecret(ctx, name)
	if err != nil {
		return "", err
	}
	return cmp.Or(string(data["secret"]), string(data[githost.KeyToken])), nil
}

// stageOffers lists the names that environments of stages may use; ok is false where server.yaml does not have the section
// promoter, without which nothing promotes.
func (s *Session) stageOffers(cfg *config.Promoter) (clusters, secrets []string, ok bool) {
	if cfg == nil {
		return nil, nil, false
	}
	if s.Kind == Embedded {
		clusters = kube.Contexts()
	}
	for name := range cfg.Clusters {
		clusters = append(clusters, name)
	}
	for _, one := range cfg.Secrets {
		secrets = append(secrets, one.Name)
	}
	return clusters, secrets, true
}
