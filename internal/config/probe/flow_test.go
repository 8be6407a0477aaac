package probe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/osb"
)

// kindsIn returns a configuration whose cluster has EventFlows and further kinds.
func kindsIn(t *testing.T, more ...kubetest.Kind) (config.Config, *kubetest.Server) {
	t.Helper()
	api := kubetest.Open(append(more, kubetest.Kind{GroupVersionResource: v1alpha1.Resource(), Kind: v1alpha1.Kind})...)
	t.Cleanup(api.Close)
	server := kubetest.ListenServer(api)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, server.Kubeconfig(server.Address(), "token"), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Config{Flow: &config.Flow{Kubeconfig: file}}, server
}

func knativeKind(group, resource, kind string) kubetest.Kind {
	return kubetest.Kind{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: resource}, Kind: kind}
}

// TestALiveCheckLooksForTheKindsOfFlows in any version, and for Applications if the broker offers them.
func TestALiveCheckLooksForTheKindsOfFlows(t *testing.T) {
	t.Parallel()
	problems := func(cfg config.Config) (found []string) {
		for _, p := range All(t.Context(), "server.yaml", []byte("flow: {}\nbroker: {layout: per-service}\n"), cfg) {
			found = append(found, p.Code+" "+p.Scope+": "+p.Text)
		}
		return found
	}
	cfg, server := kindsIn(t, knativeKind("eventing.knative.dev", "brokers", "Broker"), knativeKind("messaging.knative.dev", "channels", "Channel"))
	const subscriptions = "missing flow: the cluster does not have the kind Subscription of messaging.knative.dev"
	if diff := cmp.Diff([]string{subscriptions}, problems(cfg)); diff != "" {
		t.Error(diff)
	}
	cfg.Broker = &config.Broker{Layout: osb.PerService}
	if got := problems(cfg); len(got) != 2 {
		t.Errorf("got %q, want Applications to be missing, too", got)
	}
	server.Close()
	for _, got := range problems(cfg) {
		if got[:len(Unreachable)] != Unreachable {
			t.Errorf("the cluster is away: %s", got)
		}
	}
	cfg.Flow.Kubeconfig = "/no/such/kubeconfig"
	if got := problems(cfg); len(got) != 1 {
		t.Errorf("got %q, want the kubeconfig", got)
	}

	cfg, _ = kindsIn(t, knativeKind("eventing.knative.dev", "brokers", "Broker"), knativeKind("messaging.knative.dev", "subscriptions", "Subscription"))
	if diff := cmp.Diff([]string{strings.ReplaceAll(subscriptions, "Subscription", "Channel")}, problems(cfg)); diff != "" {
		t.Error(diff)
	}
	cfg, _ = kindsIn(t, knativeKind("eventing.knative.dev", "brokers", "Broker"), knativeKind("messaging.knative.dev", "subscriptions", "Subscription"),
		knativeKind("messaging.knative.dev", "channels", "Channel"))
	if got := problems(cfg); len(got) > 0 {
		t.Errorf("all is there: %q", got)
	}
}
