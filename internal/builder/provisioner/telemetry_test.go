package provisioner_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/builder/provisioner"
)

// collector is an environment whose collector wants a key.
var collector = map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector.example.org:4318",
	"OTEL_EXPORTER_OTLP_HEADERS": "api-key=swordfish",
	"OTEL_SERVICE_NAME":          "builds$(HOME)", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/etc/ca.pem",
	"OTEL_RESOURCE_ATTRIBUTES": "k8s.pod.name=provisioner", "HOME": "/root"}

func telemetryOf(environment map[string]string) provisioner.Telemetry {
	return provisioner.TelemetryFrom(func(name string) string { return environment[name] })
}

func TestTelemetryOfAnEnvironment(t *testing.T) {
	t.Parallel()
	want := provisioner.Telemetry{"OTEL_SERVICE_NAME=builds$(HOME)",
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://collector.example.org:4318", "OTEL_EXPORTER_OTLP_HEADERS=api-key=swordfish"}
	if diff := cmp.Diff(want, telemetryOf(collector)); diff != "" {
		t.Error(diff)
	}
	for _, own := range []string{"http://localhost:4318", "http://127.0.0.2:4318", "http://[::1]:4318/v1/traces"} {
		if got := telemetryOf(map[string]string{"OTEL_SERVICE_NAME": "builds", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": own}); got != nil {
			t.Errorf("with a collector at %s workers get %q", own, got)
		}
	}
}

// TestAPodHasItsTelemetryFromASecret: the pod shows no value, and no container but the worker's has the variables.
func TestAPodHasItsTelemetryFromASecret(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Telemetry = telemetryOf(collector)
	w, _, err := c.Create(t.Context(), podLaunch(41))
	if err != nil {
		t.Fatal(err)
	}
	pod := c.object("pods", w.WorkerID).Object
	if shown := text(t, pod); strings.Contains(shown, "swordfish") || strings.Contains(shown, "collector.example.org") {
		t.Errorf("the pod is %s", shown)
	}
	spec := pod["spec"].(map[string]any)
	want := `{"name":"OTEL_EXPORTER_OTLP_HEADERS","valueFrom":{"secretKeyRef":{"key":"OTEL_EXPORTER_OTLP_HEADERS","name":"waybill-worker-main-41","optional":true}}}`
	if got := text(t, spec["containers"]); !strings.Contains(got, want) {
		t.Errorf("the worker's container is %s", got)
	}
	if got := text(t, spec["initContainers"]); strings.Contains(got, "OTEL_") {
		t.Errorf("the container that clones is %s", got)
	}
	given := c.object("secrets", w.WorkerID).Object["stringData"].(map[string]any)
	if given["OTEL_EXPORTER_OTLP_HEADERS"] != "api-key=swordfish" || given["OTEL_SERVICE_NAME"] != "builds$(HOME)" || len(given) != 4 {
		t.Errorf("the Secret is %s", text(t, given))
	}
	if other := text(t, c.object("secrets", w.WorkerID+"-credentials").Object); strings.Contains(other, "OTEL_") {
		t.Errorf("the credentials are %s", other)
	}
}

// TestAContainerHasTelemetryWithoutSecrets: docker inspect shows variables.
func TestAContainerHasTelemetryWithoutSecrets(t *testing.T) {
	t.Parallel()
	d := dockerBackend(t, func(c *provisioner.DockerConfig) { c.Telemetry = telemetryOf(collector) })
	got := strings.Join(d.Options(dockerLaunch()).Config.Env, "\n")
	if !strings.Contains(got, "\nOTEL_EXPORTER_OTLP_ENDPOINT=https://collector.example.org:4318") || strings.Contains(got, "swordfish") {
		t.Errorf("its environment is\n%s", got)
	}
	d = dockerBackend(t, func(c *provisioner.DockerConfig) {
		c.Telemetry = telemetryOf(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://ana:swordfish@collector.example.org"})
	})
	if got := strings.Join(d.Options(dockerLaunch()).Config.Env, "\n"); strings.Contains(got, "swordfish") {
		t.Errorf("its environment is\n%s", got)
	}
}
