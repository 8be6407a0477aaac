package config

import (
	"encoding/json"
	"fmt"
	"strings"
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
	for _, bad := range []string{`{}`, `{"template": "mirror"}`, `{"template": "workflowtemplate/a", "labels": {"n": 1}}`,
		`{"template": "workflowtemplate/a", "zone": "a"}`} {
		if _, err := c.Handlers["prod"].Prepare(json.RawMessage(bad)); err == nil {
			t.Errorf("%s was prepared", bad)
		}
	}
}

func TestArgoHandlersMayResume(t *testing.T) {
	t.Parallel()
	c, err := Read("server.yaml", []byte(`
handlers:
  wake: {type: argo, argoConf: {mode: resume}, parameters: {by: {type: string}, size: {type: integer, default: 1}}}
workflows:
  mirror:
    handler: noop
    callbacks: {wake: {handler: wake, when: [successful], parameters: {workflow: {path: $.input.waiting}, node: {value: approve}, by: {path: $.workflow.status}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	filled, problems := c.Handlers["wake"].Parameters.Fill(json.RawMessage(`{"workflow": "w", "node": "approve", "by": "ana"}`))
	if len(problems) > 0 || len(filled) != 4 || fmt.Sprint(filled["size"]) != "1" {
		t.Errorf("filled %v, %v", filled, problems)
	}
	for text, want := range map[string]string{
		"handlers:\n  a: {type: argo, argoConf: {mode: resme}}\n":                                                                          `server.yaml:2:36: handlers.a.argoConf.mode: "resme" is none of create, resume (did you mean "resume"?)`,
		"handlers:\n  a: {type: argo, parameters: {by: {}}}\n":                                                                             "server.yaml:2:31: handlers.a.parameters: these are outputs of suspended nodes, in mode resume; a handler that makes workflows has its own",
		"handlers:\n  a: {type: argo, argoConf: {mode: resume}, parameters: {node: {}}}\n":                                                 "server.yaml:2:58: handlers.a.parameters.node: this says what is resumed, and cannot be an output",
		"handlers: {a: {type: argo, argoConf: {mode: resume}}}\nworkflows:\n  w: {handler: a, argoOpts: {template: workflowtemplate/x}}\n": "server.yaml:3:16: workflows.w.handler: the handler a resumes workflows; a process needs one that makes them",
		"handlers: {a: {type: argo, argoConf: {mode: resume}}}\nworkflows:\n  w: {handler: noop, callbacks: {c: {handler: a, when: [failed, retries_exhausted], parameters: {workflow: {value: w}}}}}\n": `server.yaml:3:34: workflows.w.callbacks.c: the parameter "node" of the handler a is missing`,
	} {
		if _, err := Read("server.yaml", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// TestWhatKubernetesRejectsIsAFault of the file, not of the first action.
func TestWhatKubernetesRejectsIsAFault(t *testing.T) {
	t.Parallel()
	_, problems := Check("server.yaml", []byte(`handlers:
  flows: {type: argo}
workflows:
  mirror:
    handler: flows
    argoOpts:
      template: workflowtemplate/Mirror_1
      serviceAccount: "a b"
      labels: {"label$1": x, ok: "bad$val", fine/team: web}
      annotations: {"an no": any text, fine: "any $text"}
      parameters: {"paramet%%er1": x, zone-1_a: y}
`))
	var got []string
	for _, p := range problems {
		text, _, _ := strings.Cut(p.String(), ": Kubernetes rejects")
		got = append(got, text)
	}
	want := []string{
		`server.yaml:7:17: workflows.mirror.argoOpts.template: "Mirror_1"`,
		`server.yaml:8:23: workflows.mirror.argoOpts.serviceAccount: "a b"`,
		`server.yaml:9:16: workflows.mirror.argoOpts.labels: "label$1"`,
		`server.yaml:9:34: workflows.mirror.argoOpts.labels.ok: "bad$val"`,
		`server.yaml:10:21: workflows.mirror.argoOpts.annotations: "an no"`,
		`server.yaml:11:20: workflows.mirror.argoOpts.parameters: "paramet%%er1" is not a valid name of an Argo parameter: letters, digits, - and _ only`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestArtifactsHaveABucket: an artifact to read from a bucket names it.
func TestArtifactsHaveABucket(t *testing.T) {
	t.Parallel()
	file := func(conf, output string) string {
		return "handlers: {a: {type: argo, argoConf: {" + conf +
			"}}}\nworkflows:\n  w: {handler: a, argoOpts: {template: workflowtemplate/x, output: {" + output + "}}}\n"
	}
	const bucket = `artifacts: "s3://flows?endpoint=http://127.0.0.1:1"`
	c, err := Read("server.yaml", []byte(file(bucket, `key: "executions/{{ .id }}/output.json"`)))
	if err != nil {
		t.Fatal(err)
	}
	if a, o := c.Handlers["a"].Argo, c.ArgoOutput("w"); a.Bucket() != "flows" || o == nil || o.Key == nil || c.ArgoOutput("other") != nil {
		t.Errorf("bucket %q, output %+v", a.Bucket(), o)
	}
	for text, want := range map[string]string{
		file("", "parameter: p"): "",
		file("", "artifact: a"): "server.yaml:3:68: workflows.w.argoOpts.output: the handler a has no " +
			"argoConf.artifacts, from which it would be read",
		file(bucket, "artifact: a, parameter: p"):   "server.yaml:3:68: workflows.w.argoOpts.output: want one of parameter, artifact and key",
		file(bucket, `key: "{{ .action.name }}"`):   "server.yaml:3:74: workflows.w.argoOpts.output.key: ",
		file("artifacts: /tmp", "parameter: p"):     `server.yaml:1:50: handlers.a.argoConf.artifacts: want s3://BUCKET?endpoint=URL&region=NAME, found "/tmp"`,
		file("artifacts: s3://a/b", "parameter: p"): `server.yaml:1:50: handlers.a.argoConf.artifacts: want s3://BUCKET?endpoint=URL&region=NAME, found "s3://a/b"`,
	} {
		_, err := Read("server.yaml", []byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}
