package kube_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	flows "github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// documents reads the YAML documents of a file.
func documents[T any](t *testing.T, file string) (list []T) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := kubeyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var one T
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, one)
	}
}

// right is an object of rbac.yaml.
type right struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Rules           []struct{ APIGroups, Resources, ResourceNames, Verbs []string }
	AggregationRule struct {
		ClusterRoleSelectors []struct{ MatchLabels map[string]string }
	}
	RoleRef  struct{ Kind, Name string }
	Subjects []struct{ Kind, Name, Namespace string }
}

// TestTheRightsOfFlows keeps config/flow/rbac.yaml to exactly these rights.
func TestTheRightsOfFlows(t *testing.T) {
	t.Parallel()
	got, bound := map[string]map[string]string{}, map[string]string{}
	for _, object := range documents[right](t, "../../config/flow/rbac.yaml") {
		name := object.Kind + " " + object.Metadata.Name
		switch object.Kind {
		case "Role", "ClusterRole":
			got[name] = map[string]string{}
			for _, rule := range object.Rules {
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						names := strings.Join(rule.ResourceNames, " ")
						got[name][strings.TrimSpace(group+"/"+resource+" "+names)] = strings.Join(rule.Verbs, " ")
					}
				}
			}
		case "RoleBinding", "ClusterRoleBinding":
			bound[object.RoleRef.Kind+" "+object.RoleRef.Name] = object.Subjects[0].Namespace + "/" + object.Subjects[0].Name
		case "ServiceAccount", "Namespace":
		default:
			t.Errorf("unexpected: %s", name)
		}
	}
	const reads, writes = "get list watch", "get list watch create patch delete"
	want := map[string]map[string]string{
		"ClusterRole waybill-flow": {
			"flow.waybill.dev/eventflows": "get list watch patch", "flow.waybill.dev/eventflows/status": "patch",
			"eventing.knative.dev/brokers": writes, "messaging.knative.dev/subscriptions": writes, "security.istio.io/peerauthentications": writes,
			"messaging.knative.dev/channels": reads, "eventing.knative.dev/eventpolicies": reads, "sources.kyma-project.io/httpsources": reads,
			"applicationconnector.kyma-project.io/applicationmappings": reads, "gateway.networking.k8s.io/referencegrants": reads,
			"apiextensions.k8s.io/customresourcedefinitions": reads, "/events": "create"},
		"Role waybill-flow":             {"coordination.k8s.io/leases": "create", "coordination.k8s.io/leases waybill-flow": "get update"},
		"ClusterRole waybill-flow-refs": {},
		"ClusterRole waybill-flow-refs-knative": {"/services": reads, "serving.knative.dev/services": reads,
			"messaging.knative.dev/inmemorychannels": reads, "messaging.knative.dev/kafkachannels": reads,
			"sources.knative.dev/apiserversources": reads, "sources.knative.dev/containersources": reads,
			"sources.knative.dev/kafkasources": reads, "sources.knative.dev/pingsources": reads,
			"flows.knative.dev/parallels": reads, "flows.knative.dev/sequences": reads},
		"ClusterRole waybill-flow-conductor": {"flow.waybill.dev/eventflows": "get list create patch delete",
			"applicationconnector.kyma-project.io/eventactivations": "get list create patch delete"},
		"ClusterRole waybill-flow-broker": {"flow.waybill.dev/eventflows": reads,
			"applicationconnector.kyma-project.io/applications": reads, "applicationconnector.kyma-project.io/applicationmappings": reads},
		"ClusterRole waybill-flow-api": {"flow.waybill.dev/eventflows": "get list", "eventing.knative.dev/brokers": "get list",
			"messaging.knative.dev/subscriptions": "get list", "servicecatalog.k8s.io/serviceinstances": "get list",
			"services.cloud.sap.com/serviceinstances": "get list"},
		"ClusterRole waybill-flow-migrate": {"flow.waybill.dev/eventflows": "get list create patch delete",
			"messaging.knative.dev/subscriptions": "get list patch delete", "messaging.knative.dev/channels": "list",
			"eventing.knative.dev/brokers": "get list patch", "security.istio.io/peerauthentications": "get list patch delete",
			"authentication.istio.io/policies": "list delete", "applicationconnector.kyma-project.io/applications": "list",
			"applicationconnector.kyma-project.io/eventactivations": "get list patch", "servicecatalog.k8s.io/serviceinstances": "list",
			"servicecatalog.k8s.io/serviceclasses": "list", "servicecatalog.k8s.io/serviceplans": "list",
			"servicecatalog.k8s.io/servicebrokers": "get list patch", "/namespaces": "get list patch", "/configmaps cluster-info": "get",
			"apps/deployments": "list"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	accounts := map[string]string{"ClusterRole waybill-flow": "waybill/waybill-flow", "Role waybill-flow": "waybill/waybill-flow",
		"ClusterRole waybill-flow-refs": "waybill/waybill-flow", "ClusterRole waybill-flow-conductor": "waybill/waybill-conductor",
		"ClusterRole waybill-flow-broker": "waybill/waybill-broker", "ClusterRole waybill-flow-api": "waybill/waybill-api"}
	if diff := cmp.Diff(accounts, bound); diff != "" {
		t.Error(diff)
	}
}

// TestRolesForReferencesAreReadOnly: the label gives what a role allows to the controller, so what ships with it only reads.
func TestRolesForReferencesAreReadOnly(t *testing.T) {
	t.Parallel()
	var selected map[string]string
	labelled := 0
	objects := documents[right](t, "../../config/flow/rbac.yaml")
	for _, object := range objects {
		for _, s := range object.AggregationRule.ClusterRoleSelectors {
			selected = s.MatchLabels
		}
	}
	for _, object := range objects {
		if len(selected) == 0 || !cmp.Equal(object.Metadata.Labels, selected) {
			continue
		}
		labelled++
		for _, rule := range object.Rules {
			if slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) }) {
				t.Errorf("%s: verbs %q", object.Metadata.Name, rule.Verbs)
			}
		}
	}
	if labelled == 0 {
		t.Errorf("no role has the labels %v", selected)
	}
}

