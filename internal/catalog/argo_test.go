package catalog

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestArgoHandlersAreRead(t *testing.T) {
	t.Parallel()
	c, err := Read("/etc/waybill/server.yaml", []byte(`
handlers:
  flows: {type: argoWorkflows}
  prod:
    type: argo
    argoConf:
      instanceId: blue
      finalizer: false
      k8sOptions: {kubeconfig: kubeconfig, configOverrides: {currentContext: prod, context: {namespace: flows}}}
caboose: {workers: 8, resync: 1h}
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Argo{Finalizer: true}, c.Handlers["flows"].Argo); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	want := &Argo{Kubeconfig: "/etc/waybill/kubeconfig", Context: "prod", Namespace: "flows", InstanceID: "blue"}
	if diff := cmp.Diff(want, c.Handlers["prod"].Argo); diff != "" {
		t.Errorf("prod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Caboose{Workers: 8, Resync: time.Hour}, c.Caboose); diff != "" {
		t.Errorf("caboose (-want +got):\n%s", diff)
	}
	good := `{"template": "workflowtemplate/mirror", "parameters": {"zone": "a", "n": [1]}, "labels": {"team": "web"}}`
	a, err := c.Handlers["prod"].Prepare(json.RawMessage(good))
	if err != nil || a.Handler != "prod" || a.Lane != "prod" {
		t.Errorf("prepared %+v, %v", a, err)
	}
	for _, bad := range []string{`{}`, `{"template": "mirror"}`, `{"template": "workflowtemplate/a", "labels": {"n": 1}}`, `{"template": "workflowtemplate/a", "zone": "a"}`} {
		if _, err := c.Handlers["prod"].Prepare(json.RawMessage(bad)); err == nil {
			t.Errorf("%s was prepared", bad)
		}
	}
}
