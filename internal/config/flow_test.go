package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFlowSection(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*Flow{
		"":           nil,
		"flow: {}\n": {Applications: []string{"kyma-integration"}, Elect: true},
		"flow: {kubeconfig: k.yaml, context: dev, applications: [a, b-1], elect: false}\n": {
			Kubeconfig: "/etc/waybill/k.yaml", Context: "dev", Applications: []string{"a", "b-1"}},
		"flow: {kubeconfig: /k.yaml, applications: []}\n": {Kubeconfig: "/k.yaml", Applications: []string{}, Elect: true},
	} {
		c, err := Read("/etc/waybill/server.yaml", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, c.Flow); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestFaultsOfTheFlowSectionHavePlaces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{applications: [Kyma]}":   `server.yaml:1:23: flow.applications[0]: "Kyma": want the name of a namespace`,
		"{applications: [a, a.b]}": `server.yaml:1:26: flow.applications[1]: "a.b": want the name of a namespace`,
		"{applications: [a, a]}":   `server.yaml:1:26: flow.applications[1]: "a" is named twice`,
		`{applications: [""]}`:     `flow.applications[0]: "": want the name of a namespace`,
		"{applications: a}":        "server.yaml:1:22",
		"{elect: perhaps}":         "server.yaml:1:15",
		"{kubeconfig: [a]}":        "server.yaml:1:20",
		"{cluster: dev}":           `server.yaml:1:8: unknown key "cluster" in flow`,
		"{applications: [" + strings.Repeat("a, ", 101) + "]}": "server.yaml:1:22: flow.applications: 101 namespaces, at most 100",
	} {
		_, err := Read("server.yaml", []byte("flow: "+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %s", text, err, want)
		}
	}
}
