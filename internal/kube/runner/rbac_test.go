package runner

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestTheRightsOfBuilds keeps config/builder/rbac.yaml to exactly these rights.
func TestTheRightsOfBuilds(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../../config/builder/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, bound := map[string]map[string][]string{}, map[string]string{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Rules    []struct{ APIGroups, Resources, Verbs []string }
			RoleRef  struct{ Kind, Name string }
			Subjects []struct{ Kind, Name string }
		}
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch object.Kind {
		case "Role":
			got[object.Metadata.Name] = map[string][]string{}
			for _, rule := range object.Rules {
				for _, resource := range rule.Resources {
					got[object.Metadata.Name][resource] = rule.Verbs
				}
			}
		case "RoleBinding":
			bound[object.RoleRef.Name] = object.Subjects[0].Name
		case "ServiceAccount", "NetworkPolicy":
		default:
			t.Errorf("unexpected: %s %s", object.Kind, object.Metadata.Name)
		}
	}
	pods := []string{"create", "get", "list", "watch", "delete"}
	want := map[string]map[string][]string{
		"waybill-worker": {"pods": pods, "pods/finalizers": {"update"}, "events": {"list", "watch"},
			"pods/log": {"get"}, "secrets": {"create", "delete"}},
		"waybill-user": {"pods": pods, "events": {"list", "watch"}, "pods/log": {"get"},
			"secrets": {"create", "delete"}, "pods/portforward": {"create"}},
		"waybill-provisioner": {"pods": {"create", "get", "list", "delete"}, "secrets": {"create", "get", "delete"},
			"pods/portforward": {"create"}},
		"waybill-aggregator": {"pods": {"get", "list", "watch"}, "pods/log": {"get"}, "pods/portforward": {"create"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for role := range want {
		if role != "waybill-user" && bound[role] != role {
			t.Errorf("the role %s is bound to %q", role, bound[role])
		}
	}
}
