package pool

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

func TestClustersOfTenantsAreNotAtRefusedAddresses(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	proxy, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(at netip.Addr) error {
		if at.IsLoopback() {
			return errors.New("refused")
		}
		return nil
	}
	p := New(Config{Clusters: map[string]*rest.Config{"": {}, "leaf": {}}, Check: refuse})
	probe := func(name string, config *rest.Config) error {
		c, err := connect(config, nil, p.guardOf(name), func() {})
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		return c.probe(t.Context())
	}
	for what, config := range map[string]*rest.Config{
		"an address": {Host: server.URL},
		"a name":     {Host: "http://localhost:" + proxy.Port()},
		"a proxy":    {Host: "https://192.0.2.1", Proxy: http.ProxyURL(proxy)},
	} {
		if err := probe("apps/leaf", config); err == nil || !strings.Contains(err.Error(), "refused") || asked.Load() > 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"", "leaf"} {
		if err := probe(name, &rest.Config{Host: server.URL}); err != nil {
			t.Errorf("a cluster of the operator: %v", err)
		}
	}
}
