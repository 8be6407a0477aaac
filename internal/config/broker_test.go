package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNamespacesOfTheBrokersUsers(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("ab", 32)
	for namespaces, want := range map[string][]string{"": nil, ", namespaces: []": {}, ", namespaces: [shop, eu-1]": {"shop", "eu-1"}} {
		c, err := Read("server.yaml", []byte("broker: {catalog: c.yaml, users: {platform: {passwords: ["+digest+"]"+namespaces+"}}}\n"))
		if err != nil {
			t.Fatalf("%s: %v", namespaces, err)
		}
		if diff := cmp.Diff(want, c.Broker.Users["platform"].Namespaces); diff != "" {
			t.Errorf("%s (-want +got):\n%s", namespaces, diff)
		}
	}
	_, err := Read("server.yaml", []byte("broker: {catalog: c.yaml, users: {platform: {passwords: ["+digest+"], namespaces: [Shop]}}}\n"))
	if err == nil || !strings.Contains(err.Error(), `broker.users.platform.namespaces[0]: "Shop": want the name of a namespace`) {
		t.Errorf("a bad name: %v", err)
	}
}

func TestLayoutsOfTheBroker(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", ", layout: per-service": "per-service", ", layout: per-application": "per-application"} {
		if c, err := Read("server.yaml", []byte("broker: {catalog: c.yaml"+text+"}\n")); err != nil || string(c.Broker.Layout) != want {
			t.Errorf("%s: %+v, %v", text, c.Broker, err)
		}
	}
	if _, err := Read("server.yaml", []byte("broker: {catalog: c.yaml, layout: flat}\n")); err == nil || !strings.Contains(err.Error(), "broker.layout") {
		t.Errorf("an unknown layout: %v", err)
	}
}
