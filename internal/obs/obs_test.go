package obs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/fault"
)

func TestLogIsJSONUnlessOnATerminal(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("not shown")
	Component(log, "conductor").Info("attempt ended", KeyAttempt, 2, Error(errors.New("no route")))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%q is not a single line of JSON: %v", out.String(), err)
	}
	delete(line, "time")
	want := map[string]any{"level": "INFO", "msg": "attempt ended", "component": "conductor", "attempt": 2.0, "error": "no route"}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Error(diff)
	}
}

func TestTextLogAndLevels(t *testing.T) {
	var out bytes.Buffer
	level, err := ParseLevel("debug")
	if err != nil {
		t.Fatal(err)
	}
	log, err := NewLogger(&out, LogOptions{Format: Text, Level: level})
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("shown")
	if !strings.Contains(out.String(), "level=DEBUG msg=shown") {
		t.Errorf("got %q", out.String())
	}
}

func TestUnknownFormatsAndLevelsAreRefused(t *testing.T) {
	if _, err := NewLogger(&bytes.Buffer{}, LogOptions{Format: "xml"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("format: %v", err)
	}
	if _, err := ParseLevel("loud"); !fault.Is(err, fault.Invalid) {
		t.Errorf("level: %v", err)
	}
}

func TestNoLoggerIsNoFault(t *testing.T) {
	Component(nil, "deployer").Info("goes nowhere")
	if Or(nil).Enabled(t.Context(), slog.LevelError) {
		t.Error("a missing logger logs")
	}
}

func TestMetricsCarryTheirComponentsPrefix(t *testing.T) {
	registry := NewRegistry()
	c, d := NewConductor(registry), NewDeployer(registry, false)
	c.Attempts.WithLabelValues("step", "done").Inc()
	d.Passes.WithLabelValues("ok").Inc()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", f.GetName())
		}
	}
	for _, want := range []string{"waybill_conductor_attempts_total", "waybill_conductor_unflushed",
		"waybill_deployer_passes_total", "waybill_deployer_fold_seconds", "go_goroutines"} {
		if !names[want] {
			t.Errorf("%s is missing", want)
		}
	}
}

// TestMetricsOfDeploymentsHaveTheirNamesAndLabels: dashboards and alerts are written for them.
func TestMetricsOfDeploymentsHaveTheirNamesAndLabels(t *testing.T) {
	const common = `deployer_pipelines deployer_passes_total{end} deployer_pass_seconds deployer_rows_appended_total{class}
		deployer_step_seconds{event} deployer_drifted_hosts deployer_superseded_total deployer_rollbacks_total deployer_archived_total deployer_refolds_total
		deployer_fold_seconds deployer_invariant_violations_total{invariant}
		ssh_connections ssh_dials_total{end} ssh_dial_seconds ssh_sent_bytes_total ssh_reused_total`
	for perPipeline, counted := range map[bool]string{
		false: `deployer_lag_rows deployer_blocked_steps{reason} deployer_deployments{status}`,
		true:  `deployer_lag_rows{pipeline} deployer_blocked_steps{pipeline,reason} deployer_deployments{pipeline,status}`,
	} {
		registry := prometheus.NewRegistry()
		NewDeployer(registry, perPipeline)
		NewObserver(registry)
		NewSSH().Register(registry)
		described := make(chan *prometheus.Desc)
		go func() {
			registry.Describe(described)
			close(described)
		}()
		var all []string
		for d := range described {
			all = append(all, d.String())
		}
		for _, want := range strings.Fields(common + " " + counted) {
			name, labels, _ := strings.Cut(strings.TrimSuffix(want, "}"), "{")
			found := func(d string) bool {
				return strings.Contains(d, fmt.Sprintf(`fqName: "waybill_%s",`, name)) &&
					strings.Contains(d, fmt.Sprintf("variableLabels: {%s}", labels))
			}
			if !slices.ContainsFunc(all, found) {
				t.Errorf("waybill_%s is missing, among:\n%s", want, strings.Join(all, "\n"))
			}
		}
	}
}
