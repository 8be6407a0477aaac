package probe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/aws/awstest"
	"github.com/waybill-dev/waybill/internal/config"
)

// cluster returns a fake of an API server that has one workflow template, mirror, in the namespace flows.
func cluster(t *testing.T) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		kind := "WorkflowTemplate"
		switch path := strings.TrimPrefix(r.URL.Path, "/apis/argoproj.io/v1alpha1/namespaces/flows/"); path {
		case "workflows":
			kind = "WorkflowList"
		case "workflowtemplates/mirror":
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w,
				`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "%s not found"}`, path)
			return
		}
		fmt.Fprintf(w, `{"apiVersion": "argoproj.io/v1alpha1", "kind": %q, "metadata": {}, "items": []}`, kind)
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, namespace: flows}}],
clusters: [{name: a, cluster: {server: %q}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func TestALiveCheckTellsWhatIsNotThere(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "waybill")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "waybill-secret")
	t.Setenv("WAYBILL_TEST_TOKEN", "is there")
	amazon := awstest.Start(t)
	source := fmt.Sprintf(`handlers:
  notify:
    type: webhook
    request: {url: "http://127.0.0.1:1/{{ .parameters.team }}", headers: {A: "{{ .secrets.here }}{{ .secrets.gone }}"}}
    parameters: {team: {type: string}}
    secrets:
    - {name: here, type: env, env: WAYBILL_TEST_TOKEN}
    - {name: gone, type: file, path: /no/such/secret}
  inside:
    type: webhook
    request: {url: "http://127.0.0.1:1/", allowNetworks: [127.0.0.0/8]}
  behind:
    type: webhook
    request: {url: "http://127.0.0.1:1/", proxy: "http://127.0.0.1:3128"}
  anywhere:
    type: webhook
    request: {url: "http://{{ .parameters.host }}/"}
    parameters: {host: {type: string}}
  flows:
    type: argo
    argoConf: {k8sOptions: {kubeconfig: %s}}
  nowhere:
    type: argo
    argoConf: {k8sOptions: {kubeconfig: /no/such/kubeconfig}}
  cirrus:
    type: cirrus
    cirrusConf:
      {region: eu-north-1, endpoint: %q, sqsUrl: %q,
      eventsQueueUrl: %q}
workflows:
  mirror: {handler: flows, argoOpts: {template: workflowtemplate/mirror}}
  copy: {handler: flows, argoOpts: {template: workflowtemplate/copy}}
  reproject: {handler: cirrus, cirrusOpts: {sfnArn: %q}}
  absent: {handler: cirrus, cirrusOpts: {sfnArn: "arn:aws:states:eu-north-1:123456789012:stateMachine:absent"}}
`, cluster(t), amazon.URL, amazon.Queue("process"), amazon.URL+"/123456789012/absent", amazon.Machine("reproject"))
	cfg, problems := config.Check("server.yaml", []byte(source))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	found := All(t.Context(), "server.yaml", []byte(source), cfg)
	found.Sort()
	var got []string
	for _, p := range found {
		got = append(got, fmt.Sprintf("%s %s %s", p.Position, p.Code, p.Scope))
	}
	want := []string{
		"server.yaml:4:20 missing handlers.notify.request.url",
		"server.yaml:8:7 missing handlers.notify.secrets[1]",
		"server.yaml:24:41 missing handlers.nowhere.argoConf.k8sOptions.kubeconfig",
		"server.yaml:29:23 missing handlers.cirrus.cirrusConf.eventsQueueUrl",
		"server.yaml:32:47 missing workflows.copy.argoOpts.template",
		"server.yaml:34:50 missing workflows.absent.cirrusOpts.sfnArn",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%v", diff, found)
	}
}
