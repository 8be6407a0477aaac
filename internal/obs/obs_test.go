package obs

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	c, d := NewConductor(registry), NewDeployer(registry)
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
	for _, want := range []string{"waybill_conductor_attempts_total", "waybill_conductor_unflushed", "waybill_deployer_passes_total", "waybill_deployer_fold_seconds", "go_goroutines"} {
		if !names[want] {
			t.Errorf("%s is missing", want)
		}
	}
}
