package install_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/internal/cli/pipeline/install"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
)

// objects returns the objects of some options, by kind and name.
func objects(t *testing.T, o install.Options) map[string]*unstructured.Unstructured {
	t.Helper()
	manifests, err := install.Manifests(o)
	if err != nil {
		t.Fatal(err)
	}
	list, err := install.Objects(manifests)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*unstructured.Unstructured{}
	for _, obj := range list {
		found[obj.GetKind()+" "+obj.GetName()] = obj
	}
	if len(found) != len(list) {
		t.Errorf("%d objects have %d names", len(list), len(found))
	}
	return found
}

func options() install.Options {
	return install.Options{Namespace: "waybill", Image: "registry.example.org/waybill:1"}
}

// TestTheRightsOfPromoting keeps the account to exactly these rights.
func TestTheRightsOfPromoting(t *testing.T) {
	t.Parallel()
	read := []string{"get", "list", "watch"}
	want := map[string]map[string][]string{
		"waybill-promoter": {
			"pipelines.weave.works/pipelines": read, "pipelines.weave.works/pipelines/status": {"patch"},
			"gitops.weave.works/gitopsclusters": read, "gitops.weave.works/gitopsclusters/status": {"update"},
			"/secrets": read, "/events": {"create"}, "authentication.k8s.io/tokenreviews": {"create"},
			"authorization.k8s.io/subjectaccessreviews": {"create"},
			"batch/jobs": {"get", "list", "watch", "create", "delete"},
		},
		"waybill-applications": {"kustomize.toolkit.fluxcd.io/kustomizations": read, "helm.toolkit.fluxcd.io/helmreleases": read},
	}
	got := map[string]map[string][]string{}
	for _, obj := range objects(t, options()) {
		if obj.GetKind() != "ClusterRole" {
			continue
		}
		got[obj.GetName()] = map[string][]string{}
		rules, _, _ := unstructured.NestedSlice(obj.Object, "rules")
		for _, one := range rules {
			rule, _ := one.(map[string]any)
			groups, _, _ := unstructured.NestedStringSlice(rule, "apiGroups")
			resources, _, _ := unstructured.NestedStringSlice(rule, "resources")
			verbs, _, _ := unstructured.NestedStringSlice(rule, "verbs")
			got[obj.GetName()][groups[0]+"/"+resources[0]] = verbs
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestManifestsHaveEverythingToRun(t *testing.T) {
	t.Parallel()
	var names []string
	for name := range objects(t, options()) {
		names = append(names, name)
	}
	want := []string{"CustomResourceDefinition pipelines.pipelines.weave.works",
		"CustomResourceDefinition gitopsclusters.gitops.weave.works",
		"Namespace waybill", "ServiceAccount waybill", "ClusterRole waybill-promoter", "ClusterRole waybill-applications",
		"ClusterRoleBinding waybill-promoter", "ClusterRoleBinding waybill-applications", "Secret waybill", "PersistentVolumeClaim waybill",
		"Deployment waybill", "Service waybill", "Service pipeline-promotion"}
	if diff := cmp.Diff(sorted(want), sorted(names)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func sorted(list []string) map[string]bool {
	set := map[string]bool{}
	for _, item := range list {
		set[item] = true
	}
	return set
}

// TestConfigurationIsValid reads the server.yaml of the manifests as the program in the cluster does.
func TestConfigurationIsValid(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]install.Options{
		"plain":  {},
		"all":    {Frozen: true, Ledger: `postgres://waybill:p"#a\ss@db/waybill?sslmode=require&x=1`, URL: "https://waybill.example.org"},
		"ledger": {Ledger: "postgres://waybill@db/waybill"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Namespace, o.Image = "apps", "waybill:1"
			encoded, _, _ := unstructured.NestedString(objects(t, o)["Secret waybill"].Object, "data", "server.yaml")
			text, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Read("server.yaml", text)
			if err != nil {
				if o.Ledger == "" || !strings.Contains(err.Error(), "ledger.url") {
					t.Fatal(err)
				}
			}
			if cfg.Promoter == nil || cfg.Promoter.Frozen != o.Frozen {
				t.Errorf("promoter: %+v", cfg.Promoter)
			}
			if got := cfg.Server.URL; (got == nil) != (o.URL == "") || got != nil && got.String() != o.URL {
				t.Errorf("url: got %v", got)
			}
		})
	}
}

func TestNamesStayText(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{"123", "null", "true", "1e3", "on"} {
		o := options()
		o.Namespace = namespace
		all := objects(t, o)
		if got := all["Namespace "+namespace]; got == nil {
			t.Errorf("%s: no namespace", namespace)
		}
		if got := all["Deployment waybill"].GetNamespace(); got != namespace {
			t.Errorf("%s: the Deployment is in %q", namespace, got)
		}
	}
}

func TestOldServiceLeadsToWaybill(t *testing.T) {
	t.Parallel()
	o := options()
	o.OldService = &types.NamespacedName{Namespace: "flux-system", Name: "pipeline-controller-promotion"}
	service := objects(t, o)["Service pipeline-controller-promotion"]
	if service == nil || service.GetNamespace() != "flux-system" {
		t.Fatalf("got %v", service)
	}
	if to, _, _ := unstructured.NestedString(service.Object, "spec", "externalName"); to != "pipeline-promotion.waybill.svc.cluster.local" {
		t.Errorf("leads to %q", to)
	}
}

func TestOptionsThatNoClusterAcceptsAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*install.Options){
		"namespace":   func(o *install.Options) { o.Namespace = "a\nb" },
		"image":       func(o *install.Options) { o.Image = "a b" },
		"old service": func(o *install.Options) { o.OldService = &types.NamespacedName{Namespace: "a", Name: "B/c"} },
	} {
		o := options()
		change(&o)
		if _, err := install.Manifests(o); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