// TestTheDefinitionIsInstalled: make generate copies it.
func TestTheDefinitionIsInstalled(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../config/flow/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(content, flows.Definition) {
		t.Error("config/flow/crd.yaml differs from the generated definition; make generate copies it")
	}
}

func TestTheControllerIsDeployed(t *testing.T) {
	t.Parallel()
	type deployment struct {
		Metadata struct{ Namespace string }
		Spec     struct {
			Replicas int
			Template struct {
				Spec struct {
					ServiceAccountName string
					Containers         []struct {
						Command        []string
						ReadinessProbe struct{ HTTPGet struct{ Path string } }
					}
				}
			}
		}
	}
	list := documents[deployment](t, "../../config/flow/deploy.yaml")
	if len(list) != 1 || list[0].Spec.Replicas != 2 || list[0].Metadata.Namespace != "waybill" ||
		list[0].Spec.Template.Spec.ServiceAccountName != "waybill-flow" {
		t.Fatalf("got %+v", list)
	}
	container := list[0].Spec.Template.Spec.Containers[0]
	if got := strings.Join(container.Command, " "); !strings.HasPrefix(got, "waybill serve flow ") || !strings.Contains(got, "--listen 0.0.0.0:") {
		t.Errorf("got %s: a probe reaches the pod by its address", got)
	}
	if container.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Errorf("ready by %q", container.ReadinessProbe.HTTPGet.Path)
	}
}

func TestExampleFlowsHaveTheFormOfFlows(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/flow/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("got %v, %v", files, err)
	}
	for _, file := range files {
		list := documents[map[string]any](t, file)
		if len(list) != 2 || list[0]["kind"] != "Channel" || list[1]["kind"] != flows.Kind {
			t.Fatalf("%s: got %v", file, list)
		}
		text, err := yaml.Marshal(list[1])
		if err != nil {
			t.Fatal(err)
		}
		var flow flows.EventFlow
		if err := yaml.UnmarshalStrict(text, &flow); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if flow.Spec.Source.Ref.Name != flow.Name || flow.Spec.Delivery.Retry == nil || *flow.Spec.Delivery.Retry != 10 {
			t.Errorf("%s: got %+v", file, flow.Spec)
		}
	}
}
